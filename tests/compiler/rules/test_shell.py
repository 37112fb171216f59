"""Rules on command lines that were written for a shell."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, findings, message, script
from tests.compiler.targets import on, profile_for


@pytest.mark.parametrize(("words", "at", "says"), [
    (("NCCL_DEBUG=INFO", "torchrun", "t.py"), 0, "write it under env of the run, or `env` as the first word"),
    (("exec", "torchrun", "t.py"), 0, "exec is a word of a shell and no program, and no shell reads this command"),
    (("torchrun", "t.py", "2>&1", "|", "tee", "log"), 2, "the program is given 2>&1 as text"),
    (("torchrun", "t.py", "|", "tee", "log"), 2, "write the whole as one script: [bash, -c, SCRIPT]"),
    (("bash", "torchrun t.py"), 1, "bash takes 'torchrun t.py' for the name of a file; write -c before it"),
    (("bash", "-c", "torchrun", "--nproc_per_node=8", "t.py"), 3, "[bash, -c, 'torchrun --nproc_per_node=8 t.py']"),
    (("/bin/sh", "-o", "pipefail", "-c", "torchrun", "t.py"), 5, "the shell runs 'torchrun' alone"),
])  # fmt: skip
def test_no_shell_reads_a_command(words: tuple[str, ...], at: int, says: str) -> None:
    (finding,) = [one for one in findings(command(*words)) if one.code == "TW414"]
    assert finding.where.pointer == f"/workload/command/{at}"
    assert says in f"{finding.message}; {finding.fix}"


@pytest.mark.parametrize("words", [
    ("cd", "/app", "&&", "python", "t.py"), ("source", "venv/bin/activate", "&&", "python", "t.py"), ("A=b", "python", "t.py"),
])  # fmt: skip
def test_nor_does_the_supervisor_read_a_script_as_one(words: tuple[str, ...]) -> None:
    assert "TW414" in codes(script(*words))


@pytest.mark.parametrize("words", [
    ("env", "NCCL_DEBUG=INFO", "torchrun", "t.py"),
    ("torchrun", "t.py", "lr=1", "--separator", "|", "model=a"),
    ("bash", "-c", "torchrun t.py && echo done | tee log"),
    ("bash", "-c", 'torchrun "$@"', "--", "t.py"),
    ("bash", "-c", 'exec "$0" "$@"', "torchrun", "t.py"),
    ("bash", "-c", "torchrun t.py", "--"),
    ("bash", "-c", ". /etc/start.sh", "--", "t.py"),
    ("torchrun", "--no_python", "python", "-c", "import sys", "a"),
    ("bash", "/app/start.sh", "torchrun t.py"),
    ("bash", "/app/of mine/start.sh"),
])  # fmt: skip
def test_what_a_shell_or_a_program_reads_is_fine(words: tuple[str, ...]) -> None:
    assert "TW414" not in codes(command(*words))


def test_arguments_of_a_role_after_the_script_of_the_run_are_lost() -> None:
    run = {**on("pytorch-job"), **command("bash", "-c", "torchrun t.py"), "roles": {"worker": {"args": ["--lr", "1"]}}}
    (finding,) = findings(run, profile_for("pytorch-job"))
    assert (finding.code, finding.where.pointer) == ("TW414", "/roles/worker/args/0")


def test_a_shell_reads_the_entrypoint_of_a_rayjob() -> None:
    ray: Data = {**on("ray-job"), "topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 8, "version": "2.49.0"}}
    assert "TW414" not in codes({**ray, **command("A=b", "python", "t.py")}, profile_for("ray-job"))


@pytest.mark.parametrize("line", ["torchrun --nnodes 2 t.py", "python t.py", "/usr/bin/python /app/t.py"])
def test_a_whole_line_is_no_program(line: str) -> None:
    text = message(command(line))
    assert "is one word, and so the name of a program, which no image has" in text
    assert repr(line.split()) in text
    assert "TW405" in codes(script(line))


def test_a_path_may_have_blanks() -> None:
    assert codes(command("/opt/my app/start")) == []
    assert codes({**command("bash", "of mine"), "files": {"/of mine": "a"}}) != ["TW405"]


def test_arguments_alone_are_where_they_stand() -> None:
    nothing: Data = dict.fromkeys(("batch", "learning_rate"))
    (finding,) = findings({**nothing, "workload": {"kind": "command", "args": ["torchrun", "--nnodes=4", "t.py"]}})
    assert (finding.code, finding.where.pointer) == ("TW411", "/workload/args")
