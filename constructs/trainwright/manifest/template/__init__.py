"""The pod template that every target shares, part by part."""
