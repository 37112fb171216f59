"""One save under way, in a thread or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from trainwright_trainer.position import Position


class Saving:
    """A function that is called once, and whose failure waits for somebody who asks."""

    def __init__(self, position: Position, write: Callable[[], None]) -> None:
        self.position = position
        self._write = write
        self._began = time.monotonic()
        self._seconds = 0.0
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    @property
    def done(self) -> bool:
        """Whether :meth:`result` need not wait."""
        return self._thread is None or not self._thread.is_alive()

    def start(self) -> None:
        """Run in a thread, which does not keep a process that ends."""
        self._thread = threading.Thread(target=self.run, name="checkpoint", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Run here and now. Never raises."""
        try:
            self._write()
        except BaseException as error:
            self._error = error
        self._seconds = self.age

    def result(self) -> float:
        """Wait for the end; gives the seconds from first to last, and raises what went wrong."""
        if self._thread is not None:
            self._thread.join()
        if self._error is not None:
            raise self._error
        return self._seconds
