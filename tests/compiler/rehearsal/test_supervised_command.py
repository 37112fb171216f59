"""A command that brings the supervisor along, from its run to pods that end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.compiler.rehearsal.stage import play

from trainwright import load_cluster
from trainwright.compile import compile_run
from trainwright.reading import validate_data
from trainwright.run import Run

RUN: dict[str, Any] = {
    "run": "probe", "team": "vision", "namespace": "training", "cluster": "laptop", "supervisor": "brought",
    "image": "registry.example.com/mirror/alpine@sha256:" + "b" * 64, "security": {"user": 1000},
    "topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 0}, "restarts": 1, "checkpoints": {"by": "own"},
    "mounts": {"/checkpoints": {"claim": "training-checkpoints"}},
}
ONCE = (
    "mkdir -p $TRAINWRIGHT_CHECKPOINT_DIRECTORY; cd $TRAINWRIGHT_CHECKPOINT_DIRECTORY; echo pod $(NODE_RANK) of $NNODES; "
    "[ -e failed ] && exit 0; [ $(NODE_RANK) = 0 ] && touch here && sleep 1000; "
    "until [ -e here ]; do sleep 0.1; done; touch failed; exit 3"
)
"""Pod 1 fails in the first attempt, once pod 0 is there."""


def test_its_failure_ends_all_pods_and_the_next_attempt_completes(tmp_path: Path) -> None:
    work = {"kind": "command", "command": ["bash", "-c", ONCE]}
    compiled = compile_run(validate_data(Run, {**RUN, "workload": work}, None, {}), load_cluster("charts/clusters/laptop.yaml"))
    outcome, recorder = play(list(compiled.manifests), tmp_path)
    assert outcome.status == "Complete", outcome
    said = sorted(line for _, line in recorder.lines if line.startswith("pod "))
    assert said == ["pod 0 of 2", "pod 0 of 2", "pod 1 of 2", "pod 1 of 2"]
