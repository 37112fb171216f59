"""What a command takes from its image is told before a pod starts, and what it may bring itself is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compiler.rehearsal.stage import container_of, manifests, play
from tests.compiler.rehearsal.test_checks import problems

from trainwright.rehearsal import CannotWorkError


def missing(*command: str, directory: Path | None = None, mounts: dict[str, Path] | None = None, folder: str = "") -> list[str]:
    found = manifests("")
    container_of(found).update(command=list(command), **({"workingDir": folder} if folder else {}))
    return [f"{one.message}; {one.fix}" for one in problems(found, directory=directory, mounts=mounts or {})]


@pytest.mark.parametrize(("command", "what", "mount"), [
    (("python", "train.py"), "train.py is not on this machine", "--mount .=FOLDER"),
    (("python", "-u", "/app/train.py", "--config", "other.py"), "/app/train.py is not", "--mount /app=FOLDER"),
    (("torchrun", "--nproc-per-node=1", "src/train.py"), "src/train.py is not", "--mount .=FOLDER"),
    (("/opt/conda/bin/python", "-c", "1"), 'exec: "/opt/conda/bin/python"', "--mount /opt/conda/bin=FOLDER"),
    (("no-such-program",), 'exec: "no-such-program": executable file not found', "--mount /usr/local/bin=FOLDER"),
    (("bash", "-c", "set -e; no-such-program --now"), "no-such-program: command not found", "--mount /usr/local/bin=FOLDER"),
    (("bash", "-ec", "export A=1\ncd /workspace\nexec python train.py"), "train.py is not", "--mount /workspace=FOLDER"),
    (("sh", "-c", "echo begin && ./run.sh"), "./run.sh is not", "--mount .=FOLDER"),
    (("env", "A=1", "timeout", "60", "/opt/x/start"), "/opt/x/start is not", "--mount /opt/x=FOLDER"),
    (("python", "-m", "torch.distributed.run", "/app/train.py"), "/app/train.py is not", "--mount /app=FOLDER"),
])  # fmt: skip
def test_what_only_the_image_has(command: tuple[str, ...], what: str, mount: str) -> None:
    [said] = missing(*command)
    assert what in said
    assert mount in said


@pytest.mark.parametrize("command", [
    ("python", "-c", "print('train.py')"),
    ("python", "/code/program.py"),
    ("bash", "-c", "if [ -f /app/run.sh ]; then /app/run.sh; fi; python -c 1"),
    ("bash", "-c", "no-such-program || python -c 1; for one in 1; do /app/a.sh; done"),
    ("bash", "-c", "git clone https://example.com/repository && cd repository && python train.py"),
    ("bash", "-c", "pip install -r requirements.txt && accelerate-anything launch train.py"),
    ("uv", "run", "--frozen", "accelerate-anything", "launch", "train.py"), ("poetry", "run", "python", "missing.py"),
    ("bash", "-c", "start() { python /app/train.py; }; start"),
    ("bash", "-c", "cat > /tmp/x.py <<'END'\nprint(1)\nEND\npython /tmp/x.py"),
    ("bash", "-c", "rm -f old.py; echo train.py; $PROGRAM train.py"),
    ("sh", "-c", "ulimit -l unlimited; exec sleep 1"),
])  # fmt: skip
def test_what_may_well_be_there(command: tuple[str, ...]) -> None:
    assert not [one for one in missing(*command) if "no-such-program" not in one or "||" not in command[-1]]


def test_folders_stand_for_those_of_the_image(tmp_path: Path) -> None:
    for name in ("train.py", "start"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert not missing("python", "train.py", directory=tmp_path)
    assert not missing("python", "train.py", folder="/work", mounts={"/work": tmp_path})
    assert missing("python", "train.py", folder="/work", directory=tmp_path), "the manifest states the directory"
    assert not missing("start", mounts={"/usr/local/bin": tmp_path})


def test_the_working_directory_is_the_image_s(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "helper.py").write_text("NAME = 'helper'")
    (tmp_path / "image" / "train.py").write_text("import os, helper\nprint(helper.NAME, sorted(os.listdir('.'))[0])")
    found = manifests("")
    container_of(found)["command"] = ["python", "train.py"]
    _, recorder = play(found, tmp_path / "w", directory=tmp_path / "image")
    assert recorder.said(0) == ["helper __pycache__"]
    with pytest.raises(CannotWorkError, match=r"--mount \.=FOLDER"):
        play(found, tmp_path / "w")
