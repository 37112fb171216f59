"""On pods and other objects: what is stated of them, what they ask of a node, and what they are when they are finished."""
