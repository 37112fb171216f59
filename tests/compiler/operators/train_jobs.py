"""Runs on a TrainJob, for its tests."""

from __future__ import annotations

from typing import Any

from tests.compiler.example import compiled

from trainwright.compile import CompiledRun
from trainwright.handshake import Needs, Rendezvous, Success

Data = dict[str, Any]

TARGET: Data = {"target": "train-job"}
VERSIONS = ("2.1.0", "2.2.1", "2.3.0")
VOLCANO: Data = {"scheduling": {"gang": "volcano", "version": "1.15"}}
COSCHEDULING: Data = {"scheduling": {"gang": "coscheduling", "version": "0.33"}}
MOUNTS: Data = {
    "mounts": {
        "/data": {"claim": "dataset", "read_only": True},
        "/more": {"claim": "dataset", "read_only": True, "sub_path": "more"},
    },
    "files": {"/app/a.txt": "a", "/app/b.json": {"b": 1}},
}
NEEDS = Needs(
    nodes=4,
    processes_per_node=8,
    gpus_per_node=8,
    rendezvous=Rendezvous.STATIC,
    success=Success.ALL_RANKS,
)


def trainer(version: str, cluster: Data | None = None) -> Data:
    return {**(cluster or {}), "operators": {"trainer": {"version": version}, "jobset": {"version": "0.12.0"}}}


def train(run: Data | None = None, version: str = "2.3.0", cluster: Data | None = None) -> CompiledRun:
    return compiled({**TARGET, **(run or {})}, trainer(version, cluster))


def override(*, pod: Data | None = None, kind: str = "TrainJob", patch: Data | None = None) -> Data:
    if pod is not None:
        return {"overrides": {"pod": {"node": pod}}}
    return {"overrides": {"objects": [{"target": "train-job", "kind": kind, "patch": patch}]}}
