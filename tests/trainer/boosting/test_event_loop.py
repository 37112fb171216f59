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
time.sleep(0.5)
{then}
threading.Event().wait(1.5)
os._exit(3)
"""


def status_after(then: str) -> int:
    return subprocess.run([sys.executable, "-c", PROGRAM.format(then=then)], check=False).returncode


@pytest.mark.parametrize(("then", "status"), [
    ("over.set()", 202),
    ("pass", 3),
    ("watch.close(); over.set()", 3),
    ("over.set(); time.sleep(0.1); watch.close()", 3),
    ("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))", 3),
], ids=["ended", "there", "closed before", "got over it", "nobody can look"])
def test_who_is_ended(then: str, status: int) -> None:
    assert status_after(then) == status
