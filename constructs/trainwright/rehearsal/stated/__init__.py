"""What the manifests state: their objects, each pod as its controller creates it, its environment and its volumes."""
