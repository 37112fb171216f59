"""What supervisors say to each other, and the connections between them."""
