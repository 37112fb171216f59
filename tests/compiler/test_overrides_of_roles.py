"""Overrides of the pods of each role, on every target: what the plan keeps is the same everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.example import Data, codes, compiled, findings
from tests.compiler.targets import CASES, on, profile_for

from trainwright.rendezvous.mpi import MPI

TENSORFLOW: Data = {"kind": "multi-worker-mirrored", "nodes": 3, "gpus_per_node": 8}
ELASTIC: Data = {"elastic": {"min_nodes": 2, "max_nodes": 4}}


def roles(target: str) -> list[str]:
    return [role.name for role in compiled(on(target), profile_for(target)).resolution.binding.roles]


def pod(target: str, role: str, **fields: Any) -> list[str]:
    return codes(on(target, overrides={"pod": {role: fields}}), profile_for(target))


def container(target: str, role: str) -> str:
    return CASES[target].roles[role]


EACH = pytest.mark.parametrize(("target", "role"), [(target, role) for target in CASES for role in roles(target)])


@pytest.mark.parametrize("target", CASES)
def test_roles_are_those_of_the_table(target: str) -> None:
    assert set(roles(target)) == CASES[target].roles.keys()


@EACH
def test_harmless_fields_of_every_role_are_free(target: str, role: str) -> None:
    before = set(codes(on(target), profile_for(target)))
    assert set(pod(target, role, runtimeClassName="nvidia")) == before
    env = [{"name": "EXTRA", "value": "1"}]
    assert set(pod(target, role, containers=[{"name": container(target, role), "env": env}])) == before
    named = compiled(on(target), profile_for(target)).plan.name
    assert compiled(on(target, overrides={"pod": {role: {"runtimeClassName": "nvidia"}}}), profile_for(target)).plan.name != named


@EACH
@pytest.mark.parametrize("context", [{"runAsUser": 2000}, None], ids=["another", "none"])
def test_the_user_is_free_but_where_sshd_runs(target: str, role: str, context: Data | None) -> None:
    """sshd and ssh are given keys in the home of one user of the image."""
    started_by_ssh = compiled(on(target), profile_for(target)).resolution.needs.part(MPI) is not None
    before = codes(on(target), profile_for(target))
    assert pod(target, role, securityContext=context) == (["TW601"] if started_by_ssh else before)
    if context:
        main = {"name": container(target, role), "securityContext": context}
        assert pod(target, role, containers=[main]) == (["TW601"] if started_by_ssh else before)
    assert pod(target, role, securityContext={"runAsGroup": 2000}) == before


@EACH
@pytest.mark.parametrize(
    "fields",
    [
        {"image": "registry.example.com/other:1"},
        {"command": ["other"]},
        {"ports": [{"name": "x", "containerPort": 1}]},
        {"resources": {"limits": {"cpu": "3"}}},
        {"env": [{"name": "TRAINWRIGHT_SPEC", "value": "/x"}]},
        {"env": [{"name": "RANK", "value": "0"}]},
        {"livenessProbe": {"exec": {"command": ["true"]}}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_the_work_of_every_role_is_the_plans(target: str, role: str, fields: Data) -> None:
    """But the share of a pod without ranks has no field in a run, and what has no supervisor has probes of its own."""
    resolution = compiled(on(target), profile_for(target)).resolution
    holds_ranks = next(each for each in resolution.binding.roles if each.name == role).holds_ranks
    free = not holds_ranks if "resources" in fields else "livenessProbe" in fields and not resolution.processes[role].supervised
    assert ("TW601" in pod(target, role, containers=[{"name": container(target, role), **fields}])) != free


@EACH
def test_grace_and_account_of_every_role_are_the_runs(target: str, role: str) -> None:
    assert "TW601" in pod(target, role, terminationGracePeriodSeconds=1)
    assert "TW601" in pod(target, role, serviceAccountName="other")


@pytest.mark.parametrize(
    ("run", "role", "there"),
    [
        (on("pytorch-job", topology={"nodes": 1}), "worker", "master"),
        (on("pytorch-job", topology=ELASTIC), "master", "worker"),
        (on("tf-job", topology=TENSORFLOW), "chief", "worker"),
        (on("job-set"), "worker", "node"),
        (on("mpi-job"), "master", "launcher, worker"),
    ],
)
def test_a_role_that_this_run_does_not_have_is_named(run: Data, role: str, there: str) -> None:
    run = run | {"overrides": {"pod": {role: {"runtimeClassName": "x"}}}}
    (found,) = [finding for finding in findings(run, profile_for(run["target"])) if finding.code == "TW602"]
    assert found.where.pointer == f"/overrides/pod/{role}"
    assert found.fix == f"use one of: {there}"


@pytest.mark.parametrize(
    ("run", "kind", "patch"),
    [
        (on("pytorch-job", topology={"nodes": 1}), "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {}}}}}),
        (on("pytorch-job", topology=ELASTIC), "PyTorchJob", {"pytorchReplicaSpecs": {"Master": {"template": {}}}}),
        (on("tf-job", topology=TENSORFLOW), "TFJob", {"tfReplicaSpecs": {"Chief": {"template": {"spec": {}}}}}),
        (on("tf-job"), "TFJob", {"tfReplicaSpecs": {"Evaluator": {"template": {"spec": {}}}}}),
    ],
)
def test_a_patch_makes_no_role(run: Data, kind: str, patch: Data) -> None:
    """The operator would start pods of it, and count them."""
    override = {"target": run["target"], "kind": kind, "patch": {"spec": patch}}
    assert "TW601" in codes(run | {"overrides": {"objects": [override]}}, profile_for(run["target"]))


@pytest.mark.parametrize("target", CASES)
def test_a_run_without_some_role_of_its_target_takes_overrides_too(target: str) -> None:
    run = on(target, topology={**CASES[target].run.get("topology", {}), **CASES[target].fewest_roles})
    role = compiled(run, profile_for(target)).resolution.binding.roles[0].name
    result = compiled(run | {"overrides": {"pod": {role: {"runtimeClassName": "nvidia"}}}}, profile_for(target))
    assert any(place.endswith("/runtimeClassName") for place in result.overridden)


GANG: Data = {"scheduling": {"gang": "volcano", "version": "1.15"}}


@EACH
@pytest.mark.parametrize(
    ("field", "run", "cluster", "owned"),
    [
        ("schedulerName", {}, {}, False),
        ("schedulerName", {}, GANG, True),
        ("schedulerName", {"gang": False}, GANG, False),
        ("priorityClassName", {}, {}, False),
        ("priorityClassName", {"priority": "high"}, {}, True),
    ],
)
def test_what_goes_with_the_group_is_owned_where_it_is_planned(
    target: str, role: str, field: str, run: Data, cluster: Data, owned: bool
) -> None:
    found = findings(on(target, **run, overrides={"pod": {role: {field: "other"}}}), profile_for(target) | cluster)
    refused = [finding for finding in found if finding.code == "TW601"]
    always = field == "schedulerName" and CASES[target].gang is not None and "gang" not in run
    assert bool(refused) is (owned or always)
    word = {"schedulerName": "change gang", "priorityClassName": "change priority"}[field]
    assert all(finding.fix.startswith(word) for finding in refused)
