"""Mounts, claims, checkpoints and the notice of spot nodes."""

from __future__ import annotations

import pytest
from tests.compiler.example import codes, command, compiled, message, script

ONE_NODE = {"topology": {"nodes": 1}}


@pytest.mark.parametrize(
    "path",
    [
        "/tmp",
        "/tmp/x",
        "/dev",
        "/dev/shm",
        "/dev/shm/x",
        "/etc",
        "/etc/trainwright",
        "/dev/termination-log",
        "//tmp",
        "//data",
        "/data//x",
        "/data/./x",
        "/data/../tmp",
    ],
)
def test_paths_in_the_way_of_the_plan(path: str) -> None:
    assert codes({"mounts": {path: {"scratch": "1Gi"}}}) == ["TW233"]


@pytest.mark.parametrize("path", ["/data", "/tmpfs", "/etcetera", "/data/x", "/dev-shm", "/checkpoints/cache"])
def test_paths_beside_those_of_the_plan(path: str) -> None:
    assert codes({"mounts": {path: {"scratch": "1Gi"}}}) == []


def test_a_trainer_needs_a_place_for_checkpoints() -> None:
    assert codes({"mounts": {"/checkpoints": None}}) == ["TW230"]
    assert codes(script("python", "x.py") | {"mounts": {"/checkpoints": None}}) == []


def test_a_place_that_is_asked_for_must_be_mounted_whatever_the_work() -> None:
    for work in ({}, script("python", "x.py"), command("python", "x.py")):
        assert codes(work | {"checkpoints": {"mount": "/models"}}) == ["TW230"]


@pytest.mark.parametrize("mount", [{"claim": "checkpoints", "read_only": True}, {"scratch": "1Gi", "claim": None}])
def test_checkpoints_need_a_writable_claim(mount: dict[str, object]) -> None:
    assert codes({"mounts": {"/checkpoints": mount}}) == ["TW231"]


def test_claims_must_be_in_the_profile() -> None:
    assert codes({"mounts": {"/data": {"claim": "other"}}}) == ["TW234"]
    assert "checkpoints, dataset, one-node" in message({"mounts": {"/data": {"claim": "other"}}})


def test_access_modes() -> None:
    assert codes({"mounts": {"/data": {"claim": "dataset"}}}) == ["TW235"]
    assert codes({"mounts": {"/data": {"claim": "dataset", "read_only": True}}}) == []
    assert codes({"mounts": {"/data": {"claim": "one-node"}}}) == ["TW235"]
    assert codes({"mounts": {"/data": {"claim": "one-node"}}} | ONE_NODE) == []


def test_claims_that_are_called_like_our_own_volumes_get_names_of_their_own() -> None:
    claims = {
        "shm": {"managed": False},
        "claim-0": {"managed": False},
        "a.b": {"managed": False},
        "scratch-4": {"managed": False},
    }
    mounts = {
        "/checkpoints": None,
        "/c": {"claim": "a.b"},
        "/d": {"claim": "claim-0"},
        "/e": {"claim": "shm"},
        "/f": {"claim": "scratch-4"},
        "/g": {"scratch": "1Gi"},
        "/h": {"claim": "checkpoints"},
        "/i": {"claim": "checkpoints"},
    }
    result = compiled({"mounts": mounts, "checkpoints": {"mount": "/h"}}, {"namespaces": {"training": {"claims": claims}}})
    pod = result.manifests[-1]["spec"]["template"]["spec"]
    names = [volume["name"] for volume in pod["volumes"]]
    assert len(set(names)) == len(names)
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == set(names)


def test_a_save_must_fit_the_notice_of_a_spot_node() -> None:
    spot = {"node_pool": "spot"}
    assert codes(spot) == []
    assert codes(spot, {"node_pools": {"spot": {"spot": {"notice": "59s"}}}}) == ["TW236"]
    assert codes(spot, {"node_pools": {"spot": {"spot": {"notice": "60s"}}}}) == []
    assert "needs 60 s of grace" in message(spot, {"node_pools": {"spot": {"spot": {"notice": "30s"}}}})
