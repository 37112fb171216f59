"""Commands that lose their end, held against what bash really does."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.compiler.example import command, findings, script

PROGRAM = "python train.py"


def found(*words: str, **run: object) -> list[str]:
    return [one.code for one in findings({**command(*words), **run}) if one.code in ("TW470", "TW471", "TW472")]


SEEN = [
    PROGRAM, f"exec {PROGRAM}", f"cd . && {PROGRAM}", f"set -e; {PROGRAM}; echo done", f"{PROGRAM} && echo done",
    f"set -o pipefail; {PROGRAM} | tee log", f"set -euo pipefail; {PROGRAM} 2>&1 | tee log; echo done", f"{PROGRAM} || exit 1",
    f"{PROGRAM} || {{ echo failed; exit 7; }}", f"{PROGRAM}; rc=$?; echo done; exit $rc", f"{PROGRAM} && {{ echo a; echo b; }}",
    f"{PROGRAM} | tee log; exit ${{PIPESTATUS[0]}}", f"{PROGRAM} & wait $!", f"if ! {PROGRAM}; then exit 3; fi",
    f"exec {PROGRAM} > >(tee log) 2>&1", f"echo a | tee log; {PROGRAM}",
    f"trap 'kill -TERM $!' TERM; {PROGRAM} & wait $!; wait $!",
    f"set +e; set -e; {PROGRAM}; echo done", f"set -o errexit; {PROGRAM}; echo done", f"set -eo pipefail; {PROGRAM} | tee log",
    f"{PROGRAM} > log && cat log", f"({PROGRAM})", f"true || true; {PROGRAM}", f"{PROGRAM}; exit",
]  # fmt: skip
HIDDEN = [
    f"{PROGRAM} 2>&1 | tee log", f"{PROGRAM} || true", f"{PROGRAM} || echo failed", f"{PROGRAM}; exit 0", f"{PROGRAM}\necho done",
    f"{{ {PROGRAM}; }} | tee log", f"({PROGRAM}) | tee log", f"{PROGRAM} | tee log && echo done", f"set -e; {PROGRAM} | tee log",
    f"set -e; {PROGRAM} && echo done; echo end", f"set -o pipefail; {PROGRAM} | tee log; echo done", f"{PROGRAM} & wait",
    f"{PROGRAM} || {{ echo failed; echo again; }}", f"{PROGRAM} && echo good || echo bad", f"set -e; {PROGRAM} || :",
    f"set -e; true; set +e; {PROGRAM}; echo done", f"set -o errexit; set +o errexit; {PROGRAM}; echo done",
    f"set -o pipefail; set +o pipefail; {PROGRAM} | tee log",
    f'{PROGRAM}; echo "ended with $?"', f"exec {PROGRAM} | tee log",
]  # fmt: skip


@pytest.mark.parametrize("text", SEEN + HIDDEN)
def test_a_failure_is_hidden_where_bash_ends_with_success(text: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    (tmp_path / "python").symlink_to("/usr/bin/false")
    ended = subprocess.run(["bash", "-c", text], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (ended.returncode == 0) is (text in HIDDEN)
    assert ("TW471" in found("bash", "-c", text)) is (text in HIDDEN)
    assert "TW471" not in found("bash", "-eo", "pipefail", "-c", f"{PROGRAM} | tee log")


@pytest.mark.parametrize(("words", "drops"), [
    (("bash", "-c", "cd /app && torchrun t.py && echo done"), True),
    (("bash", "-lc", "pip install -r r.txt; accelerate launch t.py 2> log"), True),
    (("sh", "-c", "torchrun t.py"), True),
    (("env", "A=b", "bash", "-c", "./train.sh && echo done"), True),
    (("bash", "-c", "while true; do torchrun t.py && break; done"), True),
    (("bash", "-c", "exec torchrun t.py | tee log"), True),
    (("bash", "-c", "trap 'rm -rf /tmp/a' EXIT; torchrun t.py"), True),
    (("bash", "-c", "torchrun t.py"), False),
    (("bash", "-c", "cd /app && exec torchrun t.py"), False),
    (("sh", "-c", "if [ $JOB_COMPLETION_INDEX = 0 ]; then exec torchrun t.py; else exec torchrun t.py --quiet; fi"), False),
    (("bash", "-c", "trap 'kill -TERM $pid' TERM; torchrun t.py & pid=$!; wait $pid; wait $pid"), False),
    (("bash", "-c", "set -e; torchrun train.py; python eval.py"), True),
    (("bash", "-c", "python prep.py; exec torchrun t.py"), False),
    (("bash", "-c", "python prep.py; torchrun t.py"), False),
    (("bash", "-c", "RANK=$(python rank.py); exec torchrun t.py"), False),
    (("bash", "-c", "torchrun t.py & exec python serve.py"), False),
    (("torchrun", "t.py"), False),
    (("bash", "-c", "uv run --frozen python t.py && echo done"), True),
    (("bash", "-c", "uv run --frozen python t.py"), False),
    (("timeout", "5h", "bash", "-c", "torchrun t.py; echo done"), False),
])  # fmt: skip
def test_a_shell_that_stays_process_1_drops_sigterm(words: tuple[str, ...], drops: bool) -> None:
    assert ("TW470" in found(*words)) is drops


def test_a_script_among_the_files_is_read_in_its_place() -> None:
    run = {**command("bash", "/run.sh"), "files": {"/run.sh": "set -x\ntorchrun t.py || true\n"}}
    said = [one for one in findings(run) if one.code in ("TW470", "TW471")]
    assert [(one.code, one.where.pointer) for one in said] == [("TW470", "/files/~1run.sh"), ("TW471", "/files/~1run.sh")]
    assert found("bash", "/run.sh", files={"/run.sh": "cd /app\nexec torchrun t.py\n"}) == []
    assert found("bash", "-c", ". /env.sh; exec bash /run.sh", files={"/run.sh": "torchrun t.py"}) == ["TW470"]


@pytest.mark.parametrize(("first", "words", "expected"), [
    ("#!/bin/bash -e", ("/run.sh",), ["TW470"]),
    ("#!/bin/bash -e", ("/run.sh", "-e"), ["TW470"]),
    ("#!/usr/bin/env -S bash -eu", ("/run.sh",), ["TW470"]),
    ("#!/bin/bash -e", ("bash", "-c", "/run.sh"), ["TW470"]),
    ("#!/bin/bash", ("/run.sh",), ["TW470", "TW471"]),
    ("#!/bin/bash", ("/run.sh", "-e"), ["TW470", "TW471"]),
    ("#!/bin/bash -e", ("bash", "/run.sh"), ["TW470", "TW471"]),
    ("#!/bin/bash -e\nset +e", ("/run.sh",), ["TW470", "TW471"]),
    ("#!/usr/bin/env python3", ("/run.sh",), []),
])  # fmt: skip
def test_a_script_that_is_the_program_names_its_shell(first: str, words: tuple[str, ...], expected: list[str]) -> None:
    text = f"{first}\ntorchrun t.py\naws s3 sync a b\n"
    assert found(*words, files={"/run.sh": text}, file_modes={"/run.sh": "0555"}) == expected


def test_the_supervisor_ends_the_whole_group_of_a_script_and_sees_only_its_code() -> None:
    codes = [one.code for one in findings(script("bash", "-c", "python t.py | tee log"))]
    assert ("TW470" in codes, "TW471" in codes) == (False, True)


@pytest.mark.parametrize("text", ["torchrun t.py &", "nohup torchrun t.py & echo a", "python a.py & torchrun t.py > log &"])
def test_a_shell_that_waits_for_nothing_ends_the_container(text: str) -> None:
    assert "TW472" in found("bash", "-c", text)
    assert "TW472" not in found("bash", "-c", f"{text}\nwait $!")


def test_what_keeps_a_container_alive_hides_how_its_work_ended() -> None:
    assert found("bash", "-c", "torchrun t.py > log & tail -f log") == ["TW470", "TW471"]
    assert found("bash", "-c", "torchrun t.py & sleep infinity") == ["TW470", "TW471"]


def test_what_stands_beside_the_work_may_be_in_the_background() -> None:
    assert found("bash", "-c", "nvidia-smi dmon > log & exec torchrun t.py") == []


UNTIL_TOLD = """
import select, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("ready")
while not select.select([{descriptor}], [], [], 0.1)[0]:
    pass  # for ever in one call would miss a signal that comes just before it
"""


@pytest.mark.parametrize(("text", "told"), [
    ("cd . && python -u t.py && echo done", False),
    ("cd . && exec python -u t.py", True),
    ("trap 'kill -TERM $!' TERM; python -u t.py & wait $!; wait $!", True),
])  # fmt: skip
def test_linux_drops_the_signal_for_a_shell_that_is_process_1(text: str, told: bool, tmp_path: Path) -> None:
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody make a namespace")
    theirs, ours = os.pipe()
    (tmp_path / "t.py").write_text(UNTIL_TOLD.format(descriptor=theirs), encoding="utf-8")
    shell = [*inside, "bash", "-c", text]
    with subprocess.Popen(shell, cwd=tmp_path, stdout=subprocess.PIPE, text=True, pass_fds=[theirs]) as process:
        os.close(theirs)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
        os.kill(int(first), signal.SIGTERM)
        if not told:
            os.close(ours)  # the program ends by itself
        ended = process.wait(60)
    assert (ended == 9) is told
    assert ("TW470" in found("bash", "-c", text)) is not told
