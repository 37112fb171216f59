"""Which nodes a run asks for, gates, the runtime of its pods, and annotations of the object that carries it."""

from __future__ import annotations

import pytest
from tests.compiler.example import RUN, Data, codes, command, compiled, findings
from tests.compiler.findings.page import overlay
from tests.compiler.objects import assert_accepted
from tests.compiler.targets import CASES, on, profile_for

from trainwright.findings import CompileError
from trainwright.manifest.provenance import split
from trainwright.operators import TARGETS
from trainwright.operators.base import run_pods
from trainwright.reading import validate_data
from trainwright.run import Run

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
DISK: Data = {"key": "example.com/disk", "operator": "In", "values": ["nvme"]}
OLD: Data = {"labels": [{"key": "example.com/age", "operator": "Gt", "values": ["3"]}], "weight": 7}
HOST = "kubernetes.io/hostname"
SERVES: Data = {"labels": {"app": "serves"}, "topology_key": HOST}
READS: Data = {
    "expressions": [{"key": "app", "operator": "In", "values": ["cache"]}], "topology_key": "example.com/rack",
    "namespaces": ["data"], "weight": 7,
}  # fmt: skip
STATED: Data = {
    "node_affinity": {"required": [DISK], "preferred": [OLD]}, "scheduling_gates": ["example.com/hold"],
    "pod_affinity": {"preferred": [READS]}, "pod_anti_affinity": {"required": [SERVES], "preferred": [{**SERVES, "weight": 1}]},
    "runtime_class": "gvisor", "annotations": {"example.com/owner": "me"},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_every_target_carries_them(name: str) -> None:
    result = compiled(on(name, **STATED), profile_for(name))
    for manifest in result.manifests:
        assert_accepted(manifest, result.cluster.kubernetes)
    kind = CASES[name].kind
    annotated = [one for one in result.manifests if one["metadata"].get("annotations", {}).get("example.com/owner") == "me"]
    assert [(one["apiVersion"].rpartition("/")[0], one["kind"]) for one in annotated] == [kind]
    lowered = [split(tree)[0] for tree in TARGETS[name].lower(result.resolution)]
    roles = {role.name for role in result.resolution.binding.roles if role.holds_ranks}
    for pod in run_pods(TARGETS[name], result.resolution, lowered):
        if pod.role in roles:
            spec = pod.found.spec
            assert spec["runtimeClassName"] == "gvisor"
            assert spec["schedulingGates"] == [{"name": "example.com/hold"}]
            assert spec["affinity"]["nodeAffinity"] == {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [DISK]}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 7, "preference": {"matchExpressions": OLD["labels"]}}
                ],
            }
            near = {"labelSelector": {"matchExpressions": READS["expressions"]}, "topologyKey": "example.com/rack"}
            assert spec["affinity"]["podAffinity"] == {
                PREFERRED: [{"weight": 7, "podAffinityTerm": {**near, "namespaces": ["data"]}}],
            }
            apart = {"labelSelector": {"matchLabels": {"app": "serves"}}, "topologyKey": HOST}
            assert spec["affinity"]["podAntiAffinity"] == {
                REQUIRED: [apart], PREFERRED: [{"weight": 1, "podAffinityTerm": apart}],
            }  # fmt: skip


@pytest.mark.parametrize("together", [{"together": "rack"}, {"together": "rack", "required": True}])
def test_what_a_run_wants_of_other_pods_stands_behind_what_the_plan_wants_of_its_own(together: Data) -> None:
    cluster: Data = {"topology": {"rack": {"label": "example.com/rack"}}}
    stated = {"pod_affinity": {"required": [SERVES], "preferred": [READS]}, "pod_anti_affinity": {"required": [SERVES]}}
    result = compiled({**stated, "placement": {**together, "one_per_node": True}}, cluster)
    (job,) = (one for one in result.manifests if one["kind"] == "Job")
    affinity = job["spec"]["template"]["spec"]["affinity"]
    own = {"matchLabels": {"app.kubernetes.io/instance": result.plan.name}}
    must, should = ([own], []) if "required" in together else ([], [own])
    near = affinity["podAffinity"]
    assert [one["labelSelector"] for one in near[REQUIRED]] == [*must, {"matchLabels": {"app": "serves"}}]
    terms = [one["podAffinityTerm"]["labelSelector"] for one in near[PREFERRED]]
    assert terms == [*should, {"matchExpressions": READS["expressions"]}]
    assert [one["labelSelector"] for one in affinity["podAntiAffinity"][REQUIRED]] == [own, {"matchLabels": {"app": "serves"}}]
    sources = {answer.source for answers in result.provenance() for answer in answers.values()}
    assert {"run:/placement", "run:/pod_affinity/required/0", "run:/pod_affinity/preferred/0"} <= sources


@pytest.mark.parametrize(("stated", "words"), [
    ({}, "it says nothing; give required or preferred"),
    ({"required": [{"topology_key": HOST}]}, "it names no pods; add labels"),
    ({"required": [{**SERVES, "weight": 5}]}, "weight"),
    ({"preferred": [{**SERVES, "expressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}]}, "Gt"),
    ({"preferred": [{**SERVES, "expressions": [{"key": "a", "operator": "In"}]}]}, "In needs values"),
])  # fmt: skip
def test_pods_that_nobody_can_find_are_refused(stated: Data, words: str) -> None:
    with pytest.raises(CompileError) as refused:
        validate_data(Run, {**RUN, "pod_anti_affinity": stated}, "run.yaml", {})
    assert words in str(refused.value)


def test_annotations_restart_nothing() -> None:
    assert compiled({}).plan.name == compiled({"annotations": {"a.b/c": "d"}}).plan.name
    assert compiled({}).plan.name != compiled({"runtime_class": "gvisor"}).plan.name


@pytest.mark.parametrize(("run", "code", "place"), [
    ({"annotations": {"argocd.argoproj.io/sync-wave": "3"}}, "TW410", "/annotations/argocd.argoproj.io~1sync-wave"),
    ({"annotations": {"kueue.x-k8s.io/queue-name": "x"}}, "TW451", "/annotations/kueue.x-k8s.io~1queue-name"),
    ({"scheduling_gates": ["example.com/hold"]}, "TW461", "/scheduling_gates/0"),
    ({"scheduling_gates": ["kueue.x-k8s.io/admission"]}, "TW451", "/scheduling_gates/0"),
])  # fmt: skip
def test_what_works_against_the_plan(run: Data, code: str, place: str) -> None:
    assert (code, place) in [(one.code, one.where.pointer) for one in findings(run)]


@pytest.mark.parametrize(("operator", "values", "fits"), [
    ("In", ["4"], True), ("In", ["5"], False), ("NotIn", ["4"], False), ("NotIn", ["5"], True), ("Exists", [], True),
    ("DoesNotExist", [], False), ("Gt", ["3"], True), ("Gt", ["4"], False), ("Lt", ["5"], True), ("Lt", ["4"], False),
])  # fmt: skip
def test_a_pool_has_nodes_for_it(operator: str, values: list[str], fits: bool) -> None:
    label = {"key": "example.com/rack", "operator": operator, "values": values}
    cluster = {"node_pools": {"h100": {"labels": {"example.com/rack": "4"}}}}
    assert ("TW328" in codes({"node_pool": "h100", "node_affinity": {"required": [label]}}, cluster)) != fits


LABELLED: Data = {"node_pools": {
    "h100": {"labels": {"example.com/kind": "gpu"}},
    "cpu": {"labels": {"example.com/kind": "cpu"}},
}}  # fmt: skip


def _terms(*terms: list[Data]) -> Data:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": one} for one in terms]}}}}


GPU, CPU = ({"key": "example.com/kind", "operator": "In", "values": [kind]} for kind in ("gpu", "cpu"))
FREE: Data = {"key": "example.com/free", "operator": "Exists"}


@pytest.mark.parametrize(("role", "patch", "words"), [
    ("launcher", _terms([GPU]), "every node of pool cpu has example.com/kind: cpu, and this entry excludes it (In gpu)"),
    ("launcher", _terms([GPU], [CPU]), None),
    ("launcher", _terms([GPU], [GPU, FREE]), "In gpu"),
    ("launcher", _terms([FREE]), None),
    ("launcher", {"nodeSelector": {"example.com/disk": "a"}, **_terms([{"key": "example.com/disk", "operator": "DoesNotExist"}])},
     "the nodeSelector asks for example.com/disk: a, and this entry excludes it (DoesNotExist)"),
    ("launcher", _terms([{"key": "example.com/kind", "operator": "Gt", "values": ["3"]}]), "(Gt 3)"),
])  # fmt: skip
def test_finished_pods_fit_the_pool_that_they_are_for(role: str, patch: Data, words: str | None) -> None:
    """Where an override says it; the place is the line of it."""
    run = on("mpi-job", **command("mpirun", "x"), roles={"launcher": {"node_pool": "cpu"}}, overrides={"pod": {role: patch}})
    said = [one for one in findings(run, overlay(profile_for("mpi-job"), LABELLED)) if one.code == "TW328"]
    assert [words in one.message for one in said if words] == ([True] * len(said) if words else [])
    assert bool(said) == (words is not None)
    assert all(f"role {role}:" in one.message and f"/overrides/pod/{role}/" in str(one.where.pointer) for one in said)


def test_the_affinity_of_a_role_is_held_to_its_own_pool() -> None:
    """What holds of the ranks' pool holds of no node for the launcher, and is on the line that says so."""
    words = {"node_affinity": {"required": [GPU]}}
    cluster = overlay(profile_for("mpi-job"), LABELLED)
    run = on("mpi-job", **command("mpirun", "x"), **words, roles={"launcher": {"node_pool": "cpu"}})
    assert [one for one in findings(run, cluster) if one.code == "TW328"] == [], "it is said of the ranks"
    for name in ("launcher", "all"):
        stated = overlay(run, {"roles": {name: words}})
        (said,) = [one for one in findings(stated, cluster) if one.code == "TW328"]
        assert said.where.pointer == f"/roles/{name}/node_affinity/required/0"
        assert "roles.launcher.node_pool" in said.fix


def test_a_gate_and_a_secret_for_pulling_are_there_once() -> None:
    with pytest.raises(CompileError, match="registry is there twice"):
        validate_data(Run, overlay(RUN, {"image_pull_secrets": ["registry", "registry"]}), "run.yaml", {})
    with pytest.raises(CompileError, match="a/hold is there twice"):
        validate_data(Run, overlay(RUN, {"scheduling_gates": ["a/hold", "b/hold", "a/hold"]}), "run.yaml", {})


@pytest.mark.parametrize(("stated", "words"), [
    ({}, "it says nothing"),
    ({"required": [{"key": "a", "operator": "In"}]}, "In needs values"),
    ({"required": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, "Exists takes no values"),
    ({"required": [{"key": "a", "operator": "Gt", "values": ["b"]}]}, "Gt takes one whole number"),
])  # fmt: skip
def test_what_is_wrong(stated: Data, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        validate_data(Run, overlay(RUN, {"node_affinity": stated}), "run.yaml", {})
