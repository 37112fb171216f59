"""JAX: what its processes are told, and that they meet by it in two rehearsed pods."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.compiler.example import command, compiled, findings, message
from tests.compiler.objects import written
from tests.compiler.rehearsal.command import play
from tests.compiler.targets import CASES, INSTALLED, on, profile_for
from tests.docs.test_snippets import snippets
from tests.pages import DOCS

Data = dict[str, Any]
SHAPE: Data = {"kind": "jax", "nodes": 2, "gpus_per_node": 8}
CARRIED = {"indexed-job": "{name}-0.{name}:29500", "job-set": "{name}-node-0-0.{name}:29500"}


@pytest.mark.parametrize("target", CARRIED)
def test_a_process_is_told_where_the_coordinator_is_and_which_it_is(target: str) -> None:
    plan = compiled(on(target, topology=SHAPE, **command("python", "/app/x.py")), profile_for(target)).plan
    told = {one.name: one.value or one.field for one in plan.environment if one.name.startswith("JAX_")}
    assert told == {
        "JAX_COORDINATOR_ADDRESS": CARRIED[target].format(name=plan.name),
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "metadata.labels['batch.kubernetes.io/job-completion-index']",
    }
    assert not [one.name for one in plan.environment if one.name.startswith("PET_")]
    assert (plan.world.size, plan.rendezvous.kind) == (2, "jax-coordinator")


@pytest.mark.parametrize("target", CASES.keys() - CARRIED.keys() - {"train-job"})
def test_other_targets_refuse_it(target: str) -> None:
    (found,) = findings(on(target, topology=SHAPE, **command("x")), profile_for(target))
    assert found.code == "TW401"
    assert found.fix.endswith("target: indexed-job or job-set or train-job")


def test_the_trainer_tells_the_pods_of_a_train_job() -> None:
    found = compiled(on("train-job", topology=SHAPE, **command("python", "/app/x.py")), profile_for("train-job"))
    assert sorted(found.resolution.binding.injects) == [
        "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "JOB_COMPLETION_INDEX",
    ]  # fmt: skip
    assert not [one for one in found.plan.environment if one.name.startswith(("JAX_", "PET_"))]


def test_only_a_command_fits() -> None:
    assert "have no engine for JAX" in message({"topology": SHAPE})


@pytest.mark.slow
@pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed; `make test` installs it")
@pytest.mark.parametrize("target", ["job-set", "train-job"])
def test_processes_of_the_page_meet(target: str, tmp_path: Path) -> None:
    (snippet,) = [one for one in snippets(DOCS / "topologies.md") if one.run["topology"]["kind"] == "jax"]
    snippet.run["topology"] |= {"nodes": 2, "gpus_per_node": 0}
    snippet.run["target"] = target
    snippet.cluster["operators"] = INSTALLED
    said = play(list(yaml.safe_load_all(written(snippet.compiled().manifests))), tmp_path, tmp_path)
    assert [re.findall("process . of .", pod) for pod in said] == [["process 0 of 2"], ["process 1 of 2"]]
