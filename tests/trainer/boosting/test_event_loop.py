"""A rank whose event loop has ended under it is ended too, and no other."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc to look at")

PROGRAM = """
import os, threading, time
from pathlib import Path
from trainwright_trainer.boosting import event_loop

event_loop._LOOK_SECONDS, event_loop._PATIENCE_SECONDS = 0.1, 0.3
over = threading.Event()

def work():  # under the name of XGBoost's thread, until it is over
    Path(f"/proc/self/task/{{threading.get_native_id()}}/comm").write_text("python>lw")
    named.set()
    over.wait()

named = threading.Event()
threading.Thread(target=work, daemon=True).start()
named.wait()
watch = event_loop.EventLoopWatch(lambda: os._exit(202))
[looker] = [thread for thread in threading.enumerate() if thread.name == "event-loop-watch"]
time.sleep(0.5)
{then}
looker.join({seconds})
os._exit(3)
"""


def status_after(then: str, seconds: float) -> int:
    return subprocess.run([sys.executable, "-c", PROGRAM.format(then=then, seconds=seconds)], check=False).returncode


@pytest.mark.parametrize(("then", "seconds", "status"), [
    ("over.set()", 60, 202),
    ("pass", 1.5, 3),
    ("watch.close(); over.set()", 60, 3),
    ("event_loop._PATIENCE_SECONDS = 10; over.set(); time.sleep(0.5); watch.close()", 60, 3),
    ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", 1.5, 3),
], ids=["ended", "there", "closed before", "got over it", "nobody can look"])
def test_who_is_ended(then: str, seconds: float, status: int) -> None:
    """``seconds`` bound what the watch may still do: where it looks on for ever nothing comes after them."""
    assert status_after(then, seconds) == status
