"""The plan: what it says, and that its arithmetic holds."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from tests.compiler.compiling import TODAY, compile_data
from tests.compiler.fleets import fleet
from tests.compiler.projects import ROOT, Scratch

from trainwright.compile import CompiledRun
from trainwright.findings import CompileError
from trainwright.identity import PLACEHOLDER
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project, load_sources
from trainwright.report.finding import to_json
from trainwright.report.plan import plan_data, plan_lines

Data = dict[str, Any]

RUNS = sorted(path.stem.replace("_", "-") for path in (ROOT / "charts" / "runs").iterdir() if path.suffix in (".yaml", ".py"))
EDGES = (
    "a-name-as-long-as-a-name-of-a-run-can-be", "boosting-on-job", "command-resumes", "deepspeed-on-job-set", "digits-one-node",
    "everything", "fsdp2-on-train-job", "gang-of-jobs", "many-nodes", "mpi-ddp-mpich", "mpi-intel-launcher-is-node", "prepared",
    "pytorch-elastic", "pytorch-elastic-batch-moves", "pytorch-host-network", "pytorch-static", "ray", "resnet", "tensorflow",
    "train-job-2-1", "transformers-model", "waived", "watched",
)  # fmt: skip
"""Of the fleet: what no run of this repository has."""


def shown(compiled: CompiledRun) -> str:
    """The plan, with the same hash for every identity: which one it is has tests of its own."""
    return "\n".join(plan_lines(compiled)).replace(compiled.identity, PLACEHOLDER)


@pytest.fixture(scope="session")
def charts() -> Build:
    return build_project(load_sources(Project(ROOT)), TODAY)


@pytest.mark.parametrize("name", RUNS)
def test_what_the_plan_of_a_chart_says(name: str, charts: Build, snapshot: SnapshotAssertion) -> None:
    compiled = charts.runs[name].compiled
    assert shown(compiled) == snapshot


@pytest.mark.parametrize("name", EDGES)
def test_what_the_plan_of_an_edge_says(name: str, snapshot: SnapshotAssertion) -> None:
    compiled = fleet().runs[name].compiled
    assert shown(compiled) == snapshot


@pytest.mark.parametrize("name", ["llama-1b-ddp", "own-script"])
def test_the_command_prints_the_same_numbers_as_text_and_as_json(name: str, charts: Build) -> None:
    here = Scratch(ROOT)
    text, ended = here.run("plan", name), here.run("plan", name, "--json")
    assert (text.returncode, ended.returncode) == (0, 0), text.stderr + ended.stderr
    compiled = charts.runs[name].compiled
    assert text.stdout == "\n".join(plan_lines(compiled)) + "\n"
    data = json.loads(ended.stdout)
    assert data.pop("findings") == to_json(compiled.findings)
    assert data == json.loads(json.dumps(plan_data(compiled.plan)))
    assert data["name"] in text.stdout
    assert f"{data['world']['size']} GPUs" in text.stdout
    assert f"{data['rendezvous']['host']}:{data['rendezvous']['port']}" in text.stdout
    if data["batch"]:
        assert f"{data['batch']['effective']} = micro {data['batch']['micro']}" in text.stdout
        assert f"{data['learning_rate']['peak']:.1e}" in text.stdout
        assert data["memory"]["low"] == sum(part["low"] for part in data["memory"]["parts"])


def rated(nodes: int, micro: int, accumulation: int, rate: Data) -> Any:
    return compile_data(
        {
            "cluster": "here",
            "kubernetes": "1.34",
            "node_pools": {"cpu": {"cpus": 8, "memory": "32Gi"}},
            "namespaces": {"training": {"claims": {"checkpoints": {"managed": False}}}},
        },
        {
            "run": "one",
            "team": "t",
            "namespace": "training",
            "cluster": "here",
            "image": "registry.example.com/i:1",
            "topology": {"kind": "ddp", "nodes": nodes, "gpus_per_node": 0},
            "mounts": {"/checkpoints": {"claim": "checkpoints"}},
            "batch": {"micro": micro, "accumulation": accumulation},
            "learning_rate": rate,
            "workload": {
                "kind": "trainer",
                "task": "causal-lm",
                "data": {"source": "python-stdlib"},
                "steps": 100,
                "optimizer": {"kind": "sgd"},
                "model": {
                    "architecture": "llama",
                    "vocab_size": 256,
                    "hidden_size": 16,
                    "intermediate_size": 16,
                    "num_hidden_layers": 1,
                    "num_attention_heads": 1,
                },
            },
        },
    ).plan


RATES = st.floats(1e-6, 1, allow_subnormal=False)


@given(
    nodes=st.integers(1, 64),
    micro=st.integers(1, 4),
    accumulation=st.integers(1, 64),
    base=RATES,
    base_batch=st.integers(1, 10**6),
)
def test_rates_follow_the_batch_by_the_rule_that_is_named(
    nodes: int, micro: int, accumulation: int, base: float, base_batch: int
) -> None:
    effective = nodes * micro * accumulation
    for scaling, factor in (
        ("none", 1.0),
        ("linear", effective / base_batch),
        ("square_root", math.sqrt(effective / base_batch)),
    ):
        plan = rated(nodes, micro, accumulation, {"base": base, "base_batch": base_batch, "scaling": scaling, "warmup_steps": 7})
        assert plan.batch.effective == effective
        assert plan.learning_rate.peak == pytest.approx(base * factor, rel=1e-12)
        assert plan.learning_rate.warmup_samples == 7 * effective
        assert (scaling.replace("_", " ") in plan.learning_rate.reason) or scaling == "none"


@given(base=RATES, micro=st.integers(1, 4))
def test_a_scaled_rate_at_its_own_base_batch_is_the_base(base: float, micro: int) -> None:
    for scaling in ("linear", "square_root"):
        assert rated(2, micro, 1, {"base": base, "base_batch": 2 * micro, "scaling": scaling}).learning_rate.peak == base


@given(nodes=st.integers(1, 16), factor=st.integers(1, 4))
def test_twice_the_nodes_and_half_the_accumulation_is_the_same_training(nodes: int, factor: int) -> None:
    rate = {"base": 0.1, "base_batch": 64, "scaling": "linear"}
    few, many = rated(nodes, 2, 2 * factor, rate), rated(2 * nodes, 2, factor, rate)
    assert few.batch.effective == many.batch.effective
    assert few.learning_rate == many.learning_rate
    assert few.checkpoint.lineage == many.checkpoint.lineage


def fleet_data(name: str) -> tuple[Data, Data]:
    """A run of the fleet and its cluster, as they are written."""
    from trainwright.reading.document import read_yaml

    folder = Path(__file__).with_name("fleet") / "charts"
    run = read_yaml(folder / "runs" / f"{name}.yaml").data
    return read_yaml(folder / "clusters" / f"{run['cluster']}.yaml").data, run


@pytest.mark.parametrize(
    ("edit", "place"),
    [
        (
            {
                "learning_rate": {"base": 1e6, "base_batch": 1, "scaling": "linear"},
                "batch": {"micro": 10**6, "accumulation": 10**6},
            },
            "/learning_rate",
        ),
        ({"learning_rate": {"base": 1.0, "warmup_steps": 2**40}, "batch": {"micro": 10**5}}, "/learning_rate"),
        ({"learning_rate": {"base": 5e-324, "base_batch": 2**40, "scaling": "linear"}, "batch": {"micro": 1}}, "/learning_rate"),
    ],
)
def test_numbers_that_no_trainer_takes_are_a_finding(edit: Data, place: str) -> None:
    cluster, run = fleet_data("digits")
    with pytest.raises(CompileError) as caught:
        compile_data(cluster, run | edit)
    assert {finding.code for finding in caught.value.findings} == {"TW107"}
    assert {finding.where.pointer for finding in caught.value.findings} == {place}
