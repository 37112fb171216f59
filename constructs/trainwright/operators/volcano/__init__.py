"""Job of Volcano."""
