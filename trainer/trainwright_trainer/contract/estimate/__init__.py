"""What a run costs on paper: the one estimate of memory and traffic, from a configuration or from a model that was counted."""
