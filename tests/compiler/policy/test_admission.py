"""The API server would refuse what the review refuses: the objects are valid, and Google's own library runs their CEL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import cache
from typing import Any

import pytest
import yaml
from cel_expr_python import cel
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.projects import ROOT

from trainwright.cluster import Cluster
from trainwright.findings.locate import Locator
from trainwright.manifest.pods import pods_in
from trainwright.operators.added import pods_made
from trainwright.policy import Policy, PolicyRun
from trainwright.policy.admission import admission, text
from trainwright.policy.check import check_policy
from trainwright.policy.load import PolicyFile
from trainwright.project.load import load_cluster_file
from trainwright.validate.core import core_problems

TODAY = date(2026, 7, 1)
Tree = dict[str, Any]
ANY = {"code": "SEC-1", "title": "it's a \"policy\" of ours\\", "why": "because", "fix": "do not"}


def policy(**demand: Any) -> PolicyFile:
    return PolicyFile("charts/policies/one.yaml", Policy.model_validate({**ANY, **demand}), {})


@cache
def cluster(name: str = "h100-ib") -> Cluster:
    path = ROOT / "charts" / "clusters" / f"{name}.yaml"
    return load_cluster_file(path, str(path)).cluster


def with_kueue() -> Cluster:
    profiles = [cluster(path.stem) for path in sorted((ROOT / "charts" / "clusters").glob("*.yaml"))]
    return next(one for one in profiles if one.kueue)


def objects(file: PolicyFile, of: Cluster | None = None) -> tuple[Tree, Tree]:
    """The policy and its binding."""
    definition, binding = admission([file], of or cluster(), TODAY).objects
    return definition, binding


@cache
def _compiled(expression: str) -> Any:
    names = ("object", "oldObject", "request", "variables")
    return cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN)).compile(expression)


def evaluate(expression: str, manifest: Tree, variables: Tree, old: Tree | None = None) -> Any:
    request = {"operation": "UPDATE" if old else "CREATE"}
    data = {"object": manifest, "oldObject": old, "request": request, "variables": variables}
    result = _compiled(expression).eval(data=data)
    assert result.type() != cel.Type.ERROR, f"{expression}\n{result.value()}"
    return result.plain_value() if hasattr(result, "plain_value") else result.value()


def denied(definition: Tree, manifest: Tree, old: Tree | None = None) -> bool:
    """As the API server decides it for the creation of an object, or for the update of an old one."""
    spec, group = definition["spec"], manifest["apiVersion"].rpartition("/")[0]
    operation = "UPDATE" if old else "CREATE"
    rules = [one for one in spec["matchConstraints"]["resourceRules"] if operation in one["operations"]]
    asked = [(one["apiGroups"][0], one["resources"][0]) for one in rules]
    if (group, f"{manifest['kind'].lower()}s") not in asked:
        return False
    if not all(evaluate(one["expression"], manifest, {}, old) for one in spec.get("matchConditions", [])):
        return False
    variables = {one["name"]: _plain(evaluate(one["expression"], manifest, {})) for one in spec.get("variables", [])}
    return not all(evaluate(one["expression"], manifest, variables) for one in spec["validations"])


def _plain(value: Any) -> Any:
    """A value of the library as Python's own."""
    value = value.value() if hasattr(value, "value") else value
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


@cache
def fleet() -> list[tuple[str, list[Tree]]]:
    """Every file of runs in dist/, with its cluster."""
    found = []
    for path in sorted((ROOT / "dist").glob("*/*/runs/*.yaml")):
        found.append((path.name.split(".")[0], list(yaml.safe_load_all(path.read_text(encoding="utf-8")))))
    return found


def as_pods(manifest: Tree) -> Iterator[Tree]:
    """What a controller would create."""
    for pod in pods_in(manifest):
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": pod.template.get("metadata", {}), "spec": pod.spec}


def review_refuses(file: PolicyFile, manifests: list[Tree], of: Cluster | None = None) -> bool:
    facts: Tree = {}
    for manifest in manifests:
        facts |= {f"labels.{key}": value for key, value in manifest["metadata"].get("labels", {}).items()}
    pods = [pod for manifest in manifests for pod in pods_made(manifest, of or cluster())]
    specs, added = tuple(pod.spec for pod in pods), tuple(container for pod in pods for container in pod.added)
    queue = facts.get("labels.kueue.x-k8s.io/queue-name")
    run = PolicyRun("run", "team", "cluster", "namespace", queue, 0, facts, tuple(manifests), specs, added)
    return bool(list(check_policy(file, [run], {"run": Locator()}, TODAY)))


DEMANDS: list[Tree] = [
    {"registries": ["registry.example.com"]}, {"registries": ["registry.example.com/trainwright/"]},
    {"registries": ["docker.io", "nvcr.io"]}, {"priorities": ["high", "low"]}, {"forbid": ["host-network"]}, {"forbid": ["root"]},
    {"forbid": ["privileged", "host-path"]},
]  # fmt: skip


@pytest.mark.parametrize("demand", DEMANDS, ids=str)
def test_the_cluster_refuses_what_the_review_refuses(demand: Tree) -> None:
    file = policy(**demand)
    definition, _ = objects(file)
    for name, manifests in fleet():
        created = [*manifests, *(pod for manifest in manifests for pod in as_pods(manifest))]
        assert any(denied(definition, one) for one in created) == review_refuses(file, manifests), (name, demand)


def with_init_image(image: str | None) -> Cluster:
    """A cluster with the Training Operator, as it was told which image its init container has."""
    whole = cluster("kubeflow-a100")
    operator = whole.operators["training-operator"].model_copy(update={"init_image": image})
    return whole.model_copy(update={"operators": {**whole.operators, "training-operator": operator}})


def pytorch_job(*roles: str) -> Tree:
    template = {"spec": {"containers": [{"name": "pytorch", "image": "registry.example.com/x:1"}]}}
    spec = {"pytorchReplicaSpecs": {role: {"replicas": 1, "template": template} for role in roles}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"}, "spec": spec}


@pytest.mark.parametrize(("image", "allowed", "refused"), [
    (None, ["registry.example.com"], True),
    (None, ["registry.example.com", "alpine:3.10"], False),
    (None, ["registry.example.com", "alpine"], True),
    ("registry.example.com/mirror/alpine:3.20", ["registry.example.com"], False),
    ("registry.example.com/mirror/alpine:3.20", ["registry.example.com/x"], True),
    ("docker.io/library/alpine:3.10", ["registry.example.com/", "docker.io/library/"], False),
])  # fmt: skip
def test_the_operators_own_container_counts_as_the_pods(image: str | None, allowed: list[str], refused: bool) -> None:
    file, of = policy(registries=[*allowed, "registry.example.com/x:1"]), with_init_image(image)
    definition, _ = objects(file, of)
    for roles, gets_one in ((("Master", "Worker"), True), (("Worker",), False), (("Master",), False)):
        one = pytorch_job(*roles)
        assert denied(definition, one) == review_refuses(file, [one], of) == (refused and gets_one), roles


@pytest.mark.parametrize("image", ["elsewhere.example.com/x:1", "registry.example.com/x:1", None])
def test_an_image_outside_of_pods_is_looked_at(image: str | None) -> None:
    """The API server sees a TrainJob, and its pods only once somebody waits for them."""
    named = {} if image is None else {"image": image}
    spec = {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2, **named}}
    pods = {"template": {"spec": {"containers": [{"name": "ray-head", "image": "registry.example.com/ray:1"}]}}}
    ray = {"rayClusterSpec": {"headGroupSpec": pods, "autoscalerOptions": named}}
    of_trainer = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "j"}}
    made: list[Tree] = [
        {**of_trainer, "spec": spec},
        {**of_trainer, "spec": {"runtimeRef": {}}},
        {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "j"}, "spec": ray},
    ]
    file = policy(registries=["registry.example.com"])
    definition, _ = objects(file)
    foreign = image is not None and image.startswith("elsewhere")
    assert [denied(definition, one) for one in made] == [foreign, False, foreign]
    assert [review_refuses(file, [one]) for one in made] == [foreign, False, foreign]


def test_a_template_is_refused_before_there_is_a_pod() -> None:
    """At the object that carries the run: Argo CD says at once what is wrong."""
    definition, _ = objects(policy(registries=["nowhere.example.com"]))
    kinds = {one["kind"] for _, manifests in fleet() for one in manifests if denied(definition, one)}
    assert {"Job", "JobSet", "PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "RayJob"} <= kinds


@pytest.mark.parametrize("demand", [*DEMANDS, {"queues": ["a"]}, {"labels": {"a/b": ["x"], "c": []}}], ids=str)
def test_the_objects_are_valid(demand: Tree) -> None:
    granted = [{"run": "r", "reason": "x", "expires": date(2026, 8, 1)}]
    for version in ("1.30", "1.36"):
        for one in objects(policy(**demand, applies_to={"teams": ["a"]}, exempt=granted), with_kueue()):
            assert core_problems(one, version) == []


USER: dict[str, st.SearchStrategy[Any]] = {"runAsUser": st.sampled_from([0, 1000]), "runAsNonRoot": st.booleans()}
CONTEXT = st.fixed_dictionaries({}, optional={**USER, "privileged": st.booleans()})
CONTAINER = st.fixed_dictionaries(
    {"name": st.just("c")},
    optional={"image": st.sampled_from(["a.example/x:1", "a.example", "a.example.org/x", "b/x"]), "securityContext": CONTEXT},
)
POD_SPEC = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, min_size=1, max_size=2)},
    optional={
        "initContainers": st.lists(CONTAINER, min_size=1, max_size=1),
        "ephemeralContainers": st.lists(CONTAINER, min_size=1, max_size=1),
        "securityContext": st.fixed_dictionaries({}, optional=USER),
        "volumes": st.lists(st.sampled_from([
            {"name": "h", "hostPath": {"path": "/"}}, {"name": "e", "emptyDir": {}}, {"name": "i", "image": {"reference": "b/x"}},
        ]), max_size=2),
        "hostNetwork": st.booleans(), "priorityClassName": st.sampled_from(["high", "other"]),
    },
)  # fmt: skip


@given(POD_SPEC, st.sampled_from([
    {"registries": ["a.example"]}, {"registries": ["a.example/", "b"]}, {"priorities": ["high"]},
    *({"forbid": [name]} for name in ("root", "privileged", "host-path", "host-network")),
]))  # fmt: skip
def test_any_pod_is_judged_alike(spec: Tree, demand: Tree) -> None:
    file = policy(**demand)
    for container in (one for field in ("containers", "initContainers", "ephemeralContainers") for one in spec.get(field, ())):
        container.setdefault("image", "a.example/x:1")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    assert denied(objects(file)[0], pod) == review_refuses(file, [pod])


def job(labels: dict[str, str] | None, **metadata: Any) -> Tree:
    labelled = {} if labels is None else {"labels": labels}
    spec = {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", **labelled, **metadata}, "spec": spec}


def test_labels_and_queues_are_asked_of_what_carries_a_run() -> None:
    definition, _ = objects(policy(labels={"cost-center": ["a", "b"], "tier": []}))
    assert denied(definition, job(None))
    assert denied(definition, job({"cost-center": "a"}))
    assert denied(definition, job({"cost-center": "c", "tier": "x"}))
    assert not denied(definition, job({"cost-center": "b", "tier": ""}))
    assert not denied(definition, job(None, ownerReferences=[{"kind": "JobSet"}])), "its owner was looked at"
    assert not denied(definition, job({"app.kubernetes.io/component": "foundation"})), "it belongs to no run"
    definition, _ = objects(policy(queues=["research"]), with_kueue())
    assert denied(definition, job(None))
    assert denied(definition, job({"kueue.x-k8s.io/queue-name": "other"}))
    assert not denied(definition, job({"kueue.x-k8s.io/queue-name": "research"}))


def test_a_scope_and_an_exemption_are_conditions() -> None:
    days = {"big": date(2026, 8, 1), "old": date(2026, 6, 1)}
    granted = [{"run": run, "reason": "x", "expires": day} for run, day in days.items()]
    definition, binding = objects(policy(forbid=["root"], exempt=granted, severity="warning"))
    assert not denied(definition, job({"app.kubernetes.io/name": "big"}))
    assert denied(definition, job({"app.kubernetes.io/name": "old"})), "its last day is over"
    assert binding["spec"]["validationActions"] == ["Warn"]
    assert binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"][0]["values"] == list(cluster().namespaces)
    definition, _ = objects(policy(forbid=["root"], applies_to={"teams": ["nlp"]}))
    assert denied(definition, job({"trainwright.dev/team": "nlp"}))
    assert not denied(definition, job({"trainwright.dev/team": "vision"}))
    assert admission([policy(forbid=["root"], applies_to={"clusters": ["other"]})], cluster(), TODAY).objects == []


def test_what_cel_cannot_say_is_said() -> None:
    made = admission([policy(gpus={"per_run": 1})], cluster(), TODAY)
    assert made.objects == []
    (line,) = made.left_out
    assert line.startswith("SEC-1 (charts/policies/one.yaml): a cap on GPUs")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_ends_its_literal(value: str) -> None:
    assert _plain(evaluate(f"[{text(value)}]", {}, {})) == [value]


def pod(image: str, **more: Any) -> Tree:
    spec = {"containers": [{"name": "c", "image": image}], **more.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **more}, "spec": spec}


GOOD, BAD = "registry.example.com/x:1", "elsewhere.example.com/x:1"


def test_a_pod_gets_no_other_image_later() -> None:
    """By `kubectl set image`, which the API server lets through, or by `kubectl debug`."""
    definition, _ = objects(policy(registries=["registry.example.com"]))
    assert denied(definition, pod(BAD), pod(GOOD))
    assert not denied(definition, pod("registry.example.com/x:2"), pod(GOOD))
    assert denied(definition, pod(GOOD, spec={"ephemeralContainers": [{"name": "debug", "image": BAD}]}), pod(GOOD))
    rules = definition["spec"]["matchConstraints"]["resourceRules"]
    assert [one["resources"] for one in rules if "UPDATE" in one["operations"]] == [["pods", "pods/ephemeralcontainers"]]


def test_the_policy_is_no_obstacle_for_what_was_there_before() -> None:
    definition, _ = objects(policy(registries=["registry.example.com"]))
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    old = pod(BAD, finalizers=["batch.kubernetes.io/job-tracking"], spec={"schedulingGates": gates})
    assert not denied(definition, pod(BAD), old), "Kueue starts it, and the Job controller counts it"
    definition, _ = objects(policy(labels={"cost-center": [], "tier": []}))
    old = job({"tier": "x"}, finalizers=["foregroundDeletion"])
    assert not denied(definition, job({"tier": "x", "more": "y"}), old)
    definition, _ = objects(policy(forbid=["root"], applies_to={"teams": ["nlp"]}))
    assert not denied(definition, job({"trainwright.dev/team": "nlp"}), job({"trainwright.dev/team": "nlp"}))


def test_labels_and_queues_that_change_later_are_looked_at() -> None:
    definition, _ = objects(policy(labels={"cost-center": ["a", "b"], "tier": []}))
    old = job({"cost-center": "a", "tier": "x"})
    assert denied(definition, job({"cost-center": "c", "tier": "x"}), old)
    assert denied(definition, job({"cost-center": "a"}), old)
    assert denied(definition, job(None), old)
    assert not denied(definition, job({"cost-center": "b", "tier": "x"}), old)
    definition, _ = objects(policy(queues=["research"]), with_kueue())
    old = job({"kueue.x-k8s.io/queue-name": "research"})
    assert denied(definition, job({"kueue.x-k8s.io/queue-name": "other"}), old)
    assert denied(definition, job(None), old)
