"""What every process of a rank stands on: its place in the world, its line to the supervisor, its checks and its end."""
