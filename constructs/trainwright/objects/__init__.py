"""What can be said about any Kubernetes object: its fields, names and labels, CEL, and problems with their places."""
