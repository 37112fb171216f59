"""What one kind of rendezvous brings, for every target that offers it."""
