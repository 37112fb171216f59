"""What goes wrong with the program of one container, of a run or of a foreign manifest: its command, variables, paths, peers."""

from __future__ import annotations

from trainwright.program import ending, options, paths, peers, settings, ssh, told, values

RULES = (*ending.RULES, *options.RULES, *peers.RULES, *paths.RULES, *settings.RULES, *told.RULES, *values.RULES)
"""Each looks at one container and returns findings."""
TOGETHER = (ssh.reaches_sshd,)
"""Each looks at all containers of a run, or of an object."""
