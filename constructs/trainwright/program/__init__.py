"""What goes wrong with the program of one container, of a run or of a foreign manifest: its command, variables, paths, peers."""

from __future__ import annotations

from trainwright.program import ending, options, peers

RULES = (*ending.RULES, *options.RULES, *peers.RULES)
"""Each looks at one container and returns findings."""
