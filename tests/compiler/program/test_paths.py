"""Paths of a command against what is mounted."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, command, findings, script
from tests.compiler.findings.page import overlay


def said(run: Data, **changes: Data) -> list[str]:
    return [f"{one.code} {one.severity.value}" for one in findings({**run, **changes}) if one.code in ("TW473", "TW474")]


APP: Data = {"/checkpoints": {"claim": "checkpoints"}, "/app": {"claim": "checkpoints"}}
CODE: Data = {"/checkpoints": {"claim": "checkpoints"}, "/app": {"claim": "checkpoints", "read_only": True}}
SCRATCH: Data = {"/checkpoints": {"claim": "checkpoints"}, "/app": {"scratch": "10Gi"}}


@pytest.mark.parametrize(("run", "mounts", "expected"), [
    (command("torchrun", "/app/train.py"), APP, ["TW473 warning"]),
    (command("bash", "-c", "cd /app && exec torchrun src/train.py"), APP, ["TW473 warning"]),
    (command("bash", "-c", "D=/app; exec torchrun $D/train.py"), SCRATCH, ["TW473 error"]),
    (command("/app/bin/train", "--lr", "1"), SCRATCH, ["TW473 error"]),
    (script("python", "/app/train.py"), SCRATCH, ["TW473 error"]),
    (command("torchrun", "/app/train.py"), CODE, []),
    (command("torchrun", "/opt/train.py", "--data", "/app/a.py"), APP, []),
    (command("torchrun", "/application/train.py"), APP, []),
    (command("torchrun", "train.py"), APP, []),
])  # fmt: skip
def test_a_volume_hides_the_program(run: Data, mounts: Data, expected: list[str]) -> None:
    assert said(run, mounts=mounts) == expected


def test_a_working_directory_and_the_files_of_the_run_count() -> None:
    assert said(overlay(command("torchrun", "train.py"), {"workload": {"working_dir": "/app"}}), mounts=APP) == ["TW473 warning"]
    assert said({**command("bash", "/app/run.sh"), "files": {"/app/run.sh": "exec torchrun /opt/t.py"}}, mounts=APP) == []


@pytest.mark.parametrize(("words", "expected"), [
    (("torchrun", "-m", "pkg.train"), []),
    (("python", "-m", "pkg.train"), []),
    (("bash", "-c", "exec /opt/run.sh"), []),
    (("bash", "-c", "exec ./run.sh"), ["TW473 error"]),
    (("torchrun", "train.py"), ["TW473 error"]),
    (("bash", "-c", "git clone U /app/code && cd /app/code && exec torchrun train.py"), []),
    (("bash", "-c", "cp -r /opt/. /app && exec torchrun train.py"), []),
    (("bash", "-c", "git clone U code; cd code; exec torchrun train.py"), []),
    (("bash", "-c", "cat > /app/run.sh <<E\ntorchrun /opt/t.py\nE\nbash /app/run.sh"), []),
    (("bash", "-c", "python /opt/fetch.py --to=/app/code; exec torchrun code/train.py"), []),
    (("bash", "-c", "mkdir -p /app/code; cd /app/code; ls; exec torchrun train.py"), ["TW473 error"]),
    (("bash", "-c", "exec torchrun train.py; cp -r /opt/. /app"), ["TW473 error"]),
])  # fmt: skip
def test_what_path_finds_and_what_the_command_brings_is_there(words: tuple[str, ...], expected: list[str]) -> None:
    assert said(overlay(command(*words), {"workload": {"working_dir": "/app"}}), mounts=SCRATCH) == expected


@pytest.mark.parametrize(("words", "expected"), [
    (("--output_dir", "/ckpt"), ["TW474 error"]),
    (("--save=/out/model",), ["TW474 error"]),
    (("trainer.default_root_dir=/runs",), ["TW474 error"]),
    (("--ckpt", "/ckpt"), ["TW474 warning"]),
    (("--ckpt", "/opt/base.ckpt"), []),
    (("--output-dir", "/tmp/out"), []),
    (("--output-dir", "/checkpoints/a"), []),
    (("--output-dir", "out"), []),
    (("--data_dir", "/data"), []),
])  # fmt: skip
def test_what_is_saved_beside_the_claim_is_lost(words: tuple[str, ...], expected: list[str]) -> None:
    assert said(command("torchrun", "train.py", *words)) == expected


def test_what_is_uploaded_at_the_end_is_not_lost() -> None:
    text = "set -e; mkdir -p /out; torchrun t.py --output_dir /out; aws s3 cp --recursive /out s3://bucket/run"
    assert said(command("bash", "-c", text)) == []
    assert said(command("bash", "-c", "mkdir -p /out && exec torchrun t.py --output_dir /out")) == ["TW474 error"]


def test_variables_of_text_and_container_are_put_in() -> None:
    assert said(command("bash", "-c", "OUT=/ckpt; exec torchrun t.py --output_dir $OUT")) == ["TW474 error"]
    assert said(command("torchrun", "t.py", "--output_dir", "$(OUT)/a"), env={"OUT": "/ckpt"}) == ["TW474 error"]
    assert said(command("torchrun", "t.py", "--output_dir", "$(OUT)/a"), env={"OUT": "/checkpoints"}) == []
    assert said(command("torchrun", "t.py", "--output_dir", "/out"), mounts={"/checkpoints": None}) == [], "there is no claim"
