"""The escape hatch: patches of a run on its finished objects, kept away from what the plan owns."""
