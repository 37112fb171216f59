"""A class says its kind in Python; a file has no classes, so there the kind stays required."""

from __future__ import annotations

import json
import re
from importlib import import_module

import pytest
from tests.compiler.example import CLUSTER, RUN, compiled
from tests.compiler.findings.page import overlay
from tests.pages import DOCS

from trainwright.cluster import Cluster
from trainwright.compile import compile_run
from trainwright.findings import CompileError
from trainwright.model import file_schema
from trainwright.reading import validate_data
from trainwright.report.facts import plan_facts
from trainwright.report.schema import described_schema
from trainwright.run import CommandWorkload, Run, ScriptWorkload, TrainerWorkload
from trainwright.topology import DDP, JAX, MPI, Horovod, Independent, MultiWorkerMirrored, ParameterServer, Ray, XGBoost
from trainwright_trainer.contract.data import Digits
from trainwright_trainer.contract.training import SGD


def test_a_class_says_its_kind() -> None:
    assert DDP(nodes=2, gpus_per_node=8) == DDP(kind="ddp", nodes=2, gpus_per_node=8)
    classes = (Horovod, MultiWorkerMirrored, Ray, XGBoost, Independent, MPI, JAX, ParameterServer)
    assert [kind(nodes=2, gpus_per_node=1).kind for kind in classes] == [
        "horovod", "multi-worker-mirrored", "ray", "xgboost", "independent", "mpi", "jax", "parameter-server",
    ]  # fmt: skip
    assert [ScriptWorkload(command=("x",)).kind, CommandWorkload(command=("x",)).kind] == ["script", "command"]
    assert [Digits().source, SGD().kind] == ["digits", "sgd"]


def test_a_run_means_the_same_whether_it_is_said_or_not() -> None:
    said = compiled()
    work = said.run.trainer
    assert work is not None
    stated = {key: getattr(work, key) for key in work.model_fields_set - {"kind"}}
    data = Digits(**work.data.model_dump(exclude_unset=True, exclude={"source"}))
    workload = TrainerWorkload(**{**stated, "data": data})
    topology = DDP(**said.run.topology.model_dump(exclude_unset=True, exclude={"kind"}))
    fields = {key: getattr(said.run, key) for key in said.run.model_fields_set}
    run = Run(**{**fields, "workload": workload, "topology": topology})
    silent = compile_run(run, Cluster.model_validate(CLUSTER))
    assert silent.manifests == said.manifests
    assert plan_facts(silent) == plan_facts(said)


@pytest.mark.parametrize("field", ["topology", "workload"])
def test_a_file_states_it(field: str) -> None:
    with pytest.raises(CompileError, match="kind"):
        validate_data(Run, overlay(RUN, {field: {"kind": None}}), "run.yaml", {})


def test_a_schema_asks_for_it() -> None:
    keys = {"DDP": "kind", "ScriptWorkload": "kind", "Digits": "source", "SGD": "kind", "Llama": "architecture"}
    for schema in (file_schema(Run), described_schema(Run)):
        for name, key in keys.items():
            kind = schema["$defs"][name]
            assert key in kind["required"]
            assert "default" not in kind["properties"][key]


def test_the_page_says_from_where_they_come() -> None:
    text = (DOCS / "run-file.md").read_text(encoding="utf-8").partition("## A run in Python")[2].partition("```")[0]
    rows = [re.findall(r"`([\w.]+)`", line) for line in text.splitlines() if line.startswith("| `")]
    for module, *names in rows:
        assert not set(names) - vars(import_module(module)).keys()
    named = {name for _, *names in rows for name in names}
    work = file_schema(Run)["$defs"]["TrainerWorkload"]["properties"]
    kinds = [json.dumps(work[field]["discriminator"]) for field in ("data", "model", "optimizer")]
    assert {ref.rpartition("/")[2] for ref in re.findall(r"#/\$defs/\w+", "".join(kinds))} <= named
