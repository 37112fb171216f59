"""Elastic runs: where pods meet, and meet again when one of them came or went."""
