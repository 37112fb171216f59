"""What runs in a cluster: read, and changed when asked."""
