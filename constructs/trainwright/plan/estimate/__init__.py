"""What a model costs on paper: memory, traffic, how it scales, and what would make it fit."""
