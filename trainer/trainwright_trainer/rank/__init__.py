"""Rank."""
