"""Tables in a terminal, and those that are drawn anew in place: runs of a cluster, and pods of a rehearsal."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def can_redraw(console: Console) -> bool:
    """Whether what was drawn can be drawn over: on a terminal, but not in CI, where a log keeps every line."""
    return console.is_terminal and not console.is_dumb_terminal and not os.environ.get("CI")


def columns(rows: Sequence[Sequence[str]], least: int = 2) -> list[str]:
    """Rows, with their cells below each other. Of the columns behind ``least`` those that hold nothing but ``-`` below the first
    row, which has the names, are left out.
    """
    kept = [index for index, _ in enumerate(rows[0]) if index < least or any(row[index] != "-" for row in rows[1:])]
    widths = {index: max(len(row[index]) for row in rows) for index in kept}
    return ["  ".join(row[index].ljust(widths[index]) for index in kept).rstrip() for row in rows]


class Screen:
    """The last lines of a terminal. What the console prints meanwhile stands above them."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live  # most commands draw nothing

        self._live = Live(console=console, auto_refresh=False)

    def draw(self, lines: Sequence[str], *below: RenderableType) -> None:
        from rich.console import Group
        from rich.text import Text

        if not self._live.is_started:
            self._live.start()
        self._live.update(Group(Text("\n".join(lines)), *below), refresh=True)

    def close(self) -> None:
        """What was drawn last stays."""
        self._live.stop()
