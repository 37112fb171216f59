"""A command that brings the supervisor along, from its run to pods that end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.rehearsal.stage import Recorder, play

from trainwright import load_cluster
from trainwright.compile import compile_run
from trainwright.operators.ending import Replace
from trainwright.reading import validate_data
from trainwright.rehearsal import Outcome
from trainwright.run import Run

RUN: dict[str, Any] = {
    "run": "probe", "team": "vision", "namespace": "training", "cluster": "laptop", "supervisor": "brought",
    "image": "registry.example.com/mirror/alpine@sha256:" + "b" * 64, "security": {"user": 1000},
    "topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 0}, "restarts": 1, "checkpoints": {"by": "own"},
    "mounts": {"/checkpoints": {"claim": "training-checkpoints"}},
}
OPERATORS = {
    "jobset": {"version": "0.12"},
    "training-operator": {"version": "1.9", "restricted_containers": True, "init_image": "registry.example.com/alpine:3.10"},
}
ONCE = (
    "mkdir -p $TRAINWRIGHT_CHECKPOINT_DIRECTORY; cd $TRAINWRIGHT_CHECKPOINT_DIRECTORY; echo pod $(NODE_RANK) of $NNODES; "
    "[ -e failed ] && exit 0; [ $(NODE_RANK) = 0 ] && touch here && sleep 1000; "
    "until [ -e here ]; do sleep 0.1; done; touch failed; exit 3"
)
"""Pod 1 fails in the first attempt, once pod 0 is there."""


LOST = (
    "cd /checkpoints; rank=${PET_NODE_RANK:-$NODE_RANK}; echo pod $rank; "
    "[ $rank = 0 ] && until [ -e done ]; do sleep 0.1; done; [ $rank = 0 ] && exit 0; "
    "[ -e failed ] || { touch failed; exit 3; }; [ -e killed ] || { touch killed; kill -KILL $PPID; sleep 1000; }; touch done"
)
"""Rank 1 fails in the first attempt, kills its pod with its supervisor in the second, and completes in the third."""


def played(words: str, workspace: Path, **run: Any) -> tuple[Outcome, Recorder]:
    profile = yaml.safe_load(Path("charts/clusters/laptop.yaml").read_text()) | {"operators": OPERATORS}
    (workspace / "laptop.yaml").write_text(yaml.safe_dump(profile))
    asked = {**RUN, **run, "workload": {"kind": "command", "command": ["bash", "-c", words]}}
    compiled = compile_run(validate_data(Run, asked, None, {}), load_cluster(workspace / "laptop.yaml"))
    return play(list(compiled.manifests), workspace / "w")


def test_its_failure_ends_no_pod_and_the_next_attempt_completes(tmp_path: Path) -> None:
    outcome, recorder = played(ONCE, tmp_path)
    assert outcome.status == "Complete", outcome
    said = sorted(line for _, line in recorder.lines if line.startswith("pod "))
    assert said == ["pod 0 of 2", "pod 0 of 2", "pod 1 of 2", "pod 1 of 2"]
    assert sorted(pod.index for pod in recorder.started) == [0, 1]


@pytest.mark.parametrize(("target", "first", "second", "seconds"), [
    ("job-set", "node 0", "node 1", 10), ("pytorch-job", "master 0", "worker 0", 0),
])  # fmt: skip
def test_a_lost_rank_costs_no_pod_and_a_lost_pod_only_itself(
    target: str, first: str, second: str, seconds: int, tmp_path: Path
) -> None:
    outcome, recorder = played(LOST, tmp_path, target=target)
    assert outcome.status == "Complete", outcome
    assert sorted(line for _, line in recorder.lines if line.startswith("pod ")) == ["pod 0"] * 3 + ["pod 1"] * 3
    assert sorted(pod.slot.name for pod in recorder.started) == [first, second, second]
    assert [one.seconds for one in recorder.decisions if isinstance(one, Replace)] == [seconds]
