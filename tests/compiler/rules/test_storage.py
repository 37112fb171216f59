"""Mounts, claims, checkpoints and the notice of spot nodes."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, compiled, findings, message, script
from tests.compiler.objects import the

ONE_NODE: Data = {"topology": {"nodes": 1}}


@pytest.mark.parametrize(
    "path",
    [
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


@pytest.mark.parametrize("path", ["/data", "/tmp/x", "/tmpfs", "/etcetera", "/data/x", "/dev-shm", "/checkpoints/cache"])
def test_paths_beside_those_of_the_plan(path: str) -> None:
    assert codes({"mounts": {path: {"scratch": "1Gi"}}}) == []


WORK = [{}, script("python", "x.py"), command("python", "x.py"), command("x") | {"security": {"read_only_root": True}}]


@pytest.mark.parametrize("work", WORK, ids=["trainer", "script", "command", "read-only command"])
@pytest.mark.parametrize(
    ("mount", "source"),
    [
        ({"scratch": "20Gi"}, {"emptyDir": {"sizeLimit": "20Gi"}}),
        ({"claim": "checkpoints"}, {"persistentVolumeClaim": {"claimName": "checkpoints"}}),
        ({"host_path": "/local"}, {"hostPath": {"path": "/local"}}),
    ],
)
def test_what_a_run_mounts_at_tmp_is_its_only_scratch(work: Data, mount: Data, source: Data) -> None:
    lab = {"namespaces": {"training": {"pod_security": "privileged"}}}
    run = work | {"mounts": {"/tmp": mount, "/tmp/cache": {"scratch": "1Gi"}}}
    pod = the(compiled(run, lab), "Job")["spec"]["template"]["spec"]
    mounts = {one["mountPath"]: one["name"] for one in pod["containers"][0]["volumeMounts"]}
    assert len(mounts) == len(pod["containers"][0]["volumeMounts"])
    (volume,) = [one for one in pod["volumes"] if one["name"] == mounts["/tmp"]]
    assert {key: value for key, value in volume.items() if key != "name"} == source
    assert "tmp" not in {one["name"] for one in pod["volumes"]}


def test_what_a_pool_mounts_at_tmp_is_its_pods_only_scratch() -> None:
    pool = {"node_pools": {"h100": {"pods": {"mounts": {"/tmp": {"scratch": "9Gi"}}}}}}
    pod = the(compiled(None, pool), "Job")["spec"]["template"]["spec"]
    assert [one["mountPath"] for one in pod["containers"][0]["volumeMounts"]].count("/tmp") == 1


def test_scratch_has_to_be_writable() -> None:
    (found,) = findings({"mounts": {"/tmp": {"config_map": "x"}}})
    assert (found.code, found.where.pointer) == ("TW233", "/mounts/~1tmp")
    assert codes(command("x") | {"security": {"read_only_root": False}, "mounts": {"/tmp": {"config_map": "x"}}}) == []


def test_shared_memory_is_sized_by_its_field() -> None:
    (found,) = findings(command("x") | {"mounts": {"/dev/shm": {"scratch": "1Gi"}}})
    assert "resources.shared_memory" in found.fix
    assert codes(command("x") | {"resources": {"shared_memory": "1Gi"}}) == []


def test_a_trainer_needs_a_place_for_checkpoints() -> None:
    assert codes({"mounts": {"/checkpoints": None}}) == ["TW230"]
    assert codes(script("python", "x.py") | {"mounts": {"/checkpoints": None}}) == []


def test_a_place_that_is_asked_for_must_be_mounted_whatever_the_work() -> None:
    for work in ({}, script("python", "x.py"), command("python", "x.py")):
        assert codes(work | {"checkpoints": {"mount": "/models"}}) == ["TW230"]


@pytest.mark.parametrize("mount", [{"claim": "checkpoints", "read_only": True}, {"scratch": "1Gi", "claim": None}])
def test_checkpoints_need_a_writable_claim(mount: dict[str, object]) -> None:
    assert codes({"mounts": {"/checkpoints": mount}}) == ["TW231"]


STORE: Data = {"checkpoints": {"store": "s3://example-checkpoints/vision"}, "mounts": None}
SECRET: Data = {"secret": "object-store", "key": "id"}


@pytest.mark.parametrize(("more", "expected"), [
    ({}, ["TW245"]),
    ({"env": {"AWS_ACCESS_KEY_ID": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": "https://minio:9000"}}, []),
    ({"env": {"AWS_ACCESS_KEY_ID": SECRET}}, ["TW245"]),
    ({"env": {"AWS_SHARED_CREDENTIALS_FILE": "/aws/credentials"}}, []),
    ({"service_account": "trainer"}, []),
    ({"waivers": [{"code": "TW245", "reason": "the nodes' role may write there", "expires": "2026-08-01"}]}, ["TW245"]),
    ({"env": {"AWS_ACCESS_KEY_ID": SECRET, "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI"}}, ["TW409"]),
])
def test_an_object_store_wants_to_know_who_writes(more: Data, expected: list[str]) -> None:
    assert codes(STORE | more) == expected


def test_half_of_the_access_keys_is_named() -> None:
    assert "env has AWS_ACCESS_KEY_ID without AWS_SECRET_ACCESS_KEY" in message(STORE | {"env": {"AWS_ACCESS_KEY_ID": SECRET}})


def test_checkpoints_have_one_place() -> None:
    with pytest.raises(ValueError, match="remove one of the two"):
        codes(STORE | {"checkpoints": STORE["checkpoints"] | {"mount": "/checkpoints"}})


@pytest.mark.parametrize("address", [
    "s3://", "s3://b", "s3://bucket/", "s3://bucket//a", "s3://bucket/../other", "s3://bucket/a b", "s3://Bucket", "gs://bucket",
    "s3://bucket/.hidden", "/checkpoints", "s3://bucket/*",
])
def test_an_address_is_a_bucket_and_a_plain_prefix(address: str) -> None:
    with pytest.raises(ValueError, match="store"):
        codes(STORE | {"checkpoints": {"store": address}})


def test_who_may_mount_a_claim_does_not_matter_to_a_store() -> None:
    one_pod: Data = {"namespaces": {"training": {"claims": {"checkpoints": {"access": "ReadWriteOncePod"}}}}}
    assert codes({}, one_pod) == ["TW235"]
    assert codes(STORE | {"service_account": "trainer"}, one_pod) == []


def test_claims_must_be_in_the_profile() -> None:
    assert codes({"mounts": {"/data": {"claim": "other"}}}) == ["TW234"]
    assert "checkpoints, dataset, one-node" in message({"mounts": {"/data": {"claim": "other"}}})


def test_the_two_findings_on_a_read_only_claim_do_not_contradict_each_other() -> None:
    """`read_only: true` is no way out where checkpoints are to be written (TW231)."""
    claims = {"namespaces": {"training": {"claims": {"checkpoints": {"access": "ReadOnlyMany"}}}}}
    (finding,) = findings({"mounts": {"/checkpoints": {"claim": "checkpoints"}}}, claims)
    assert (finding.code, finding.fix) == ("TW235", "use a ReadWriteMany claim")


def test_access_modes() -> None:
    assert codes({"mounts": {"/data": {"claim": "dataset"}}}) == ["TW235"]
    assert codes({"mounts": {"/data": {"claim": "dataset", "read_only": True}}}) == []
    assert codes({"mounts": {"/data": {"claim": "one-node"}}}) == ["TW235"]
    assert codes({"mounts": {"/data": {"claim": "one-node"}}} | ONE_NODE) == []


MPI: Data = {"target": "mpi-job", "topology": {"kind": "horovod", "nodes": 1, "gpus_per_node": 8}}
ELASTIC: Data = {
    "target": "pytorch-job", "topology": {"nodes": 1, "elastic": {"min_nodes": 1, "max_nodes": 3}},
}  # fmt: skip
KUBEFLOW: Data = {
    "operators": {"training-operator": {"version": "1.9"}, "mpi-operator": {"version": "0.6"}},
    "namespaces": {
        "training": {"pod_security": "privileged", "claims": {"one-pod": {"access": "ReadWriteOncePod", "managed": False}}},
    },
}


@pytest.mark.parametrize(
    ("run", "claim", "said"),
    [
        ({}, "one-node", "one node can mount it, and the run has 2 pods"),
        ({}, "one-pod", "one pod can mount it, and the run has 2 pods"),
        (ONE_NODE, "one-node", None),
        (MPI, "one-node", None),
        (MPI | {"roles": {"all": {"mounts": {"/data": {"claim": "one-node"}}}}}, "one-node",
         "one node can mount it, and the run has 2 pods"),
        (MPI | {"topology": MPI["topology"] | {"launcher_is_node": True}}, "one-node", None),
        (ELASTIC, "one-node", "one node can mount it, and the run has up to 3 pods"),
    ],
    ids=[
        "two nodes", "one pod", "one node", "a launcher beside it", "a launcher that has it too", "a launcher that is it",
        "one node that may become three",
    ],
)
def test_each_pod_mounts_the_claims(run: Data, claim: str, said: str | None) -> None:
    modes = [one for one in findings({"mounts": {"/data": {"claim": claim}}} | run, KUBEFLOW) if one.code == "TW235"]
    assert [one.message.partition(": ")[2] for one in modes] == ([said] if said else [])


SIZE = 830_328
"""Bytes of one checkpoint of the example."""


@pytest.mark.parametrize(
    ("held", "keep", "code", "fix"),
    [
        (2 * SIZE - 1, 2, "TW238", "use a claim of at least 3Mi"),
        (2 * SIZE, 2, "TW239", "use a claim of at least 3Mi: keep cannot be below 2"),
        (3 * SIZE - 1, 3, "TW239", "use a claim of at least 4Mi: keep cannot be below 2"),
        (3 * SIZE, 3, "TW239", "write keep: 2, or use a claim of at least 4Mi"),
        (10 * SIZE, 50, "TW239", "write keep: 9, or use a claim of at least 41Mi"),
        (3 * SIZE, 2, None, None),
        (4 * SIZE, 3, None, None),
    ],
)
def test_what_is_kept_and_a_new_one_must_fit_the_claim(held: int, keep: int, code: str | None, fix: str | None) -> None:
    cluster = {"namespaces": {"training": {"claims": {"checkpoints": {"size": held}}}}}
    told = findings({"checkpoints": {"keep": keep}}, cluster)
    assert [(one.code, one.fix) for one in told] == ([(code, fix)] if code else [])
    assert code is None or "one takes about 1Mi, and claim checkpoints has" in told[0].message


@pytest.mark.parametrize("work", [script("python", "x.py"), command("torchrun", "x.py")], ids=["script", "command"])
def test_of_checkpoints_of_unknown_size_nothing_is_said(work: Data) -> None:
    assert codes(work, {"namespaces": {"training": {"claims": {"checkpoints": {"size": "1Mi"}}}}}) == []
    unknown = {"namespaces": {"training": {"claims": {"checkpoints": {"size": None, "managed": False}}}}}
    assert codes({}, unknown) == []


LARGE: Data = {"workload": {"model": {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}}}
"""About 1.02 GB a checkpoint."""


@pytest.mark.parametrize(("speed", "expected"), [(3, ["TW249"]), (4, [])])
def test_a_save_must_end_before_the_autoscaler_ends_the_pod(speed: int, expected: list[str]) -> None:
    cluster = {"namespaces": {"training": {"claims": {"checkpoints": {"write_mebibytes_per_second": speed}}}}}
    assert codes(LARGE, cluster) == expected
    assert codes(LARGE | {"node_pool": "spot"}, cluster) == ["TW236", "TW455"], "the notice is shorter"


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
    assert codes(spot) == ["TW455"]
    assert codes(spot, {"node_pools": {"spot": {"spot": {"notice": "59s"}}}}) == ["TW236", "TW455"]
    assert codes(spot, {"node_pools": {"spot": {"spot": {"notice": "60s"}}}}) == ["TW455"]
    (short, _) = findings(spot, {"node_pools": {"spot": {"spot": {"notice": "30s"}}}})
    assert "needs 60 s of grace" in short.message
