"""The thread in which XGBoost carries out collectives, and the end of a rank where it leaves one unanswered.

When a connection breaks, that thread wakes the main thread first and notes the failure afterwards. A main thread that is quick in
between takes the collective for done, with whatever was in its buffers. With the next one it finds the note and stops the thread,
whose queue then holds operations that nobody answers, and it waits for them without a limit of time (seen with 3.2;
src/collective/loop.cc: ProcessQueue, Process, Block).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

_TASKS = Path("/proc/self/task")
_NAME_ENDS = ">lw"
"""After the name of the thread that made it (src/common/threading_utils.cc, NameThread)."""
_LOOK_SECONDS, _PATIENCE_SECONDS = 1.0, 5.0
"""Where the main thread does hear of the failure, it ends the rank within the patience."""


class EventLoopWatch:
    """Looks whether the thread is there. Make it after XGBoost has connected, and close it before it disconnects.

    Where the system has no ``/proc`` nothing is watched; the supervisors end such a rank too, once they miss its peer.

    Args:
        on_end: Called in a thread of its own when the event loop has ended and the main thread has not got over it.
    """

    def __init__(self, on_end: Callable[[], object]) -> None:
        self._on_end = on_end
        self._closed = threading.Event()
        self._names = [task / "comm" for task in _TASKS.glob("*") if is_event_loop(task / "comm")]
        if self._names:
            threading.Thread(target=self._watch, name="event-loop-watch", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while not any(map(has_ended, self._names)):
            if self._closed.wait(_LOOK_SECONDS):
                return
        if not self._closed.wait(_PATIENCE_SECONDS):
            self._on_end()


def is_event_loop(name: Path) -> bool:
    """Whether it is the ``comm`` of such a thread."""
    try:
        return name.read_text().strip().endswith(_NAME_ENDS)
    except OSError:
        return False


def has_ended(name: Path) -> bool:
    """Whether the thread of a ``comm`` is gone. A process without a free descriptor cannot tell, and then it is not."""
    try:
        return not name.read_text().strip().endswith(_NAME_ENDS)  # another thread has got its number
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
