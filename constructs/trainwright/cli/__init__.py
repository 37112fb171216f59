"""The ``trainwright`` command."""

import atexit
import gc

gc.set_threshold(1_000_000)  # a command is over before it has made that much garbage; looking for it costs a tenth of the start
atexit.register(gc.freeze)  # or the interpreter looks for it once more when it ends, which costs another tenth

from trainwright.cli.main import main  # noqa: E402

__all__ = ["main"]
