"""What a rank and its supervisor say to each other."""
