"""Rules on the cluster, its network and its profile."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from pydantic import ValidationError
from tests.compiler.example import CLUSTER, Data, codes, command, findings, message
from tests.compiler.findings.page import overlay

from trainwright.cluster import Cluster
from trainwright.findings.locate import Locator
from trainwright.rules.cluster.profile import KNOWN_KUBERNETES, check_profile

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


@pytest.mark.parametrize(("digest", "said"), [
    (f"sha256:{DIGEST.rpartition(':')[2]}0", "has 65 digits, and a sha256 has 64"),
    (f"sha256:{DIGEST.rpartition(':')[2][:-1]}", "has 63 digits, and a sha256 has 64"),
    ("sha256:", "has 0 digits, and a sha256 has 64"),
    (f"sha256:{DIGEST.rpartition(':')[2][:-1]}G", "has 'G', and its digits are 0 to 9 and a to f"),
    (f"sha512:{'0' * 128}", "is of 'sha512', and registries know images by sha256"),
])
def test_what_is_wrong_with_a_digest_is_said(digest: str, said: str) -> None:
    (finding,) = findings({"image": f"registry.example.com/a:v1@{digest}"})
    assert finding.message == f"the digest of registry.example.com/a:v1 {said}"


@pytest.mark.parametrize("image", ["registry.example.com/a:v1@sha256:<digest>", f"your-registry/a@{DIGEST.rpartition('@')[2]}"])
def test_an_image_with_a_part_to_be_filled_in(image: str) -> None:
    (finding,) = findings({"image": image})
    assert finding.code == "TW304"
    assert "which nothing replaces" in finding.message


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


def with_operator(**stated: Any) -> Data:
    operator = {"version": "1.9.4", "restricted_containers": True, **stated}
    return {"operators": {"training-operator": operator}, "registries": ["registry.example.com"]}


def test_the_container_of_an_operator_comes_from_a_registry_too() -> None:
    """Of a job with a master: its workers would be refused, and the job says nothing of it."""
    job: Data = {"target": "pytorch-job"}
    words = message(job, with_operator())
    assert "does not allow image alpine:3.10, of which the operator makes container init-pytorch" in words
    assert "operators.training-operator.init_image" in words
    assert codes(job, with_operator(init_image="docker.io/library/alpine:3.20")) == ["TW454"]
    assert codes(job, with_operator(init_image="registry.example.com/alpine:3.20")) == []
    assert codes(job, overlay(with_operator(), {"registries": ["registry.example.com", "alpine:3.10"]})) == []
    assert codes(job, overlay(with_operator(), {"registries": []})) == []
    for alone in ({"nodes": 1}, {"kind": "ddp", "elastic": {"min_nodes": 1, "max_nodes": 4}}):
        assert "TW454" not in codes({**job, "topology": alone}, with_operator())
    assert codes({}, with_operator()) == [], "a Job gets none"


@pytest.mark.parametrize(
    "image", ["a" * 1024, "a-" * 512, "a." * 500 + "!", "a/" * 500 + "A", "a__" * 340 + ":", "0.0-0_0/" * 120 + "@"]
)
def test_long_references_are_read_quickly(image: str) -> None:
    begin = time.process_time()  # not of others, which a busy machine runs meanwhile
    assert set(codes({"image": image})) & {"TW304", "TW306"}
    assert time.process_time() - begin < 5


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


HOST: Data = {"host_network": True}
OPEN: Data = {"namespaces": {"training": {"pod_security": "privileged"}}}
TRAINER: Data = {
    "operators": {
        "trainer": {"version": "2.3"}, "jobset": {"version": "0.12"}, "kuberay": {"version": "1.7"},
        "training-operator": {"version": "1.9"},
    },
}  # fmt: skip
RAY: Data = {
    "target": "ray-job", "topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 8, "version": "2.52.0"},
    **command("python", "t.py"),
}  # fmt: skip


@pytest.mark.parametrize(("level", "expected"), [("restricted", ["TW604"]), ("baseline", ["TW604"]), ("privileged", [])])
def test_only_the_open_level_allows_the_nodes_network(level: str, expected: list[str]) -> None:
    cluster: Data = {"namespaces": {"training": {"pod_security": level}}}
    assert codes(HOST, cluster) == expected
    assert codes({}, cluster) == []


@pytest.mark.parametrize(
    ("run", "expected"),
    [({"target": "indexed-job"}, []), ({"target": "pytorch-job"}, []), ({"target": "train-job"}, ["TW605"]), (RAY, []),
     ({key: RAY[key] for key in ("target", "topology")}, ["TW605"])],
)
def test_an_operator_that_decides_ports_itself_cannot_share_a_node(run: Data, expected: list[str]) -> None:
    found = findings(run | HOST, OPEN | TRAINER)
    assert [finding.code for finding in found] == expected
    assert all(finding.where.pointer == "/host_network" for finding in found)


@pytest.mark.parametrize(
    ("run", "where"), [({}, None), (HOST, "/host_network"), (RAY, "/target")], ids=["fenced", "the node's network", "Ray"]
)
def test_a_run_that_is_not_fenced_off_says_why(run: Data, where: str | None) -> None:
    cluster = OPEN | TRAINER | {"network_policy": True}
    found = [finding for finding in findings(run, cluster) if finding.code == "TW440"]
    assert [finding.where.pointer for finding in found] == ([where] if where else [])
    assert "TW440" not in codes(run, OPEN | TRAINER), "where nobody asked for fences, there is nothing to say"


def test_everything_that_is_wrong_is_said_at_once() -> None:
    cluster = TRAINER | {"network_policy": True}
    assert codes({"target": "train-job"} | HOST, cluster) == ["TW605", "TW440"], "pods are judged once the plan stands"


def test_an_override_beside_the_nodes_network_is_no_clash_of_ports() -> None:
    """The run has ports of its own there, which other runs do not have."""
    run = HOST | {"topology": {"gpus_per_node": 1}, "overrides": {"pod": {"node": {"runtimeClassName": "nvidia"}}}}
    assert codes(run, OPEN) == []
    by_hand = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    assert codes({"topology": {"gpus_per_node": 1}, "overrides": {"pod": {"node": by_hand}}}, OPEN) == ["TW605"]


def codes_of_claim(claim: dict[str, Any]) -> list[str]:
    cluster = Cluster.model_validate(overlay(CLUSTER, {"namespaces": {"training": {"claims": {"models": claim}}}}))
    return [finding.code for finding in check_profile(cluster, Locator())]


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ({"storage_class": "nfs", "size": "1Ti"}, []),
        ({"size": "1Ti"}, []),
        ({"storage_class": "nfs"}, ["TW311"]),
        ({"managed": False}, []),
        ({"storage_class": "other", "size": "1Ti"}, ["TW312"]),
        ({"storage_class": "nfs", "size": "1Ti", "access": "ReadWriteOncePod"}, ["TW312"]),
        ({"storage_class": "other"}, ["TW311", "TW312"]),
    ],
)
def test_claims(claim: dict[str, Any], expected: list[str]) -> None:
    assert codes_of_claim(claim) == expected
