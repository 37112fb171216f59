"""Stacks of a process, whatever its main thread is in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.processes import wait_until

from trainwright_trainer.observe.stacks import Frame, StackFile, main_thread_frame
from trainwright_trainer.run.link import STACKS_FD_ENV

PROGRAM = """
import ctypes, os, threading, time
from trainwright_trainer.run.link import offer_stacks
offer_stacks(os.environ)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
getchar = ctypes.PyDLL(None).getchar  # holds the interpreter's lock
def deep_inside():
    print("ready", flush=True)
    {inside}
deep_inside()
"""


def frame_of(inside: str) -> tuple[str, Frame | None]:
    """What a process says that is in this statement for ever."""
    stacks = StackFile()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(inside=inside)], env={**os.environ, STACKS_FD_ENV: str(stacks.descriptor)},
        pass_fds=[stacks.descriptor], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for asked in (1, 2):
            process.send_signal(signal.SIGUSR2)
            wait_until(lambda asked=asked: stacks.read().count("deep_inside") == asked, "stacks")  # type: ignore[misc]
        wait_until(lambda: main_thread_frame(stacks.read()) is not None, "the main thread's stack")
        assert process.poll() is None, "the question ends nothing"
        return stacks.read(), main_thread_frame(stacks.read())
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        stacks.close()


def test_a_main_thread_that_sleeps() -> None:
    text, frame = frame_of("time.sleep(600)")
    assert frame is not None
    assert (frame.file, frame.function, frame.waits_for_others) == ("<string>", "deep_inside", False)
    assert text.count("Thread 0x") + text.count("Current thread 0x") >= 4  # two threads, twice


def test_a_main_thread_in_c_code_that_never_gives_way() -> None:
    _, frame = frame_of("getchar()")
    assert frame is not None
    assert frame.function == "deep_inside"


def test_whoever_waits_for_a_thread_is_named() -> None:
    _, frame = frame_of("threading.Event().wait()")
    assert frame is not None
    assert frame.function == "deep_inside"


def test_waiting_for_others() -> None:
    torch = "/usr/lib/python3/dist-packages/torch"
    assert Frame(f"{torch}/distributed/distributed_c10d.py", 2806, "all_reduce").waits_for_others
    assert Frame(f"{torch}/autograd/graph.py", 824, "_engine_run_backward").waits_for_others
    assert not Frame(f"{torch}/nn/modules/linear.py", 125, "forward").waits_for_others
    assert Frame("/site-packages/xgboost/core.py", 2286, "update").waits_for_others
    assert not Frame("/site-packages/xgboost/core.py", 880, "__init__").waits_for_others  # of a table
    assert Frame("/site-packages/tensorflow/python/eager/execute.py", 53, "quick_execute").waits_for_others
    assert str(Frame(f"{torch}/nn/modules/linear.py", 125, "forward")) == "linear.py:125 in forward"


def test_nothing_was_written() -> None:
    stacks = StackFile()
    assert stacks.read() == ""
    assert main_thread_frame("") is None
    stacks.close()
    stacks.close()


def test_a_rank_that_has_ended_before_its_helpers() -> None:
    """It counts as alive until they have, and is asked with the others."""
    stacks = StackFile()
    os.write(stacks.descriptor, b"handler installed\n")
    stacks.close()
    assert stacks.read() == ""
