"""What holds for every run, whatever is in it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.compiling import compile_data, compile_text, written
from tests.compiler.fleets import FLEET
from tests.compiler.strategies import NASTY, mutations, pairs, pointers, replaced

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun
from trainwright.findings import CompileError, Finding, Severity
from trainwright.manifest.foundation import foundation
from trainwright.manifest.plain import problems
from trainwright.source import read_yaml

Data = dict[str, Any]


def walk(node: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every pointer of a manifest with its value."""
    yield pointer, node
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        yield from walk(value, f"{pointer}/{key}")


def assert_well_formed(compiled: CompiledRun) -> None:
    """Plain JSON that arrives as it is, that the API takes, and that a GitOps controller can live with."""
    assert all(finding.severity is not Severity.ERROR for finding in compiled.findings)
    for manifest in compiled.manifests:
        assert json.loads(json.dumps(manifest, allow_nan=False)) == manifest
        assert list(problems(manifest)) == []
        assert kubernetes_validate.validate(copy.deepcopy(manifest), compiled.cluster.kubernetes, strict=True) is not None
        keys = {key for _, node in walk(manifest) if isinstance(node, dict) for key in node}
        assert not keys & {"suspend", "ttlSecondsAfterFinished", "generateName"}
        assert not [key for key in keys if key.startswith("argocd.argoproj.io/") or key.startswith("helm.sh/hook")]
        assert manifest["metadata"]["name"] == compiled.plan.name


@given(pair=pairs())
@settings(max_examples=80)
def test_what_must_compile_compiles_to_what_the_api_takes(pair: tuple[Data, Data]) -> None:
    assert_well_formed(compile_data(*pair))


@given(pair=mutations())
@settings(max_examples=250)
def test_what_does_not_compile_ends_in_findings(pair: tuple[Data, Data]) -> None:
    assert_compiles_or_refuses(lambda: compile_data(*pair))


@given(pair=mutations())
@settings(max_examples=100)
def test_what_does_not_compile_from_a_file_ends_in_findings(pair: tuple[Data, Data]) -> None:
    try:
        files = written(pair[0]), written(pair[1])
    except UnicodeEncodeError:
        return
    assert_compiles_or_refuses(lambda: compile_text(*files))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["command-resumes", "digits-one-node", "everything", "resnet", "script", "transformers-model"])
def test_every_value_of_a_run_replaced_by_every_nasty_one_ends_in_findings(name: str) -> None:
    folder = FLEET / "charts"
    run = read_yaml(folder / "runs" / f"{name}.yaml").data
    cluster = read_yaml(folder / "clusters" / f"{run['cluster']}.yaml").data
    # overrides are proven by the schemas, which takes long: every tenth value there
    cases = [
        (path, value)
        for number, (path, value) in enumerate(product(pointers(run), NASTY))
        if name != "everything" or number % 10 == 0
    ]
    for path, value in cases:
        assert_compiles_or_refuses(partial(compile_data, cluster, replaced(run, path, value)))


def assert_compiles_or_refuses(work: Callable[[], CompiledRun]) -> None:
    try:
        compiled = work()
    except CompileError as error:
        refused = error.findings
    else:
        assert_well_formed(compiled)
        return
    assert any(finding.severity is Severity.ERROR for finding in refused)
    for finding in refused:
        assert_readable(finding)


def assert_readable(finding: Finding) -> None:
    """A code, a place, and words that fit on a screen; nothing of Python's or pydantic's own speech."""
    assert re.fullmatch(r"TW[0-9]{3}", finding.code)
    assert finding.message
    assert finding.why
    assert finding.fix
    words = f"{finding.where} {finding.message} {finding.fix}"
    assert len(words) < 2000
    assert not re.search(r"Traceback|pydantic|\bobject at 0x|<class |For further information", words)


@given(pair=pairs())
@settings(max_examples=30)
def test_compiling_twice_gives_the_same(pair: tuple[Data, Data]) -> None:
    first, second = compile_data(*pair), compile_data(*copy.deepcopy(pair))
    assert json.dumps(first.manifests) == json.dumps(second.manifests)
    assert first.plan == second.plan
    assert first.findings == second.findings
    assert first.provenance == second.provenance


@given(pair=pairs())
@settings(max_examples=30)
def test_generated_names_are_dns_labels(pair: tuple[Data, Data]) -> None:
    compiled = compile_data(*pair)
    nodes = compiled.plan.world.nodes
    names = [compiled.plan.name, *(f"{compiled.plan.name}-{index}" for index in range(nodes))]
    for name in names:
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name)
    job = compiled.manifests[-1]
    assert job["spec"]["template"]["spec"]["subdomain"] == compiled.plan.name
    for volume in job["spec"]["template"]["spec"]["volumes"]:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", volume["name"])


@given(pair=pairs())
@settings(max_examples=30)
def test_variables_are_set_once_and_never_the_controllers_own(pair: tuple[Data, Data]) -> None:
    compiled = compile_data(*pair)
    container = compiled.manifests[-1]["spec"]["template"]["spec"]["containers"][0]
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names))
    assert not set(names) & compiled.resolution.binding.injects.keys()


@given(pair=pairs())
@settings(max_examples=30)
def test_volumes_and_mounts_belong_together(pair: tuple[Data, Data]) -> None:
    spec = compile_data(*pair).manifests[-1]["spec"]["template"]["spec"]
    volumes = [volume["name"] for volume in spec["volumes"]]
    mounts = spec["containers"][0]["volumeMounts"]
    assert len(volumes) == len(set(volumes))
    assert {mount["name"] for mount in mounts} == set(volumes)
    assert len({mount["mountPath"] for mount in mounts}) == len(mounts)


# Identity: what moves a name, and what does not.


def name(cluster: Data, run: Data) -> str:
    return compile_data(cluster, run).plan.name


COSMETIC: tuple[tuple[str, Data], ...] = (
    ("labels", {"labels": {"example.com/note": "edited"}}),
    ("team", {"team": "another-team"}),
    ("waivers", {"waivers": [{"code": "TW305", "reason": "built anew every night", "expires": "2031-01-01"}]}),
    ("state", {"state": "active"}),
)
MOVING: tuple[tuple[str, Data], ...] = (
    ("pod_labels", {"pod_labels": {"example.com/note": "edited"}}),
    ("attempt", {"attempt": 1_000_000}),
    ("image", {"image": "registry.example.com/another/image:2"}),
    ("nodes", {"topology": {"kind": "ddp", "nodes": 6, "gpus_per_node": 0}}),
    ("env", {"env": {"APP_NEW": "edited"}}),
    ("secret", {"env": {"APP_NEW": {"secret": "another-secret", "key": "another-key"}}}),
    ("restarts", {"restarts": 77}),
)


@given(pair=pairs(), edit=st.sampled_from(COSMETIC))
@settings(max_examples=30)
def test_a_cosmetic_edit_moves_no_name(pair: tuple[Data, Data], edit: tuple[str, Data]) -> None:
    cluster, run = pair
    assert name(cluster, run | edit[1]) == name(cluster, run)


@given(pair=pairs(), edit=st.sampled_from(MOVING))
@settings(max_examples=30)
def test_an_edit_that_reaches_a_pod_moves_the_name(pair: tuple[Data, Data], edit: tuple[str, Data]) -> None:
    cluster, run = pair
    run = {"attempt": 1, **run}
    moved = {key: value for key, value in (run | edit[1]).items() if key != "overrides"}
    run = {key: value for key, value in run.items() if key != "overrides"}
    if moved == run or run["attempt"] == 1_000_000:
        return
    assert name(cluster, moved) != name(cluster, run)


@given(pair=pairs())
@settings(max_examples=30)
def test_a_learning_rate_edit_moves_its_own_run_and_no_other(pair: tuple[Data, Data]) -> None:
    cluster, run = pair
    other = run | {"run": "another-run"}
    edited = run | {"learning_rate": {"base": 0.123}, "batch": {"micro": 1}}
    before, after = name(cluster, run), name(cluster, edited)
    read_by_pods = run["workload"]["kind"] == "trainer"
    assert (before != after) == read_by_pods
    assert name(cluster, other).removeprefix("another-run-") != before.removeprefix(f"{run['run']}-")
    assert name(cluster, other) == name(cluster, run | {"run": "another-run"})


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_keys_in_a_file_moves_nothing_but_the_environment(order: int) -> None:
    cluster, run = example()
    assert name(cluster, dict(list(run.items())[::order])) == name(cluster, run)


@given(pair=pairs())
@settings(max_examples=30)
def test_the_foundation_depends_on_no_run(pair: tuple[Data, Data]) -> None:
    """It is a function of the profile alone; a run's pods only refer to its claims."""
    cluster, run = pair
    profile = Cluster.model_validate(cluster)
    before = {space: repr(foundation(profile, space)) for space in profile.namespaces}
    compiled = compile_data(cluster, run)
    assert {space: repr(foundation(profile, space)) for space in profile.namespaces} == before
    assert {manifest["kind"] for manifest in compiled.manifests} <= {"ConfigMap", "Service", "Job"}


def example() -> tuple[Data, Data]:
    cluster: Data = {
        "cluster": "here", "kubernetes": "1.34",
        "node_pools": {"cpu": {"cpus": 8, "memory": "32Gi"}},
        "namespaces": {"training": {"claims": {"checkpoints": {"managed": False}}}},
    }
    run: Data = {
        "run": "one", "team": "t", "namespace": "training", "cluster": "here", "image": "registry.example.com/i:1",
        "topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 0}, "workload": {"kind": "command", "command": ["train"]},
        "mounts": {"/checkpoints": {"claim": "checkpoints"}}, "resources": {"memory": "1Gi", "cpu": 1},
    }
    return cluster, run
