"""Kueue, which admits jobs of any kind."""
