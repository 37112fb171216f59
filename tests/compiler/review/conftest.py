"""A git repository with ten edits on a branch: one of each kind that a reviewer meets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.compiler.projects import Scratch, scratch

EDITS = (
    ("charts/runs/llama-1b-ddp.yaml", "{base: 3e-4,", "{base: 2e-4,"),
    ("charts/runs/own-script.yaml", "nodes: 2", "nodes: 4"),
    ("charts/runs/spot-resnet.yaml", "sha256:bca6d13b", "sha256:00a6d13b"),
    ("charts/runs/llama-finetune.yaml", "team: nlp\n", "team: nlp\nlabels: {example.com/cost: shared}\n"),
    ("charts/clusters/h100-ib.yaml", "rule_labels: {release: prometheus}", "rule_labels: {release: alerts}"),
    ("charts/runs/gang-scheduled-training.yaml", "queue: research", "queue: default"),
    ("charts/runs/roce-tuning.yaml", "namespace: training\ncluster: roce-h200\n", "namespace: research\ncluster: trainer-h100\n"),
    ("charts/runs/roce-tuning.yaml", "placement: {together: rack}\n", ""),
    ("charts/runs/vit-horovod.yaml", "run: vit-horovod\n", "run: vit-horovod\nstate: done\n"),
    ("charts/runs/resnet-train.yaml", "team:", "overrides: {pod: {worker: {priorityClassName: training-high}}}\nteam:"),
    ("charts/runs/hostnetwork-ddp.yaml", "checkpoints: {by: own}\nmounts:\n  /checkpoints: {claim: training-checkpoints}\n", ""),
)
CLAIM = (
    "      training-checkpoints: {storage_class: fast-ssd, size: 500Gi, access: ReadWriteMany,"
    " write_mebibytes_per_second: 1500}\n"
)


@pytest.fixture(scope="session")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """On the branch ``edits``, committed; ``main`` is the project as it stands here."""
    here = scratch(tmp_path_factory.mktemp("review") / "project")
    here.git("checkout", "--quiet", "-b", "edits")
    for path, before, after in EDITS:
        here.edit(path, before, after)
    here.edit("charts/clusters/kubeflow-a100.yaml", f"    claims:\n{CLAIM}supervisor:", "supervisor:")
    here.synth()
    here.git("add", "--all")
    here.git("commit", "--quiet", "--message", "ten edits")
    return here


@pytest.fixture
def edited_copy(edited: Scratch, tmp_path: Path) -> Scratch:
    shutil.copytree(edited.root, tmp_path / "project")
    return Scratch(tmp_path / "project")
