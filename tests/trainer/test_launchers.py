"""The commands of docs/launchers.md start ranks that meet, on two pods from the YAML that they compile to.

Composer's releases need an older torch than the pinned one, so a program with its options stands in. DeepSpeed has an environment
of its own: tests/engines/deepspeed/test_launcher.py.
"""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.example import command, compiled
from tests.compiler.findings.page import overlay
from tests.compiler.objects import written
from tests.compiler.rehearsal.command import play
from tests.compiler.targets import on, profile_for
from tests.docs.test_snippets import Snippet, snippets
from tests.pages import DOCS, ROOT

HERE = Path(__file__).with_name("launchers")
OF_DEEPSPEED = ROOT / "tests" / "engines" / "deepspeed" / "launcher.yaml"
SMALL = {"nodes": 2, "gpus_per_node": 0, "processes_per_node": 2}
ROWS: dict[str, Snippet] = {
    re.sub(r"\W+", "-", " ".join(snippet.run["workload"]["command"]))[:24]: snippet for snippet in snippets(DOCS / "launchers.md")
}
TOGETHER = """#!/bin/sh
echo "$NODE_RANK:$(basename $0) $*"
touch "${0%/*}/ran-$HOSTNAME"
until [ "$(ls "${0%/*}" | grep -c ran-)" -ge 2 ]; do sleep 0.1; done
"""
"""A PyTorchJob is over with its master, so that none may end before the others have spoken."""
OF_TORCH = [name for name in ROWS if not name.startswith(("deepspeed", "python-etc"))]
pytestmark = pytest.mark.slow


def needs(library: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(library) is None, reason=f"{library} is not installed; `make test` installs it")


def manifests(row: str, **run: str) -> list[dict[str, Any]]:
    """On two pods of two ranks, without GPUs."""
    snippet = ROWS[row]
    operator = {"version": "1.9.4", "restricted_containers": True, "init_image": "registry.example.com/alpine:3.20"}
    cluster = overlay(snippet.cluster, {"operators": {"training-operator": operator}})
    small = Snippet(snippet.block, overlay(snippet.run, {"topology": SMALL, **run}), cluster).compiled().manifests
    return list(yaml.safe_load_all(written(small)))


@pytest.mark.parametrize("row", [
    pytest.param(row, marks=[needs("accelerate")] if "accelerate" in row else []) for row in OF_TORCH
])
def test_ranks_meet(row: str, tmp_path: Path) -> None:
    image = HERE / ("torch" if row.startswith("bash-c-torchrun") else "sockets")
    said = play(manifests(row), tmp_path, image, path=HERE)
    ranks = [json.loads(line) for pod in said for line in sorted(re.findall(r'{"rank".*', pod))]
    assert ranks == [{"rank": rank, "local": rank % 2, "of": 4, "sum": 10} for rank in range(4)]


@needs("jax")
def test_processes_of_jax_meet(tmp_path: Path) -> None:
    [row] = [name for name in ROWS if name.startswith("python-etc")]
    said = play(manifests(row), tmp_path, HERE)
    assert [line for pod in said for line in pod.splitlines() if line.startswith("process ")] == [
        "process 0 of 2", "process 1 of 2",
    ]


@pytest.mark.parametrize("row", [row for row in ROWS if not row.startswith("python")])
def test_a_row_is_the_same_command_on_a_pytorch_job(row: str, tmp_path: Path) -> None:
    """Only a variable of the operator has the pod's number there, and the kubelet expands the command before ``env`` runs."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("torchrun", "accelerate", "deepspeed", "composer"):
        program = programs / name
        program.write_text(TOGETHER)
        program.chmod(0o755)

    def said(target: str) -> list[str]:
        for seen in programs.glob("ran-*"):
            seen.unlink()
        (folder := tmp_path / target).mkdir()
        lines = play(manifests(row, target=target), folder, HERE, path=programs)
        own = r"\b(127\.\d+\.\d+\.|\d{4,5}$|\d{4,5}(?= ))|/rehearsal/pods/\S+/"
        return [re.sub(own, "", line).replace(str(folder), "") for line in lines]

    first, second = on_job = said("indexed-job")
    assert said("pytorch-job") == on_job
    assert "$" not in first + second
    assert row == "torchrun-app-train-py" or first != second


@pytest.mark.parametrize("words", [
    ["bash", "-c", 'echo "$NODE_RANK of $NNODES, $NPROC_PER_NODE each, at $MASTER_ADDR and $MASTER_PORT"'],
    ["bash", "-c", "echo $(NODE_RANK) of $(NNODES), $(NPROC_PER_NODE) each, at $(MASTER_ADDR) and $(MASTER_PORT)"],
    ["echo", "$(NODE_RANK) of $(NNODES), $(NPROC_PER_NODE) each, at $(MASTER_ADDR) and $(MASTER_PORT)"],
], ids=["a shell", "the kubelet in a shell's script", "the kubelet"])  # fmt: skip
@pytest.mark.parametrize("target", ["indexed-job", "job-set", "pytorch-job", "train-job", "volcano-job"])
def test_every_target_says_the_same(target: str, words: list[str], tmp_path: Path) -> None:
    result = compiled({**on(target), **command(*words)}, profile_for(target))
    documents = list(yaml.safe_load_all(written(result.manifests)))
    first, *others = play(documents, tmp_path, HERE)
    assert re.fullmatch(r"0 of 2, 1 each, at 127\.\d+\.\d+\.1 and \d+\n", first)
    if target != "pytorch-job":  # it is over with its master
        assert others == [first.replace("0 of", "1 of", 1)]


def test_the_yaml_of_deepspeeds_row_is_as_committed() -> None:
    """Its test has no compiler beside it. An edit of the row is written there anew by this."""
    [row] = [name for name in ROWS if name.startswith("deepspeed")]
    text = written(manifests(row))
    if OF_DEEPSPEED.read_text(encoding="utf-8") != text:
        OF_DEEPSPEED.write_text(text, encoding="utf-8")
        pytest.fail(f"{OF_DEEPSPEED.name} was written anew: look at it and commit it")
