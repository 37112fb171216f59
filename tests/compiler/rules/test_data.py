"""Where data may be fetched to."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import codes, findings, message

SOURCE = {"source": "s3://example-datasets/digits", "image": "registry.example.com/rclone@sha256:" + "2f" * 32}
CLAIM = {"claim": "checkpoints", "sub_path": "data", "read_only": True}


def run(path: str, mounts: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"mounts": {"/data": CLAIM} | (mounts or {}), "prepare": {path: SOURCE}, **more}


@pytest.mark.parametrize("path", ["/data", "/data/digits", "/data/a/b", "/checkpoints/data"])
def test_places_in_a_claim(path: str) -> None:
    assert codes(run(path)) == []


@pytest.mark.parametrize("path", ["/elsewhere", "/dataset", "/data/../x", "/data//x", "/data/./x"])
def test_places_outside_of_every_claim(path: str) -> None:
    assert codes(run(path)) == ["TW240"]


def test_scratch_ends_with_its_pod() -> None:
    assert codes(run("/fast/digits", {"/fast": {"scratch": "1Gi"}})) == ["TW240"]
    assert codes(run("/data/fast/digits", {"/data/fast": {"scratch": "1Gi"}})) == ["TW240"]
    assert "/fast is scratch space" in message(run("/fast/digits", {"/fast": {"scratch": "1Gi"}}))


def test_nothing_else_lies_in_the_data() -> None:
    assert codes(run("/data/digits", {"/data/digits/cache": {"scratch": "1Gi"}})) == ["TW240"]
    assert codes(run("/data/digits", files={"/data/digits/labels.json": {"a": 1}})) == ["TW240"]
    assert codes(run("/data") | {"prepare": {"/data": SOURCE, "/data/x": SOURCE}}) == ["TW240"]
    assert codes(run("/checkpoints")) == ["TW240"]


OPERATORS = {
    "training-operator": {"version": "1.9.0", "restricted_containers": True}, "jobset": {"version": "0.12.0"},
    "mpi-operator": {"version": "0.6.0"}, "kuberay": {"version": "1.4.0"},
}
HOROVOD = {"kind": "horovod", "nodes": 2, "gpus_per_node": 8}


@pytest.mark.parametrize(("target", "topology", "expected"), [
    ("indexed-job", {}, []),
    ("job-set", {}, []),
    ("pytorch-job", {}, ["TW244"]),
    ("pytorch-job", {"elastic": {"min_nodes": 1, "max_nodes": 2}}, ["TW244"]),
    ("mpi-job", HOROVOD, ["TW244"]),
    ("mpi-job", HOROVOD | {"nodes": 1, "launcher_is_node": True}, []),
])
def test_who_counts_a_wait_that_failed(target: str, topology: dict[str, Any], expected: list[str]) -> None:
    asked = run("/data", target=target, topology=topology)
    said = findings(asked, {"operators": OPERATORS})
    assert [finding.code for finding in said if finding.code == "TW244"] == expected
    without = {"target": target, "topology": topology}
    assert codes(without, {"operators": OPERATORS}).count("TW244") == 0
    for finding in said:
        if finding.code == "TW244":
            assert ("; or use target indexed-job or job-set" in finding.fix) == (topology == {})


def test_a_claim_that_nobody_writes() -> None:
    assert codes(run("/data", {"/data": {"claim": "dataset", "read_only": True}})) == ["TW241"]
    assert codes(run("/data", {"/data": {"claim": "one-node", "read_only": True}}, topology={"nodes": 1})) == []
