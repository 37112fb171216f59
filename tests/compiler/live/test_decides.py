"""The line that decides a cause follows from where the value of an object's field comes from."""

from __future__ import annotations

import pytest
from tests.compiler.live.test_beside import JOB, RUN, pods
from tests.compiler.projects import ROOT, Scratch

from trainwright.live.decides import Decider
from trainwright.live.diagnose import diagnose
from trainwright.live.runs import case_for
from trainwright.live.snapshot import of_list
from trainwright.project.load import Project


def line(here: Scratch, run: str, source: str, role: str = "") -> str:
    """The text at the place that decides it, and the file."""
    where = Decider(here.project, run, f"{run}-00000000")(source, role)
    if where is None:
        return ""
    assert where.file is not None
    assert where.line is not None
    assert where.column is not None
    return f"{where.file.rpartition('/')[2]}: {here.read(where.file).splitlines()[where.line - 1][where.column - 1 :][:60]}"


@pytest.mark.parametrize(("run", "source", "role", "decides"), [
    ("llama-1b-ddp", "pod:/containers/*/image", "node", "llama-1b-ddp.yaml: image: registry"),
    ("llama-1b-ddp", "pod:/nodeSelector", "", "h100-ib.yaml: labels:"),
    ("llama-1b-ddp", "pod:/containers/name=trainer/resources/limits/nvidia.com~1gpu", "", "llama-1b-ddp.yaml: gpus_per_node"),
    ("llama-1b-ddp", "pod:/volumes/*/*/claimName=training-checkpoints", "", "llama-1b-ddp.yaml: claim: training-checkpoints"),
    ("llama-1b-ddp", "foundation:/PersistentVolumeClaim/training-checkpoints/spec/accessModes", "", "h100-ib.yaml: access"),
    ("llama-1b-ddp", "foundation:/PersistentVolumeClaim/none/spec/accessModes", "", ""),
    ("llama-1b-ddp", "pod:/priorityClassName", "", ""),
    ("nccl-training", "pod:/containers/*/env/name=NCCL_DEBUG", "launcher", "nccl-training.yaml: NCCL_DEBUG"),
    ("nccl-training", "pod:/containers/*/resources/limits/nvidia.com~1gpu", "worker", "nccl-training.yaml: gpus_per_node"),
    ("nccl-training", "pod:/containers/*/resources/limits/memory", "launcher", ""),
    ("sdk-train", "pod:/*/*/image", "", "sdk-train.yaml: image"),
    ("sdk-train", "pod:/nodeSelector", "node", "trainer-h100.yaml: labels"),
    ("llama-1b-ddp", "run:/batch", "", "llama-1b-ddp.yaml: batch"),
])  # fmt: skip
def test_by_where_it_comes_from(run: str, source: str, role: str, decides: str) -> None:
    found = line(Scratch(ROOT), run, source, role)
    assert found[: len(decides) or None] == decides


def test_an_override_decides_what_it_changes(few: Scratch) -> None:
    run = "charts/runs/digits-ddp.yaml"
    override = "overrides:\n  pod:\n    node:\n      priorityClassName: low\n      containers:\n"
    override += "        - {name: trainer, imagePullPolicy: Never}\n"
    few.write(run, few.read(run) + override)
    assert line(few, "digits-ddp", "pod:/priorityClassName") == "digits-ddp.yaml: priorityClassName: low"
    never = line(few, "digits-ddp", "pod:/*/name=trainer/imagePullPolicy")
    assert never == "digits-ddp.yaml: imagePullPolicy: Never}"


def test_files_that_cannot_be_read_now_decide_nothing(few: Scratch) -> None:
    run = "charts/runs/digits-ddp.yaml"
    few.write(run, few.read(run) + "unheard_of: 1\n")
    assert line(few, "digits-ddp", "pod:/containers/*/image") == line(few, "digits-ddp", "run:/image") == ""


def test_the_container_that_fails_is_the_one_whose_line_is_shown() -> None:
    waits = pods({"waiting": {"reason": "ErrImageNeverPull", "message": "not there"}})
    case = case_for(of_list({"kind": "List", "apiVersion": "v1", "items": [JOB, *waits]}), RUN)
    found = diagnose(case, locate=Decider(Project(ROOT), RUN.run, RUN.name))
    assert found.where is not None
    assert (found.cause, found.where.pointer) == ("image-never-pulled", "/image")
