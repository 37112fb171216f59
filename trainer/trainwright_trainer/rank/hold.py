"""Hold: where a rank is, and whether it may go on. The rank's half of the agreement in :mod:`messages`, without a socket.

A rank is *in* tick ``n`` from the moment it passes the boundary before ``n`` until it passes the next one. Once it has said where
it is, it passes no boundary until the answer comes. So node 0 hears ticks that stay true, and one more than the highest is a
boundary that no rank has passed and every rank still reaches: nobody is held inside a tick, where others may wait for it.
"""

from __future__ import annotations

from trainwright_trainer.rank.messages import Action


class Hold:
    """The state of one rank. Not thread-safe: its owner locks."""

    def __init__(self) -> None:
        self._tick: int | None = None
        self._request: int | None = None
        self._due: dict[int, Action] = {}

    @property
    def held(self) -> bool:
        """Whether an answer is awaited, so that no boundary may be passed."""
        return self._request is not None

    def where(self, request: int) -> int | None:
        """The tick the rank is in, or None before the first; from now on it is held, unless there is nothing to hold."""
        if self._tick is not None:
            self._request = request
        return self._tick

    def act(self, request: int, action: Action, tick: int) -> None:
        """Let go, and do ``action`` at the boundary before ``tick``. An answer to an earlier request is out of date."""
        if request != self._request:
            return
        self._request = None
        if self._due.get(tick) != "stop":
            self._due[tick] = action

    def carry(self, request: int) -> None:
        """Let go; nothing was agreed."""
        if request == self._request:
            self._request = None

    def enter(self, tick: int) -> Action | None:
        """Pass the boundary before ``tick``. Gives what was agreed to do there, before the tick's own work.

        Raises ``RuntimeError`` if the rank is held: the caller waits first.
        """
        if self.held:
            raise RuntimeError("a held rank passes no boundary")
        self._tick = tick
        return self._due.pop(tick, None)
