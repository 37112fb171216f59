"""What holds for every run, whatever is in it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from tests.compiler.compiling import compile_data, compile_text, written
from tests.compiler.controllers import pods
from tests.compiler.fleets import FLEET
from tests.compiler.objects import UPSTREAM, assert_accepted, catalogue
from tests.compiler.strategies import NASTY, mutations, pairs, pointers, replaced
from tests.compiler.targets import CASES

from trainwright.cluster import Cluster
from trainwright.compile import CompiledRun
from trainwright.findings import CompileError, Finding, Severity
from trainwright.manifest.foundation import foundation
from trainwright.manifest.labels import KEEP
from trainwright.manifest.plain import problems
from trainwright.operators import TARGETS
from trainwright.operators.kubeflow_trainer.releases import PATCHES, trainer_has
from trainwright.reading.document import read_yaml
from trainwright.report.plan import plan_data, plan_lines

Data = dict[str, Any]


LABEL = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


def walk(node: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every pointer of a manifest with its value."""
    yield pointer, node
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        yield from walk(value, f"{pointer}/{key}")


def test_custom_kinds_are_validated_too() -> None:
    """The one place here that says what is left out where there are no CRDs. CI fails on any skip."""
    if UPSTREAM is None:
        pytest.skip(
            "TRAINWRIGHT_CRDS is unset, NOT VALIDATED: custom kinds of random runs; run `trainwright crds`, set it to build/crds"
        )
    kinds = {kind for target in TARGETS.values() for kind, _ in target.templates.values()} - {("batch", "Job")}
    assert kinds <= set(catalogue().crds)


def assert_well_formed(compiled: CompiledRun) -> None:
    """Plain JSON that arrives as it is, that the API takes, and that a GitOps controller can live with."""
    assert all(finding.severity is not Severity.ERROR for finding in compiled.findings)
    assert_admitted(compiled)
    identities = []
    for number, manifest in enumerate(compiled.manifests):
        assert json.loads(json.dumps(manifest, allow_nan=False)) == manifest
        assert list(problems(manifest)) == []
        assert_accepted(manifest, compiled.cluster.kubernetes)
        keys = {key for _, node in walk(manifest) if isinstance(node, dict) for key in node}
        assert not keys & {"suspend", "generateName"}
        assert "ttlSecondsAfterFinished" not in keys or compiled.run.ttl
        hooks = {key for key in keys if key.startswith(("argocd.argoproj.io/", "helm.sh/hook"))}
        assert hooks <= (KEEP.keys() if number in compiled.shared else set()), "what runs share is not pruned"
        assert manifest["metadata"]["name"] in (compiled.plan.name, compiled.run.run) or number in compiled.shared
        metadata = manifest["metadata"]
        identities.append((manifest["apiVersion"], manifest["kind"], metadata["namespace"], metadata["name"]))
    assert len(identities) == len(set(identities))


LEVELS = ("restricted", "baseline", "privileged")


def assert_admitted(compiled: CompiledRun) -> None:
    """The namespace takes every pod, and where it keeps root out, the kubelet does not have to: a user is stated."""
    level = compiled.cluster.namespaces[compiled.run.namespace].pod_security
    needed = (compiled.security or "restricted").partition(":")[0]
    assert LEVELS.index(needed) <= LEVELS.index(level)
    security = compiled.plan.security
    assert level != "restricted" or security.user or compiled.run.overrides.pod
    if compiled.run.workload.kind in ("trainer", "boosting") and not compiled.run.security.model_fields_set:
        assert (security.user, security.non_root, security.hardened, security.read_only_root) == (1000, True, True, True)


class Drawn:
    """A run and a profile that must compile, and what several laws look at."""

    def __init__(self, cluster: Data, run: Data) -> None:
        self.cluster, self.run, self.compiled = cluster, run, compile_data(cluster, run)
        self.pods = pods(self.compiled.manifests)

    @cached_property
    def again(self) -> CompiledRun:
        """The run under its next identity."""
        return compile_data(self.cluster, self.run | {"attempt": self.run.get("attempt", 1) % 1_000_000 + 1})

    @cached_property
    def stranger(self) -> CompiledRun:
        """The same run under another name."""
        return compile_data(self.cluster, self.run | {"run": "stranger"})


Law = Callable[[Drawn], None]
LAWS: list[Law] = []


def law(hold: Law) -> Law:
    LAWS.append(hold)
    return hold


@given(pair=pairs())
@settings(max_examples=100)
def test_what_must_compile_compiles_by_all_laws(pair: tuple[Data, Data]) -> None:
    """To draw and compile takes longer than to look, so each pair is held to every law below."""
    drawn = Drawn(*pair)
    for hold in LAWS:
        hold(drawn)


@law
def the_api_takes_it(drawn: Drawn) -> None:
    assert_well_formed(drawn.compiled)


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


partly = pytest.mark.parametrize("apart", [12, pytest.param(3, marks=pytest.mark.nightly)])
"""Of all pairs of a place and a value those that are so far apart, so that each place gets other values."""


@pytest.mark.slow
@partly
@pytest.mark.parametrize("name", [
    "as-kubernetes-writes-it", "boosting", "command-resumes", "digits-one-node", "everything", "fsdp2-on-train-job",
    "mpi-intel-launcher-is-node", "prepared", "pytorch-elastic", "pytorch-static", "ray-command", "resnet", "script",
    "tensorflow-chief", "transformers-model",
])  # fmt: skip
def test_every_value_of_a_run_replaced_by_every_nasty_one_ends_in_findings(name: str, apart: int) -> None:
    cluster, run = of_fleet(name)
    for path, value in some_pairs(run, apart, run):
        assert_compiles_or_refuses(partial(compile_data, cluster, replaced(run, path, value)))


@pytest.mark.slow
@partly
@pytest.mark.parametrize("name", ["everything", "fsdp2-on-train-job", "gang-of-jobs", "pytorch-static", "ray-command"])
def test_every_value_of_a_profile_replaced_by_every_nasty_one_ends_in_findings(name: str, apart: int) -> None:
    cluster, run = of_fleet(name)
    for path, value in some_pairs(cluster, apart, run):
        assert_compiles_or_refuses(partial(compile_data, replaced(cluster, path, value), run))


def some_pairs(data: Data, apart: int, run: Data) -> list[tuple[tuple[str | int, ...], Any]]:
    further = 3 if run.get("overrides") else 1  # those are proven by the schemas, which takes longer still
    return list(product(pointers(data), NASTY))[:: apart * further]


def of_fleet(name: str) -> tuple[Data, Data]:
    folder = FLEET / "charts"
    run = read_yaml(folder / "runs" / f"{name}.yaml").data
    return read_yaml(folder / "clusters" / f"{run['cluster']}.yaml").data, run


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


@law
def compiling_twice_gives_the_same(drawn: Drawn) -> None:
    first, second = drawn.compiled, compile_data(*copy.deepcopy((drawn.cluster, drawn.run)))
    assert json.dumps(first.manifests) == json.dumps(second.manifests)
    assert first.plan == second.plan
    assert first.findings == second.findings
    assert first.provenance() == second.provenance()


def own(compiled: CompiledRun) -> list[Data]:
    """Objects of this identity, and of no other run."""
    return [manifest for manifest in compiled.manifests if manifest["metadata"]["name"] == compiled.plan.name]


@law
def names_and_labels_fit(drawn: Drawn) -> None:
    compiled = drawn.compiled
    binding, name = compiled.resolution.binding, compiled.plan.name
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name)
    assert len(name) <= TARGETS[compiled.plan.target].longest_name
    for generated in binding.generated_names:
        assert re.fullmatch(DNS_LABEL, generated.format(name=name)), generated
    for pod in drawn.pods:
        assert all(re.fullmatch(DNS_LABEL, part) for part in pod.host.split("."))
        assert all(re.fullmatch(LABEL, value) for value in pod.labels.values())
        assert all(re.fullmatch(DNS_LABEL, volume["name"]) for volume in pod.spec.get("volumes", []))
        ports = [port["name"] for port in pod.container.get("ports", []) if "name" in port]
        assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?", name) for name in ports)
    for manifest in compiled.manifests:
        assert len(manifest["metadata"]["name"]) <= 63
        assert all(re.fullmatch(LABEL, value) for value in (manifest["metadata"].get("labels") or {}).values())


@law
def there_are_as_many_pods_as_the_plan_says(drawn: Drawn) -> None:
    compiled = drawn.compiled
    made, roles = drawn.pods, compiled.resolution.binding.roles
    assert len(made) == sum(role.pods for role in roles)
    assert len({pod.host for pod in made}) == len(made)
    if CASES[compiled.target.name].hosts_are_known:
        hosts = {role.host.format(name=compiled.plan.name, index=index) for role in roles for index in range(role.pods)}
        assert {pod.host for pod in made} == hosts
        assert compiled.plan.rendezvous.host in hosts


@law
def its_plan_is_plain_json_with_a_reason_for_each_variable(drawn: Drawn) -> None:
    plan = drawn.compiled.plan
    data = plan_data(plan)
    assert json.loads(json.dumps(data, allow_nan=False)) == json.loads(json.dumps(data))
    assert all(variable.reason for variable in plan.environment)
    assert all([one.value, one.field, one.secret, one.config_map].count(None) == 3 for one in plan.environment)
    assert all(line and "None" not in line.partition("overrides")[0] for line in plan_lines(drawn.compiled)[2:])


@law
def ranks_and_batches_multiply(drawn: Drawn) -> None:
    run, plan = drawn.run, drawn.compiled.plan
    topology, gpus = run["topology"], run["topology"]["gpus_per_node"]
    one_process = topology["kind"] in ("multi-worker-mirrored", "xgboost", "independent", "jax", "parameter-server")
    per_node = 1 if one_process else gpus or topology.get("processes_per_node", 1)
    if topology["kind"] == "mpi":
        per_node = topology.get("processes_per_node", gpus or 1)
    replicas = max(1, gpus) if topology["kind"] in ("multi-worker-mirrored", "jax") else 1
    assert plan.world.size == topology["nodes"] * per_node
    if plan.batch:
        assert plan.batch.effective == run["batch"]["micro"] * run["batch"].get("accumulation", 1) * plan.world.size * replicas


@law
def an_elastic_plan_says_every_size(drawn: Drawn) -> None:
    plan, batch = drawn.compiled.plan, drawn.compiled.plan.batch
    elastic = drawn.run["topology"].get("elastic")
    assert (plan.elastic is not None) == (elastic is not None and batch is not None)
    if plan.elastic and batch:
        assert [size.nodes for size in plan.elastic.sizes] == list(range(elastic["min_nodes"], elastic["max_nodes"] + 1))
        for size in plan.elastic.sizes:
            at_once = batch.micro * size.nodes * plan.world.processes_per_node
            kept = elastic["batch"] == "keep"
            assert size.effective == (batch.effective if kept else at_once * batch.accumulation)
            assert (size.accumulation - 1) * at_once < size.effective <= size.accumulation * at_once
            assert size.full == (size.effective % at_once == 0)


@law
def a_variable_stands_once_and_is_never_the_controllers_own(drawn: Drawn) -> None:
    compiled = drawn.compiled
    injects = compiled.resolution.binding.injects
    for manifest in compiled.manifests:
        for pointer, node in walk(manifest):
            if isinstance(node, list) and pointer.endswith("/env"):
                names = [variable["name"] for variable in node]
                assert len(names) == len(set(names)), pointer
                assert not set(names) & injects.keys(), pointer
    ours = {
        variable["name"]
        for manifest in compiled.manifests
        for pointer, node in walk(manifest)
        if pointer.endswith("/env") and isinstance(node, list)
        for variable in node
    }
    for pod in drawn.pods:
        assert pod.environment.keys() - ours <= injects.keys(), "the compiler knows what the controller sets"


@law
def requests_equal_limits_in_every_container_unless_they_are_stated(drawn: Drawn) -> None:
    compiled = drawn.compiled
    stated = [compiled.run.resources, *(parts.resources for parts in compiled.run.roles.values())]
    apart = any(one.model_fields_set & {"cpu", "memory", "requests"} for one in stated)
    asked = [
        node
        for manifest in compiled.manifests
        for pointer, node in walk(manifest)
        if re.search(r"(?<!/volumeClaimTemplate/spec)/resources(PerNode)?$", pointer) and isinstance(node, dict)
    ]
    assert asked or apart
    for resources in asked:
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        assert requests or limits or resources.get("claims"), "only devices may be all that is asked for"
        assert apart or requests == limits
        assert apart or {"cpu", "memory"} <= limits.keys()
        assert {name: amount for name, amount in requests.items() if name not in ("cpu", "memory")} == {
            name: amount for name, amount in limits.items() if name not in ("cpu", "memory")
        }
    for pod in () if apart else drawn.pods:
        assert all(container.get("resources") for container in (*pod.spec["containers"], *pod.spec.get("initContainers", [])))


def selectors(manifest: Data) -> Iterator[Mapping[str, str]]:
    """What an object finds pods by."""
    spec = manifest.get("spec", {})
    kind = manifest["kind"]
    if kind == "Service":
        yield spec["selector"]
    if kind in ("PodMonitor", "PodDisruptionBudget"):
        yield spec["selector"]["matchLabels"]
    if kind == "NetworkPolicy":
        yield spec["podSelector"]["matchLabels"]
        yield from (
            peer["podSelector"]["matchLabels"] for rule in spec["ingress"] for peer in rule["from"] if "podSelector" in peer
        )
    for pointer, node in walk(spec):
        if pointer.endswith("/labelSelector"):
            yield node.get("matchLabels", {})


@law
def selectors_find_the_pods_of_the_run_and_of_no_other(drawn: Drawn) -> None:
    """Nor those of another identity of it, but for what watches all of them; what the run says of other pods is for others."""
    compiled, made = drawn.compiled, drawn.pods
    said = [drawn.run.get(field, {}) for field in ("pod_affinity", "pod_anti_affinity")]
    stated = [term.get("labels", {}) for wishes in said for terms in wishes.values() for term in terms]
    strangers, siblings = pods(drawn.stranger.manifests), pods(drawn.again.manifests)
    for manifest in compiled.manifests:
        others = strangers if manifest["metadata"]["name"] == drawn.run["run"] else [*strangers, *siblings]
        for selector in (one for one in selectors(manifest) if one not in stated):
            assert all(selector.items() <= pod.labels.items() for pod in made), manifest["kind"]
            assert not any(selector.items() <= pod.labels.items() for pod in others), manifest["kind"]


@law
def a_group_counts_pods_that_there_are_and_its_pods_name_it(drawn: Drawn) -> None:
    compiled = drawn.compiled
    gang, made = compiled.plan.gang, drawn.pods
    groups = [manifest for manifest in compiled.manifests if manifest["kind"] == "PodGroup"]
    linked = {
        pod.labels.get("scheduling.x-k8s.io/pod-group") or pod.annotations.get("scheduling.k8s.io/group-name") for pod in made
    }
    by_controller = CASES[compiled.target.name].gang is not None  # it groups its pods whether or not a gang is asked for
    scheduler = compiled.resolution.cluster.scheduling.name
    for pod in made:
        assert pod.spec.get("schedulerName") == (scheduler if gang or by_controller else None)
    if by_controller:
        assert not groups
        assert len(linked) == 1
        assert None not in linked
    else:
        groups += [one for one in made[0].made.objects if one["kind"] == "PodGroup"]  # a TrainJob's, as its runtime says
        assert linked == {groups[0]["metadata"]["name"] if groups else None}
    if gang:
        elastic = compiled.resolution.needs.elastic
        assert gang.minimum == (elastic.minimum if elastic else len(made))
        counts = [
            node
            for manifest in own(compiled)
            for pointer, node in walk(manifest)
            if re.fullmatch(r"/spec/min(Member|Available)", pointer)  # a task's own minimum is about the order of start
        ]
        assert all(count == gang.minimum for count in counts)


@law
def operators_send_pods_to_the_scheduler_of_the_profile(drawn: Drawn) -> None:
    compiled, cluster = drawn.compiled, drawn.cluster
    flags = {name: operator.get("gang_scheduler") for name, operator in cluster["operators"].items()}
    for pod in pods(compiled.manifests, flags):
        assert pod.spec.get("schedulerName") in (compiled.resolution.cluster.scheduling.name, None)
        if compiled.plan.gang:
            assert pod.spec["schedulerName"] == compiled.plan.gang.scheduler_name


@law
def volumes_and_mounts_belong_together(drawn: Drawn) -> None:
    for pod in drawn.pods:
        volumes = [volume["name"] for volume in pod.spec.get("volumes", [])]
        containers = (*pod.spec["containers"], *pod.spec.get("initContainers", []))
        assert len(volumes) == len(set(volumes))
        assert {mount["name"] for container in containers for mount in container.get("volumeMounts", [])} == set(volumes)
        for container in containers:
            paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
            assert len(set(paths)) == len(paths)
        holds_ranks = pod.role in {role.name for role in drawn.compiled.resolution.binding.roles if role.holds_ranks}
        folders = drawn.run.get("file_folders", [])
        alone = (path for path in drawn.run.get("files", {}) if not any(path.startswith(f"{folder}/") for folder in folders))
        wanted = {*(drawn.run["mounts"] if holds_ranks else ()), *folders, *alone}
        assert wanted <= {mount["mountPath"] for mount in pod.container.get("volumeMounts", [])}


@law
def what_watches_a_run_outlives_its_identities(drawn: Drawn) -> None:
    """It is called like the run, and the hash is nowhere in it: another identity changes nothing of it."""
    compiled, again, name = drawn.compiled, drawn.again, drawn.run["run"]
    lasting = [[manifest for manifest in one.manifests if manifest["metadata"]["name"] == name] for one in (compiled, again)]
    assert lasting[0] == lasting[1]
    assert compiled.identity not in json.dumps(lasting[0])
    assert compiled.identity != again.identity


@law
def what_runs_share_says_nothing_of_one_run(drawn: Drawn) -> None:
    """Two runs that differ in their names share it, byte by byte. (A TrainJob patches nothing before Trainer 2.1: with 2.0 the
    runtime holds all that is a run's own.)"""
    if not trainer_has(PATCHES, drawn.compiled.resolution):
        return
    other = compile_data(drawn.cluster, drawn.run | {"run": "other", "team": "t", "attempt": 7, "labels": {}})
    shared, too = ([compiled.manifests[index] for index in compiled.shared] for compiled in (drawn.compiled, other))
    assert shared == too
    assert drawn.compiled.identity not in json.dumps(shared)


@law
def the_foundation_depends_on_no_run(drawn: Drawn) -> None:
    """It is a function of the profile alone; a run's pods only refer to its claims."""
    cluster, run = drawn.cluster, drawn.run
    profile = Cluster.model_validate(cluster)
    before = {space: repr(foundation(profile, space)) for space in profile.namespaces}
    compiled = compile_data(cluster, run)
    assert {space: repr(foundation(profile, space)) for space in profile.namespaces} == before
    assert not {manifest["kind"] for manifest in compiled.manifests} & {"Namespace", "PersistentVolumeClaim", "LocalQueue"}
