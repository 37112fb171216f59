"""On pods and other objects: what is stated of them, and what they are when they are finished."""
