"""On the work itself: training, memory, data, roles, and how it is watched and ends."""
