"""What is proposed to a run that does not fit: the smallest change, and it does fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.compiling import compile_data
from tests.compiler.test_memory import CLUSTER, GIB, LLAMA_70B, finetune

from trainwright.cluster import Cluster
from trainwright.findings import CompileError
from trainwright.plan.estimate.fitting import smallest_change
from trainwright.reading import validate_data
from trainwright.reading.document import parse_yaml
from trainwright.run import Run
from trainwright_trainer.contract.model import Llama

Shape = dict[str, Any]


def refusal(run: Shape, cluster: Shape | None = None) -> str:
    with pytest.raises(CompileError) as caught:
        compile_data(cluster or CLUSTER, run)
    (found,) = [finding for finding in caught.value.findings if finding.code == "TW220"]
    return found.fix


def test_70_billion_parameters_are_refused_under_ddp_with_the_numbers() -> None:
    assert Llama.model_validate(LLAMA_70B).parameters == 70_553_706_496
    with pytest.raises(CompileError) as caught:
        compile_data(CLUSTER, finetune(LLAMA_70B, 4))
    (found,) = [finding for finding in caught.value.findings if finding.code == "TW220"]
    states = 16 * 70_553_706_496 / GIB
    low = float(found.message.split("needs ")[1].split()[0])
    assert low > states > 1051
    assert "has 80.0 GiB (memory of one H100)" in found.message
    assert found.fix == (
        "write `topology: {kind: zero3, engine: deepspeed}`, `batch: {micro: 2, accumulation: 16}` and "
        "`workload: {activation_checkpointing: true}`, which fits: 56.5 to 73.9 of 80.0 GiB"
    )


def test_what_is_proposed_fits() -> None:
    proposed = finetune(LLAMA_70B, 2)
    proposed["batch"]["accumulation"] = 16
    proposed["workload"]["activation_checkpointing"] = True
    proposed["topology"] |= {"kind": "zero3", "engine": "deepspeed"}
    memory = compile_data(CLUSTER, proposed).plan.memory
    assert memory is not None
    assert f"{memory.low / GIB:.1f} to {memory.high / GIB:.1f}" == "56.5 to 73.9"
    assert memory.high < memory.limit


def test_a_batch_too_large_is_told_apart_from_a_model_too_large() -> None:
    small = {**LLAMA_70B, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32}
    assert refusal(finetune(small, 64)).startswith("write `batch: {micro: 2, accumulation: 256}`, which fits: ")
    assert compile_data(CLUSTER, finetune(small, 1)).plan.memory is not None


def test_a_run_on_cpus_is_told_how_much_memory_it_wants() -> None:
    small = {**LLAMA_70B, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32}
    run = finetune(small, 1) | {"topology": {"kind": "ddp", "nodes": 1, "gpus_per_node": 0, "processes_per_node": 2}}
    fix = refusal(run)
    assert fix.startswith("write `resources: {memory: ")
    assert compile_data(CLUSTER, run | {"resources": {"memory": fix.split("memory: ")[1].split("}")[0]}}).plan.memory is not None


def test_a_model_that_nothing_helps_is_told_so() -> None:
    huge = {**LLAMA_70B, "num_hidden_layers": 80_000}
    assert refusal(finetune(huge, 1)) == (
        "take a smaller model, or use GPUs with more memory: no other batch, topology or offload fits"
    )


def test_more_nodes_are_the_last_resort() -> None:
    run = finetune({**LLAMA_70B, "num_hidden_layers": 160}, 1)
    run["topology"] |= {"kind": "zero3", "engine": "fsdp2"}
    run["workload"] |= {"activation_checkpointing": True, "optimizer": {"kind": "adamw"}}
    run["checkpoints"] = {"save": "blocking"}
    small_host = {**CLUSTER, "node_pools": {"h100": {**CLUSTER["node_pools"]["h100"], "memory": "300Gi"}}}
    assert refusal(run, small_host).startswith("write `topology: {nodes: 8}`, which fits: ")


TOPOLOGIES: list[Shape] = [
    {},
    {"gpus_per_node": 1},
    {"kind": "zero1", "engine": "deepspeed"},
    {"kind": "zero3", "engine": "fsdp2"},
    {"kind": "zero3", "engine": "deepspeed", "offload": {"optimizer": "cpu"}},
    {"elastic": {"min_nodes": 1, "max_nodes": 64}},
    {"kind": "zero3", "engine": "fsdp2", "elastic": {"min_nodes": 1, "max_nodes": 64}},
    {"mpi": "openmpi"},
    {"kind": "horovod"},
]


@given(
    hidden=st.sampled_from([1024, 4096, 8192]),
    layers=st.integers(1, 200),
    micro=st.sampled_from([1, 2, 6, 64]),
    nodes=st.integers(1, 64),
    topology=st.sampled_from(TOPOLOGIES),
)
def test_whatever_is_proposed_keeps_the_batch_and_fits(hidden: int, layers: int, micro: int, nodes: int, topology: Shape) -> None:
    data = finetune({**LLAMA_70B, "hidden_size": hidden, "intermediate_size": 3 * hidden, "num_hidden_layers": layers}, micro)
    data["topology"] |= {"nodes": nodes, **topology}
    change = smallest_change(validate_data(Run, data, None, {}), validate_data(Cluster, CLUSTER, None, {}), "h100", "worker")
    if change is None:
        return
    assert 1 <= len(change.texts) <= 4
    assert change.memory.low <= change.memory.limit
    assert change.surely == all(
        part.high <= part.limit for part in (change.memory, change.memory.host) if part is not None
    )
    for text in change.texts:
        if text.startswith("batch: "):
            fewer, more = (int(word.rstrip(",}")) for word in text.split()[2::2])
            assert fewer * more == micro * 8
    changed = change.run.topology
    if "elastic" in topology:
        assert changed.needs().elastic, "a run stays elastic"
    if topology.get("kind") == "horovod":
        assert not any(text.startswith("topology") for text in change.texts)
    assert validate_data(Run, change.run.model_dump(exclude_unset=True), None, {}).topology == changed


def topology_of(fix: str) -> Shape:
    """What a fix says about it."""
    return parse_yaml(fix.split("`topology: ")[1].split("`")[0], "fix").data


def test_an_elastic_run_is_told_of_fsdp2() -> None:
    run = finetune(LLAMA_70B, 1)
    run["topology"] |= {"elastic": {"min_nodes": 2, "max_nodes": 8}}
    elastic = {**CLUSTER, "default_target": "pytorch-job", "operators": {"training-operator": {"version": "1.9.0"}}}
    change = topology_of(refusal(run, elastic))
    assert (change["kind"], change["engine"]) == ("zero3", "fsdp2")
    run["topology"] |= change
    assert compile_data(elastic, run | {"workload": run["workload"] | {"activation_checkpointing": True}}).plan.elastic


@pytest.mark.parametrize(("target", "words"), [
    ("mpi-job", "without `mpi`, on target indexed-job, "),
    ("train-job", "without `mpi`, "),
])
def test_a_run_by_mpirun_is_told_to_do_without(target: str, words: str) -> None:
    run = finetune(LLAMA_70B, 4)
    run["topology"] |= {"mpi": "openmpi"}
    operators: Shape = {
        "mpi-job": {"mpi-operator": {"version": "0.6.0"}},
        "train-job": {"trainer": {"version": "2.1.0"}, "jobset": {"version": "0.10.0"}},
    }
    fix = refusal(run | {"target": target}, {**CLUSTER, "operators": operators[target]})
    assert topology_of(fix) == {"kind": "zero3", "engine": "deepspeed"}
    assert f"{words}which fits" in fix
