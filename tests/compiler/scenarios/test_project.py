"""All runs together: what the API server and the operators say to them, and what one run is to another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.compiler.objects import needs_crds, problems
from tests.compiler.scenarios.committed import CHARTS, TODAY, changed, project, said

from trainwright.findings import Severity
from trainwright.plan.pods import plan_ports
from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources
from trainwright.project.record import ARGO_CD
from trainwright.reading.document import read_yaml

SCENARIOS = (
    "bert-finetune", "resnet-train", "resnet50-imagenet", "tensorflow-distributed", "hostnetwork-ddp", "gang-scheduled-training",
    "llama-finetune", "deepspeed-training", "nccl-training", "sdk-train", "sdk-train-one-node", "xgboost-dist",
    "xgboost-trainjob", "ray-lm", "ray-train", "spot-resnet", "roce-tuning", "vit-horovod",
)  # fmt: skip


STANDING = {"roce-tuning": ["TW408"], "resnet50-imagenet": ["TW244"]}
"""What the runs want to have shown: a setting that was measured, and a wait that only a person ends."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_compiles_without_complaint(name: str) -> None:
    """Notes are for the reader; the warnings are on what the run states on purpose."""
    warnings = [finding for finding in said(name, {}) if finding.severity is not Severity.INFO and not finding.waived]
    assert [finding.code for finding in warnings] == STANDING.get(name, [])


@needs_crds
@pytest.mark.parametrize("path", sorted(project().outputs))
def test_the_api_server_and_the_operators_take_it(path: str) -> None:
    """What Argo CD reads is of no cluster that a profile describes: the newest release is asked."""
    cluster = path.partition("/")[0]
    version = None if cluster == ARGO_CD else read_yaml(CHARTS / "clusters" / f"{cluster}.yaml").data["kubernetes"]
    assert problems(project().outputs[path].manifests, version) == []


@needs_crds
def test_a_scheduler_at_the_top_is_no_field() -> None:
    """As the usual copy of a gang has it: the API server drops the key, and pods go to the default scheduler."""
    (job,) = (manifest for manifest in project().outputs["kubeflow-a100/training/runs/gang-scheduled-training.k8s.yaml"].manifests
              if manifest["kind"] == "PyTorchJob")
    copied = {**job, "spec": {**job["spec"], "schedulerName": "volcano"}}
    assert [problem.partition(":")[0] for problem in problems([copied], "1.34")] == ["PyTorchJob/spec/schedulerName"]


def test_two_runs_of_one_node_have_ports_of_their_own(tmp_path: Path) -> None:
    """Two runs whose names lead to the same ports, on parts of nodes where they can meet."""
    half = {"topology": {"gpus_per_node": 4}}
    ports = changed("hostnetwork-ddp", half).resolution.plan.rendezvous.port
    base = changed("hostnetwork-ddp", half).run
    clash = next(
        name for name in (f"other-{number}" for number in range(100_000))
        if plan_ports(base.model_copy(update={"run": name})).rendezvous == ports
    )
    text = (CHARTS / "runs" / "hostnetwork-ddp.yaml").read_text(encoding="utf-8").replace("gpus_per_node: 8", "gpus_per_node: 4")
    (tmp_path / "charts" / "runs").mkdir(parents=True)
    shutil.copytree(CHARTS / "clusters", tmp_path / "charts" / "clusters")
    for name in ("hostnetwork-ddp", "another", clash):
        (tmp_path / "charts" / "runs" / f"{name}.yaml").write_text(text.replace("run: hostnetwork-ddp", f"run: {name}"))
    findings = [finding for finding in build_project(load_sources(Project(tmp_path)), TODAY).findings if finding.code == "TW608"]
    assert [finding.where.file for finding in findings] == [f"charts/runs/{clash}.yaml"]
    assert "hostnetwork-ddp" in findings[0].message
