"""The user's own program under the supervisor."""

from __future__ import annotations

import signal
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.processes import is_running, wait_until
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import Run

from trainwright_trainer.checkpoint import read_complete
from trainwright_trainer.contract import ExitCode

TRAP = """
    import os, signal, sys, time
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    open(os.path.join(sys.argv[1], "rank-" + os.environ["RANK"]), "w").close()
    while not stopped:
        time.sleep(0.02)
    sys.exit(int(sys.argv[2]))
"""


def script(source: str, *arguments: object, **options: Any) -> dict[str, Any]:
    command = [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)]
    return {"kind": "script", "command": command, **options}


def last_words(run: Run, index: int = 0) -> str:
    cause = run.pods[index].message().cause
    assert cause is not None
    return cause.message


def wait_for_scripts(run: Run, directory: Path) -> None:
    wait_until(lambda: len(list(directory.glob("rank-*"))) == run.spec.world.size, "scripts are ready")


def test_success_writes_the_marker_and_is_not_run_again(new_run: NewRun, tmp_path: Path) -> None:
    run = new_run(nodes=2, work=script("print('trained')", state_directory=str(tmp_path / "state")))
    run.start_all()
    assert run.wait() == [0, 0], run.logs()
    complete = read_complete(tmp_path / "state")
    assert complete is not None
    assert complete.identity == run.spec.identity
    assert "trained" in run.pods[0].log_path.read_text()
    run.pods.clear()
    run.start(1)
    assert run.wait() == [0]
    assert "trained" not in run.pods[0].log_path.read_text()


def test_its_environment_is_torchs(new_run: NewRun) -> None:
    source = "import os; print('rank {RANK} {MASTER_ADDR}'.format_map(os.environ))"  # at once: several words are several writes
    run = new_run(nodes=2, processes=2, work=script(source))
    run.start_all()
    assert run.wait() == [0, 0]
    assert f"rank 3 {run.spec.world.meeting.host}" in run.pods[1].log_path.read_text()


KEPT_BY_THE_C_LIBRARY = 1 << 31 | 1 << 32
"""Signals 32 and 33: glibc lets no program change them, so they are as whoever started the tests left them."""
KEPT_BY_ALL = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""What a shell has its background jobs ignore, and nohup its command: every program below does too."""


def test_signals_are_as_a_program_expects_them(new_run: NewRun) -> None:
    run = new_run(nodes=1, work={"kind": "script", "command": ["grep", "-E", "SigIgn|SigBlk", "/proc/self/status"]})
    run.start_all()
    assert run.wait() == [0]
    kept = KEPT_BY_THE_C_LIBRARY
    for number in KEPT_BY_ALL:
        kept |= (signal.getsignal(number) == signal.SIG_IGN) << number - 1
    for line in run.pods[0].log_path.read_text().splitlines():
        if line.startswith("Sig"):
            assert int(line.split()[1], 16) & ~kept == 0, line


def test_a_failure_is_the_users(new_run: NewRun) -> None:
    run = new_run(nodes=2, work=script("import os, sys; sys.exit(14 if os.environ['RANK'] == '1' else 0)"))
    run.start_all()
    assert run.wait() == [ExitCode.PEER_LOST, ExitCode.USER_FAILURE], run.logs()
    assert last_words(run, 1) == "rank 1 exited with 14"


def test_the_protocol_lets_it_use_our_codes(new_run: NewRun) -> None:
    run = new_run(nodes=1, work=script("import sys; sys.exit(14)", protocol=True))
    run.start_all()
    assert run.wait() == [ExitCode.DIVERGED]


def test_a_pod_that_is_done_waits_for_the_others(new_run: NewRun) -> None:
    """A finished index of a Job never comes back, so it must not finish alone."""
    source = "import os, sys, time; time.sleep(2 * int(os.environ['RANK'])); sys.exit(int(os.environ['RANK']))"
    run = new_run(nodes=2, work=script(source))
    run.start_all()
    assert run.wait() == [ExitCode.PEER_LOST, ExitCode.USER_FAILURE], run.logs()


def test_sigterm_reaches_every_script(new_run: NewRun, tmp_path: Path) -> None:
    run = new_run(nodes=2, work=script(TRAP, tmp_path, ExitCode.PREEMPTED_SAVED, protocol=True))
    run.start_all()
    wait_for_scripts(run, tmp_path)
    run.pods[1].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_SAVED] * 2, run.logs()


def test_a_script_that_exits_with_0_when_told_to_end_has_not_finished(new_run: NewRun, tmp_path: Path) -> None:
    run = new_run(nodes=2, work=script(TRAP, tmp_path, 0, state_directory=str(tmp_path / "state")))
    run.start_all()
    wait_for_scripts(run, tmp_path)
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED] * 2, run.logs()
    assert last_words(run) == "rank 0 exited with 0 after SIGTERM"
    assert read_complete(tmp_path / "state") is None


def test_a_script_that_is_done_does_not_finish_without_those_told_to_end(new_run: NewRun, tmp_path: Path) -> None:
    source = "import os, sys\nif os.environ['RANK'] == '0': sys.exit(0)\n" + textwrap.dedent(TRAP)
    run = new_run(nodes=2, work=script(source, tmp_path, 0))
    run.start_all()
    run.pods[0].wait_for_event("rank_ended")
    wait_until(lambda: (tmp_path / "rank-1").exists(), "script 1 is ready")
    run.pods[1].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED] * 2, run.logs()


def test_a_script_that_ignores_sigterm_is_killed_in_time(new_run: NewRun, tmp_path: Path) -> None:
    source = TRAP.replace("stopped.append(1)", "None")
    run = new_run(nodes=1, grace_seconds=4, work=script(source, tmp_path, 0))
    run.start_all()
    wait_for_scripts(run, tmp_path)
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED]
    assert "within the grace period of 4 s" in last_words(run)


def test_a_program_that_is_not_there(new_run: NewRun) -> None:
    run = new_run(nodes=2, work={"kind": "script", "command": ["no-such-program"]})
    run.start(1)
    assert run.wait() == [ExitCode.USER_FAILURE]
    assert "no such program is in this image" in last_words(run)


SAVER = """
    import os, signal, sys, time
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    open(os.path.join(os.environ["PLACE"], "rank-0"), "w").close()
    while not stopped:
        time.sleep(0.02)
    print("saving")
    time.sleep(1)
    open(os.path.join(os.environ["PLACE"], f"saved-{len(stopped)}"), "w").close()
    sys.exit(210)
"""
PROGRAM = '"$PYTHON" "$PLACE/train.py"'
SHELLS = {
    "a command and more": ["bash", "-c", f"{PROGRAM}; echo done"],
    "in the background": ["bash", "-c", f"{PROGRAM} & wait"],
    "a trap that waits": ["bash", "-c", f"trap 'echo told' TERM; {PROGRAM}; echo done"],
    "shells in shells": ["sh", "-c", f"bash -c '{PROGRAM}; true'; true"],
    "a pipe": ["bash", "-c", f"{PROGRAM} | cat; true"],
    "a program in between": [sys.executable, "-c", f"import subprocess; subprocess.run(['sh', '-c', '{PROGRAM}; true'])"],
}


@pytest.mark.parametrize("command", SHELLS.values(), ids=SHELLS)
def test_a_program_behind_a_shell_has_the_grace_period(
    new_run: NewRun, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHON", sys.executable)
    monkeypatch.setenv("PLACE", str(tmp_path))
    (tmp_path / "train.py").write_text(textwrap.dedent(SAVER))
    run = new_run(nodes=1, work={"kind": "script", "command": command}, grace_seconds=30)
    run.start_all()
    wait_for_scripts(run, tmp_path)
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED], run.logs()
    assert (tmp_path / "saved-1").exists(), "it heard once, and had its time"


def test_what_does_not_end_is_killed_with_the_grace_period(
    new_run: NewRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", str(tmp_path))
    deaf = "trap '' TERM; echo $$ > $PLACE/deaf; touch $PLACE/rank-0; while true; do sleep 0.1; done"
    (tmp_path / "deaf.sh").write_text(deaf)
    command = ["bash", "-c", "bash $PLACE/deaf.sh; true"]
    run = new_run(nodes=1, work={"kind": "script", "command": command}, grace_seconds=4)
    run.start_all()
    wait_for_scripts(run, tmp_path)
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED], run.logs()
    assert not is_running(int((tmp_path / "deaf").read_text()))


WORKERS = """
    import multiprocessing, os, signal, sys, time
    def work(ready):
        signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
        ready.set()
        time.sleep(600)
    if __name__ == "__main__":
        stopped, workers = [], []
        for how in ("fork", "forkserver"):
            context = multiprocessing.get_context(how)
            ready = context.Event()
            workers.append(context.Process(target=work, args=(ready,), daemon=True))
            workers[-1].start()
            ready.wait()
        signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
        open(os.path.join(sys.argv[1], "rank-0"), "w").close()
        while not stopped:
            time.sleep(0.02)
        time.sleep(0.5)
        alive = [worker.is_alive() for worker in workers]
        open(os.path.join(sys.argv[1], "alive"), "w").write(repr(alive))
        os._exit(0)
"""


@pytest.mark.parametrize("shell", [True, False])
def test_a_programs_own_workers_are_its_own_to_end(new_run: NewRun, tmp_path: Path, shell: bool) -> None:
    """As those of torch's loader of data: one that dies would end the program in the middle of its save."""
    (tmp_path / "train.py").write_text(textwrap.dedent(WORKERS))
    program = [sys.executable, str(tmp_path / "train.py"), str(tmp_path)]
    command = ["bash", "-c", '"$@"; true', "run", *program] if shell else program
    run = new_run(nodes=1, work={"kind": "script", "command": command}, grace_seconds=30)
    run.start_all()
    wait_for_scripts(run, tmp_path)
    run.pods[0].process.send_signal(signal.SIGTERM)
    assert run.wait() == [ExitCode.PREEMPTED_NOT_SAVED], run.logs()
    assert (tmp_path / "alive").read_text() == "[True, True]"


def test_the_last_lines_before_a_kill_are_there(new_run: NewRun) -> None:
    source = "import os, signal; print('the last line'); os.kill(os.getpid(), signal.SIGKILL)"
    run = new_run(nodes=1, work=script(source))
    run.start_all()
    assert run.wait() == [ExitCode.USER_FAILURE], run.logs()
    assert "the last line" in run.pods[0].log_path.read_text()


@pytest.mark.parametrize(("source", "words"), [
    ("raise ValueError('no such column: price')", "ValueError: no such column: price"),
    ("import os; os.write(2, b'\\x1b[31mred\\x1b[0m and \\xff\\n\\n'); os._exit(3)", "red and \ufffd"),
    ("import sys; print('x' * 100_000, file=sys.stderr); sys.exit('the end of it')", "x | the end of it"),
    ("import os; print('only standard output'); os._exit(1)", "rank 0 exited with 1"),
])
def test_the_last_words_of_a_script_that_fails(new_run: NewRun, source: str, words: str) -> None:
    run = new_run(nodes=1, work=script(source))
    run.start_all()
    assert run.wait() == [ExitCode.USER_FAILURE], run.logs()
    assert last_words(run).startswith("rank 0 exited with ")
    assert last_words(run).endswith(words)
    if "only" not in source:
        assert "its last words: " in last_words(run)


def test_a_helper_that_holds_standard_error_open_holds_nothing_up(new_run: NewRun) -> None:
    source = "import subprocess, sys; subprocess.Popen(['sleep', '60'], start_new_session=True); sys.exit('done for')"
    run = new_run(nodes=1, work=script(source))
    run.start_all()
    assert run.wait() == [ExitCode.USER_FAILURE], run.logs()
    assert last_words(run).endswith("done for")
    assert "done for" in run.pods[0].log_path.read_text()
