"""Images, node pools, namespaces and versions."""

from __future__ import annotations

import time
from pathlib import Path

import kubernetes_validate
import pytest
from pydantic import ValidationError
from tests.compiler.example import codes, command, findings, message

from trainwright.rules.cluster import KNOWN_KUBERNETES

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "image",
    [
        f"registry.example.com/a@{DIGEST}",
        f"registry.example.com/a/b/c:v1.2@{DIGEST}",
        f"registry.example.com/a__b/c-d.e@{DIGEST}",
    ],
)
def test_images_that_say_which_bytes_run(image: str) -> None:
    assert codes({"image": image}) == []


@pytest.mark.parametrize("image", ["registry.example.com/a", "registry.example.com/a:latest", "registry.example.com/a/b:v1"])
def test_images_by_tag(image: str) -> None:
    assert codes({"image": image}) == ["TW305"]


@pytest.mark.parametrize(
    "image",
    [
        "registry.example.com/A",
        "registry.example.com/a b",
        "registry.example.com/a:",
        "registry.example.com/a@sha256:12",
        "https://registry.example.com/a",
        "registry.example.com/a@",
        "/a",
        "a/",
        f"registry.example.com/a@{DIGEST}0",
        "registry.example.com/a\n",
    ],
)
def test_texts_that_are_no_images(image: str) -> None:
    assert codes({"image": image}) == ["TW304"]


@pytest.mark.parametrize(
    "image",
    [
        f"docker.io/library/python@{DIGEST}",
        f"python@{DIGEST}",
        f"registry.example.com.evil.org/a@{DIGEST}",
        f"registry.example.company/a@{DIGEST}",
    ],
)
def test_registries_that_are_not_allowed(image: str) -> None:
    assert codes({"image": image}) == ["TW306"]


def test_a_registry_may_be_a_path_and_a_port() -> None:
    assert codes({"image": f"localhost:5000/team/a@{DIGEST}"}, {"registries": ["localhost:5000/team"]}) == []
    assert codes({"image": f"localhost:5000/teams/a@{DIGEST}"}, {"registries": ["localhost:5000/team"]}) == ["TW306"]
    assert codes({"image": f"anything.org/a@{DIGEST}"}, {"registries": []}) == []


@pytest.mark.parametrize(
    "image", ["a" * 1024, "a-" * 512, "a." * 500 + "!", "a/" * 500 + "A", "a__" * 340 + ":", "0.0-0_0/" * 120 + "@"]
)
def test_long_references_are_read_quickly(image: str) -> None:
    begin = time.perf_counter()
    assert set(codes({"image": image})) & {"TW304", "TW306"}
    assert time.perf_counter() - begin < 5


@pytest.mark.parametrize(
    ("version", "expected"), [("1.28", ["TW307"]), ("1.32", ["TW307"]), ("1.33", []), ("1.37", []), ("1.99", ["TW307"])]
)
def test_kubernetes_versions(version: str, expected: list[str]) -> None:
    assert codes(cluster={"kubernetes": version}) == expected


@pytest.mark.parametrize("version", ["1.034", "1.", "2.1", "1.34.0", "v1.34"])
def test_a_version_has_one_form(version: str) -> None:
    overridden = {"overrides": {"pod": {"node": {"priorityClassName": "high"}}}}
    assert codes(overridden, {"kubernetes": "1.34"}) == []
    with pytest.raises(ValidationError, match="kubernetes"):
        codes(overridden, {"kubernetes": version})


def test_every_known_version_has_its_schemas() -> None:
    folder = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    for minor in KNOWN_KUBERNETES:
        assert (folder / f"v1.{minor}.0-local-strict").is_dir()


def test_a_pod_must_fit_a_node() -> None:
    assert codes({"resources": {"cpu": 193}}) == ["TW308"]
    assert codes({"resources": {"cpu": 192, "memory": "2000Gi"}}) == []
    found = findings({"resources": {"memory": "16Gi"}})
    assert [finding.code for finding in found] == ["TW221", "TW308"], "and its ranks are short of memory too"
    assert "shared memory of 16Gi" in found[1].message


def test_rdma_without_a_capability_is_for_every_namespace() -> None:
    rdma = {"node_pools": {"h100": {"fabric": {"ipc_lock": True}}}}
    for level, expected in (("restricted", ["TW310"]), ("baseline", ["TW310"]), ("privileged", [])):
        assert codes(cluster=rdma | {"namespaces": {"training": {"pod_security": level}}}) == expected
    assert codes({"topology": {"nodes": 1}}, rdma) == []


def test_namespace_and_pool_must_be_in_the_profile() -> None:
    assert codes({"namespace": "other"}) == ["TW303"]
    assert codes({"node_pool": "other"}) == ["TW301"]
    assert "h100 (8 GPUs per node)" in message({"node_pool": "other"})
    assert codes({"topology": {"gpus_per_node": 9}}) == ["TW302"]
    assert codes({"node_pool": "cpu"}) == ["TW302"]
    assert codes(command("torchrun", "train.py") | {"topology": {"gpus_per_node": 0}}) == []
