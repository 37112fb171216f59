"""Runs as constructs in a chart author's own app."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from typing import Any

import cdk8s
import pytest

from trainwright import Cluster, CompileError, Run, compile_run
from trainwright.cdk8s import (
    DDPJob,
    HorovodJob,
    IndependentJob,
    JAXJob,
    Monitoring,
    MPIJob,
    MultiWorkerMirroredJob,
    ParameterServerJob,
    RayJob,
    RunFields,
    RunWarning,
    TrainingJob,
    XGBoostJob,
    ZeRO3Job,
)
from trainwright.cluster.addons import Dashboard
from trainwright.cluster.addons import Monitoring as PrometheusOperator
from trainwright.model import Model
from trainwright.operators import TARGETS
from trainwright.run import ClaimMount, CommandWorkload, ScriptWorkload
from trainwright.topology import DDP, JAX, MPI, Horovod, Independent, MultiWorkerMirrored, ParameterServer, Ray, XGBoost, ZeRO
from trainwright.topology.ray import AutoscaledPods

IMAGE = "registry.example.com/train@sha256:" + "0123456789abcdef" * 4
CLUSTER = Cluster.model_validate({
    "cluster": "laptop", "kubernetes": "1.34",
    "node_pools": {"cpu": {"cpus": 8, "memory": "32Gi"}},
    "namespaces": {"training": {"security": {"user": 1000}, "claims": {"saved": {"managed": False}}}},
    "supervisor": {"in_images": ["registry.example.com/train"]},
})
EVERYTHING = Cluster.model_validate({
    "cluster": "laptop", "kubernetes": "1.34",
    "operators": {
        "jobset": {"version": "0.12.0"}, "training-operator": {"version": "1.9.4"}, "mpi-operator": {"version": "0.8.0"},
        "kuberay": {"version": "1.7.0"}, "trainer": {"version": "2.3.0"},
    },
    "node_pools": {
        "cpu": {"cpus": 8, "memory": "32Gi"},
        "gpu": {"cpus": 96, "memory": "1000Gi", "gpu": {"model": "H100", "memory": "80Gi", "per_node": 8}},
    },
    "namespaces": {"training": {"security": {"user": 1000}, "claims": {"saved": {"managed": False}}}},
})
WORK = ScriptWorkload(kind="script", command=("python", "train.py"))
MOUNTS = {"/checkpoints": ClaimMount(claim="saved")}
RUN = Run(
    run="mnist", team="vision", namespace="training", cluster="laptop", image=IMAGE,
    topology=DDP(kind="ddp", nodes=2, gpus_per_node=0), workload=WORK, mounts={"/checkpoints": ClaimMount(claim="saved")},
)


def chart(**options: Any) -> cdk8s.Chart:
    return cdk8s.Chart(cdk8s.Testing.app(), "chart", **{"namespace": "training", **options})


def ddp(scope: cdk8s.Chart, id: str = "mnist", nodes: int = 2, **fields: Any) -> DDPJob:
    settings = {"team": "vision", "image": IMAGE, "workload": WORK, "mounts": MOUNTS, **fields}
    return DDPJob(scope, id, cluster=CLUSTER, nodes=nodes, gpus_per_node=0, **settings)


def test_fields_are_those_of_a_run_but_what_the_construct_states() -> None:
    fields = set(Run.model_fields) - {"cluster", "topology"}
    required = {name for name in fields if Run.model_fields[name].is_required()} - {"run", "namespace"}
    assert set(RunFields.__annotations__) == fields
    assert RunFields.__required_keys__ == required


CONSTRUCTS: dict[type[TrainingJob], tuple[type[Model], dict[str, Any]]] = {
    DDPJob: (DDP, {"gpus_per_node": 0}),
    ZeRO3Job: (ZeRO, {"gpus_per_node": 8, "engine": "fsdp2"}),
    HorovodJob: (Horovod, {"gpus_per_node": 8}),
    MultiWorkerMirroredJob: (MultiWorkerMirrored, {"gpus_per_node": 8}),
    XGBoostJob: (XGBoost, {"gpus_per_node": 0}),
    ParameterServerJob: (ParameterServer, {"gpus_per_node": 0, "parameter_servers": 2, "coordinator": True}),
    IndependentJob: (Independent, {"gpus_per_node": 0}),
    JAXJob: (JAX, {"gpus_per_node": 8}),
    MPIJob: (MPI, {"gpus_per_node": 8}),
    RayJob: (
        Ray, {"gpus_per_node": 8, "version": "2.60.0", "autoscaling": {"worker": AutoscaledPods(min_nodes=1, max_nodes=4)}},
    ),
}


@pytest.mark.parametrize(("construct", "topology"), [(one, made[0]) for one, made in CONSTRUCTS.items()])
def test_topology_arguments_are_those_of_the_topology(construct: type[TrainingJob], topology: type[Model]) -> None:
    own = set(inspect.signature(construct.__init__).parameters) - {"self", "scope", "id", "cluster", "fields"}
    assert own == set(topology.model_fields) - {"kind"}


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_every_construct_makes_the_objects_of_its_target(construct: Any) -> None:
    topology, stated = CONSTRUCTS[construct]
    work = CommandWorkload(kind="command", command=("python", "train.py"))
    targets = {Horovod: "mpi-job", MPI: "mpi-job", MultiWorkerMirrored: "tf-job", ParameterServer: "tf-job", Ray: "ray-job"}
    target = targets.get(topology, "job-set")
    settings: dict[str, Any] = {"team": "vision", "image": IMAGE, "mounts": MOUNTS, "target": target, "workload": work}
    if construct is XGBoostJob:
        settings |= {"workload": WORK}
    job = construct(chart(), "mnist", cluster=EVERYTHING, nodes=2, **stated, **settings)
    assert job.plan.world.nodes == 2
    assert any(item.kind == TARGETS[target].kind.kind for item in job.api_objects)


def test_a_job_is_the_compiled_run() -> None:
    scope = chart()
    job = ddp(scope)
    compiled = compile_run(RUN, CLUSTER)
    assert job.run == RUN
    assert job.plan == compiled.plan
    assert job.name == compiled.plan.name
    assert job.findings == compiled.findings
    assert [item.kind for item in job.api_objects] == ["ConfigMap", "Service", "Job"]
    assert cdk8s.Testing.synth(scope) == list(compiled.manifests)
    assert [list(item) for item in cdk8s.Testing.synth(scope)] == [list(manifest) for manifest in compiled.manifests]


def test_runs_of_one_app_share_what_is_named_by_its_content() -> None:
    app = cdk8s.Testing.app()
    charts = [cdk8s.Chart(app, name, namespace="training") for name in ("one", "two")]
    settings: dict[str, Any] = {"team": "vision", "image": IMAGE, "workload": WORK, "mounts": MOUNTS}
    jobs = [
        DDPJob(scope, name, cluster=EVERYTHING, nodes=2, gpus_per_node=0, target="train-job", **settings)
        for scope, name in zip(charts, ("first", "second"), strict=True)
    ]
    kinds = [[item.kind for item in job.api_objects] for job in jobs]
    assert kinds == [["ConfigMap", "TrainingRuntime", "TrainJob"], ["ConfigMap", "TrainJob"]]


def test_a_value_a_file_and_keywords_are_the_same_run(tmp_path: Path) -> None:
    file = tmp_path / "mnist.yaml"
    file.write_text(
        f"run: mnist\nteam: vision\nnamespace: training\ncluster: laptop\nimage: {IMAGE}\n"
        "topology: {kind: ddp, nodes: 2, gpus_per_node: 0}\nworkload: {kind: script, command: [python, train.py]}\n"
        "mounts: {/checkpoints: {claim: saved}}\n"
    )
    names = {
        ddp(chart()).name,
        TrainingJob(chart(), "a", cluster=CLUSTER, run=RUN).name,
        TrainingJob(chart(), "b", cluster=CLUSTER, run=file).name,
        TrainingJob(chart(), "c", cluster=CLUSTER, run=str(file)).name,
    }
    assert len(names) == 1


def test_name_and_namespace_can_be_stated() -> None:
    job = ddp(chart(namespace="elsewhere"), "job", run="mnist", namespace="training")
    assert (job.plan.run, job.plan.namespace) == ("mnist", "training")


def test_chart_labels_and_later_ones_reach_objects_and_move_no_name() -> None:
    scope = chart(labels={"example.com/cost-center": "research"})
    job = ddp(scope)
    job.api_objects[2].metadata.add_label("example.com/late", "1")
    job.api_objects[2].metadata.add_annotation("example.com/note", "2")
    objects = cdk8s.Testing.synth(scope)
    assert job.name == ddp(chart()).name
    assert all(item["metadata"]["labels"]["example.com/cost-center"] == "research" for item in objects)
    assert all(item["metadata"]["labels"]["trainwright.dev/team"] == "vision" for item in objects)
    assert objects[2]["metadata"]["labels"]["example.com/late"] == "1"
    assert objects[2]["metadata"]["annotations"] == {"example.com/note": "2"}
    assert "example.com/cost-center" not in str(objects[2]["spec"])


def test_runs_and_other_constructs_share_a_chart() -> None:
    scope = chart()
    first, second = ddp(scope, "one"), ddp(scope, "two", nodes=3)
    cdk8s.ApiObject(scope, "other", api_version="v1", kind="ConfigMap")
    assert first.name.startswith("one-")
    assert second.name.startswith("two-")
    assert len(cdk8s.Testing.synth(scope)) == 7


def test_one_construct_watches_the_runs_of_a_cluster() -> None:
    watching = CLUSTER.model_copy(update={"monitoring": PrometheusOperator(kind="prometheus-operator", dashboard=Dashboard())})
    here = chart()
    jobs = [TrainingJob(here, name, cluster=watching, run=RUN.model_copy(update={"run": name})) for name in ("one", "two")]
    made = [item.to_json() for item in Monitoring(here, "monitoring", cluster=watching, jobs=jobs).api_objects]
    assert [one["kind"] for one in made] == ["PodMonitor", "PrometheusRule", "ConfigMap"]
    assert {one["metadata"]["namespace"] for one in made} == {"training"}
    known, _ = made[1]["spec"]["groups"]
    assert [rule["labels"]["run"] for rule in known["rules"]] == ["one", "two"]
    assert Monitoring(here, "nothing", cluster=CLUSTER, jobs=jobs).api_objects == ()


def test_a_run_that_is_done_has_a_plan_and_no_objects() -> None:
    scope = chart()
    job = ddp(scope, state="done")
    assert job.plan.world.size == 2
    assert job.api_objects == ()
    assert cdk8s.Testing.synth(scope) == []


def test_errors_name_the_authors_line_and_every_field() -> None:
    with pytest.raises(CompileError) as caught:
        ddp(chart(), nodes=0, team="Vision", colour="red")
    assert {finding.where.pointer for finding in caught.value.findings} == {"/topology/nodes", "/team", "/colour"}
    assert {Path(finding.where.file or "").name for finding in caught.value.findings} == {"test_job.py"}
    line = ddp.__code__.co_firstlineno + 2
    assert f"test_job.py:{line}" in str(caught.value)
    assert "jsii" not in str(caught.value)


def test_errors_in_a_file_name_the_files_line(tmp_path: Path) -> None:
    file = tmp_path / "mnist.yaml"
    file.write_text("run: mnist\nteam: vision\nnodes: 2\n")
    with pytest.raises(CompileError, match=r"mnist\.yaml:3"):
        TrainingJob(chart(), "mnist", cluster=CLUSTER, run=file)


def test_a_chart_without_a_namespace_asks_for_one() -> None:
    with pytest.raises(CompileError, match=r"TW106: mnist has no namespace; give the Chart a namespace"):
        ddp(chart(namespace=None))


def test_a_profile_of_another_cluster_is_refused() -> None:
    with pytest.raises(CompileError, match="TW110: run mnist is for cluster h100-ib, and is given the profile of laptop"):
        TrainingJob(chart(), "mnist", cluster=CLUSTER, run=RUN.model_copy(update={"cluster": "h100-ib"}))


def test_warnings_are_pythons_own_and_shown_once_at_the_authors_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            job = ddp(chart(), image="registry.example.com/train:latest")
    [warning] = [entry for entry in caught if entry.category is RunWarning]
    assert "TW305" in str(warning.message)
    assert Path(warning.filename).name == "test_job.py"
    assert [finding.code for finding in job.findings] == ["TW305"]


def test_types_are_checked_by_mypy() -> None:
    """mypy reads this test too, and finds an ignore that it does not need."""
    with pytest.raises(CompileError):
        DDPJob(chart(), "x", cluster=CLUSTER, nodes="two", gpus_per_node=0, team="t", image=IMAGE, workload=WORK)  # type: ignore[arg-type]
    with pytest.raises(CompileError):
        DDPJob(chart(), "x", cluster=CLUSTER, nodes=2, gpus_per_node=0, image=IMAGE, workload=WORK)  # type: ignore[call-arg]
    with pytest.raises(CompileError):
        DDPJob(chart(), "x", cluster=CLUSTER, nodes=2, gpus_per_node=0, team="t", image=IMAGE, workload=WORK, x=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("cluster", "run"),
    [
        (CLUSTER, RUN.model_copy(update={"restarts": -1})),
        (CLUSTER, RUN.model_copy(update={"topology": RUN.topology.model_copy(update={"nodes": -1})})),
        (CLUSTER.model_copy(update={"kubernetes": 1.34}), RUN),
    ],
)
def test_values_that_were_made_without_validation_are_refused(cluster: Cluster, run: Run) -> None:
    with pytest.raises(CompileError) as refused:
        TrainingJob(chart(), "mnist", cluster=cluster, run=run)
    [finding] = refused.value.findings
    assert (finding.code, finding.where.file) == ("TW107", "tests/compiler/cdk8s/test_job.py")


def test_a_field_that_was_made_without_validation_is_refused() -> None:
    with pytest.raises(CompileError, match="not a name"):
        ddp(chart(), mounts={"/checkpoints": ClaimMount(claim="saved").model_copy(update={"claim": "not a name"})})


@pytest.mark.parametrize("nodes", ["2", True, 2.0])
def test_a_number_of_nodes_is_a_number(nodes: Any) -> None:
    with pytest.raises(CompileError) as refused:
        ddp(chart(), nodes=nodes)
    assert [(one.code, one.where.pointer) for one in refused.value.findings] == [("TW107", "/topology/nodes")]
