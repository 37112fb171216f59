"""The Job that fetches data, and the pods that wait for it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import codes, command, compiled, findings, pod
from tests.compiler.manifest.data.prepared import MOUNT, SOURCE, fetch_job, own_job, pod_of, prepared
from tests.compiler.objects import environment
from tests.compiler.targets import CASES, CLUSTER, on, profile_for

from trainwright.compile import CompiledRun
from trainwright.report.plan import plan_lines
from trainwright.rules.pods.objects import schema_problems
from trainwright.rules.pods.pod_security import violations
from trainwright.run import Preparation


def waiting(run: CompiledRun) -> dict[str, Any]:
    [container] = pod_of(own_job(run))["initContainers"]
    loaded: dict[str, Any] = container
    return loaded


def data_mount(run: CompiledRun) -> dict[str, Any]:
    [mount] = [one for one in pod_of(own_job(run))["containers"][0]["volumeMounts"] if one["mountPath"] == "/data/digits"]
    loaded: dict[str, Any] = mount
    return loaded


def test_the_job_that_fetches(snapshot: SnapshotAssertion) -> None:
    assert fetch_job(prepared()) == snapshot


def test_what_it_makes_of_the_run_s_pod(snapshot: SnapshotAssertion) -> None:
    pod = pod_of(own_job(prepared()))
    assert {key: pod[key] for key in ("initContainers", "volumes")} | {"mounts": pod["containers"][0]["volumeMounts"]} == snapshot


def test_the_api_takes_all_of_it() -> None:
    run = prepared()
    assert list(schema_problems(run.manifests, run.cluster.kubernetes)) == []


def test_both_pods_may_run_in_a_restricted_namespace() -> None:
    run = prepared()
    for job in (fetch_job(run), own_job(run)):
        assert list(violations(pod_of(job), "restricted", run.cluster.kubernetes)) == []


@pytest.mark.parametrize("target", CASES)
def test_every_pod_with_ranks_of_every_target_waits_and_sees_the_folder(target: str) -> None:
    run = prepared(on(target, **command("python", "train.py")), profile_for(target))
    jobs = [index for index in run.shared if run.manifests[index]["kind"] == "Job"]
    text = str([one for index, one in enumerate(run.manifests) if index not in jobs])
    assert len(jobs) == 1
    ranks = [role for role in run.resolution.binding.roles if role.holds_ranks]
    assert text.count("'name': 'await-data'") == text.count("'mountPath': '/data/digits'") == len(ranks)


def test_the_marker_that_is_waited_for_lies_beside_the_folder_that_is_read() -> None:
    run = prepared()
    [marker] = waiting(run)["args"]
    [mount] = waiting(run)["volumeMounts"]
    inside = marker.removeprefix(mount["mountPath"] + "/").removesuffix(".complete")
    assert f"{mount['subPath']}/{inside}" == data_mount(run)["subPath"]
    fetch = pod_of(fetch_job(run))["containers"][0]
    assert environment(fetch)["FOLDER"] == f"{fetch['volumeMounts'][1]['mountPath']}/{data_mount(run)['subPath']}"


def test_a_mount_can_be_prepared_as_a_whole() -> None:
    run = compiled({"mounts": {"/data": MOUNT}, "prepare": {"/data": SOURCE}})
    mounts = [one for one in pod_of(own_job(run))["containers"][0]["volumeMounts"] if one["mountPath"] == "/data"]
    [marker] = waiting(run)["args"]
    assert mounts == [{"name": "checkpoints", "mountPath": "/data", "subPath": f"data{marker[len('/data'):-len('.complete')]}",
                       "readOnly": True}]


@pytest.mark.parametrize("change", [{"source": "s3://example-datasets/letters"}, {"revision": 2}, {"endpoint": "https://s3.example.com"}])
def test_other_data_is_another_folder_another_job_and_another_run(change: dict[str, Any]) -> None:
    before, after = prepared(), prepared(**change)
    assert data_mount(before)["subPath"] != data_mount(after)["subPath"]
    assert fetch_job(before)["metadata"]["name"] != fetch_job(after)["metadata"]["name"]
    assert before.identity != after.identity
    assert before.plan.checkpoint
    assert after.plan.checkpoint
    assert before.plan.checkpoint.lineage != after.plan.checkpoint.lineage


@pytest.mark.parametrize(
    "change",
    [
        {"image": SOURCE["image"][:-2] + "00"},
        {"credentials": None, "service_account": "reader"},
        {"region": "eu-west-1"},
        {"memory": "8Gi"},
    ],
)
def test_another_way_to_fetch_is_another_job_and_restarts_nothing(change: dict[str, Any]) -> None:
    before, after = prepared(), prepared(**change)
    assert fetch_job(before)["metadata"]["name"] != fetch_job(after)["metadata"]["name"]
    assert before.identity == after.identity
    assert own_job(before) == own_job(after)


def test_runs_that_say_the_same_share_a_job_wherever_they_mount_it() -> None:
    mounts = {"/inputs": {"claim": "checkpoints", "read_only": True}}
    there = compiled({"run": "other", "mounts": mounts, "prepare": {"/inputs/data/digits": SOURCE}})
    assert fetch_job(there) == fetch_job(prepared())


def test_the_plan_says_what_is_fetched() -> None:
    row = "  data          /data/digits, once, from s3://example-datasets/digits (claim checkpoints)"
    assert row in plan_lines(prepared())
    assert not [line for line in plan_lines(compiled()) if line.startswith("  data ")]


def test_no_job_and_no_container_where_nothing_is_prepared() -> None:
    run = compiled()
    assert run.shared == ()
    assert "initContainers" not in pod_of(own_job(run))


def test_names_fit_however_long_the_claim_is_called() -> None:
    claim = "a" * 39 + "." + "b" * 100
    run = prepared({"mounts": {"/data": {"claim": claim}}}, {"namespaces": {"training": {"claims": {claim: {"managed": False}}}}})
    name = fetch_job(run)["metadata"]["name"]
    assert len(f"{name}-abcde") <= 63
    assert name.startswith("data-" + "a" * 39 + "-")
    assert "." not in name


def test_the_pod_that_copies_goes_where_no_gpu_is() -> None:
    only = {"node_pools": {"cpu": {"labels": {"example.com/pool": "cpu"}, "taints": [{"key": "example.com/cpu"}]}}}
    spec = pod_of(fetch_job(prepared(cluster=only)))
    assert spec["nodeSelector"] == {"example.com/pool": "cpu"}
    assert spec["tolerations"] == [{"key": "example.com/cpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod_of(fetch_job(prepared(cluster={"node_pools": {"cpu": None}})))["tolerations"][0]["key"] == "nvidia.com/gpu"


def test_secrets_are_references_and_an_account_needs_none() -> None:
    keys = environment(pod_of(fetch_job(prepared()))["containers"][0])
    assert keys["RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY"] == {"secretKeyRef": {"name": "object-store", "key": "secret"}}
    job = pod_of(fetch_job(prepared(credentials=None, service_account="reader")))
    assert job["serviceAccountName"] == "reader"
    assert job["automountServiceAccountToken"] is False
    account = environment(job["containers"][0])
    assert account["RCLONE_CONFIG_STORE_ENV_AUTH"] == "true"
    assert not {"RCLONE_CONFIG_STORE_ACCESS_KEY_ID", "RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY"} & account.keys()
    anybody = environment(pod_of(fetch_job(prepared(credentials=None)))["containers"][0])
    assert "RCLONE_CONFIG_STORE_ENV_AUTH" not in anybody


def test_google_cloud_storage() -> None:
    key = {"account_key": {"secret": "reader", "key": "key.json"}}
    values = environment(pod_of(fetch_job(prepared(source="gs://example-datasets/digits", credentials=key)))["containers"][0])
    assert values["RCLONE_CONFIG_STORE_TYPE"] == "google cloud storage"
    assert values["RCLONE_CONFIG_STORE_SERVICE_ACCOUNT_CREDENTIALS"] == {"secretKeyRef": {"name": "reader", "key": "key.json"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "http://example.com/data"}, "source"),
        ({"source": "s3://example-datasets/digits/"}, "source"),
        ({"source": "s3://example-datasets//digits"}, "source"),
        ({"source": "s3://example-datasets/../other"}, "must not have '.' or '..'"),
        ({"source": "gs://example-datasets/digits"}, "credentials of gs:// are account_key"),
        ({"service_account": "reader"}, "keep the key, or the account"),
        ({"endpoint": "https://user:password@s3.example.com"}, "endpoint"),
        ({"credentials": {"access_key": "AKIA", "secret_key": "plain"}}, "credentials"),
        ({"source": "gs://example-datasets/digits", "credentials": None, "region": "eu"}, "gs:// has no region"),
    ],
)
def test_what_cannot_be_meant_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Preparation.model_validate({key: value for key, value in (SOURCE | change).items() if value is not None})


def test_a_prefix_with_dollars_reaches_the_script_as_it_is() -> None:
    values = environment(pod_of(fetch_job(prepared(source="s3://example-datasets/$(HOME)")))["containers"][0])
    assert values["SOURCE"] == "store:example-datasets/$$(HOME)"


def test_overrides_reach_neither_the_job_that_fetches_nor_the_container_that_waits() -> None:
    base = {"mounts": {"/data": MOUNT}, "prepare": {"/data/digits": SOURCE}}
    small = {"initContainers": [{"name": "await-data", "image": "registry.example.com/other@sha256:" + "0" * 64}]}
    assert codes(base | pod(small)) == ["TW601"]
    beside = {"initContainers": [{"name": "mine", "image": "registry.example.com/other@sha256:" + "0" * 64}]}
    assert codes(base | pod(beside)) == ["TW606", "TW604", "TW604"]
    on_job = {"overrides": {"objects": [{"target": "job-set", "kind": "Job", "patch": {"spec": {"backoffLimit": 1}}}]}}
    run = base | on_job | {"target": "job-set"}
    assert codes(run, CLUSTER) == ["TW602"]
    assert fetch_job(prepared(pod({"priorityClassName": "high"}))) == fetch_job(prepared())


def test_findings_name_the_place() -> None:
    run = {"mounts": {"/data": MOUNT}, "prepare": {"/data/digits": SOURCE | {"image": "rclone/rclone:latest"}}}
    assert {(one.code, one.where.pointer) for one in findings(run)} == {
        ("TW305", "/prepare/~1data~1digits/image"), ("TW306", "/prepare/~1data~1digits/image"),
    }
