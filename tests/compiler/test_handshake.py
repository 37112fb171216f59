"""The handshake between topologies and targets, with bindings of operators that are not targets yet.

The bindings are what MPIJob, TrainJob and elastic PyTorchJob do, from the sources of mpi-operator v0.8, Kubeflow Trainer v2.3 and
training-operator v1.9. They keep the seam honest: a topology must be able to live with each of them as it is.
"""

from __future__ import annotations

import re
import types
from dataclasses import replace
from typing import Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from trainwright.handshake import Binding, EnvironmentChannel, Guarantee, Needs, Refusal, Rendezvous, RestartUnit, Role, Success
from trainwright.target import TARGETS
from trainwright.topology import DDP, Work
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.base import Contract

MPI_JOB = Binding(
    roles=(
        Role(name="launcher", pods=1, host="{name}-launcher", container="mpi", holds_ranks=False),
        Role(name="worker", pods=4, host="{name}-worker-{index}.{name}", container="mpi"),
    ),
    rank_zero_host="{name}-worker-0.{name}",
    rendezvous_port=29500,
    node_index_env=None,  # ranks are numbered by mpirun, from the hostfile
    injects={
        "K_MPI_JOB_ROLE": "launcher or worker",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile, on the launcher",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": "ranks on a node",
        "OMPI_MCA_plm_rsh_args": "how ssh is called",
    },
    environment=EnvironmentChannel.LAUNCHER,  # mpirun forwards nothing that -x does not name
    guarantees=frozenset({Guarantee.RESTART_ALL}),
    generated_names=("{name}-launcher", "{name}-worker-3", "{name}-config", "{name}-ssh"),
)
TRAIN_JOB = Binding(
    roles=(Role(name="node", pods=4, host="{name}-node-0-{index}.{name}", container="node"),),
    rank_zero_host="{name}-node-0-0.{name}",
    rendezvous_port=29500,  # fixed in the operator
    node_index_env="PET_NODE_RANK",
    injects={
        "PET_NNODES": "numNodes", "PET_NPROC_PER_NODE": "numProcPerNode", "PET_NODE_RANK": "the completion index",
        "PET_MASTER_ADDR": "<job>-node-0-0.<job>", "PET_MASTER_PORT": "29500", "JOB_COMPLETION_INDEX": "the completion index",
    },
    guarantees=frozenset({Guarantee.EXIT_CODES, Guarantee.RESTART_ALL}),
    generated_names=("{name}-node-0-3",),
)
ELASTIC_PYTORCH_JOB = Binding(
    roles=(Role(name="worker", pods=4, host="{name}-worker-{index}", container="pytorch"),),
    rank_zero_host="{name}-worker-0",  # the endpoint of the store; which rank it gets is c10d's own choice
    rendezvous_port=23456,
    node_index_env=None,  # c10d numbers nodes as they come
    injects={
        "PYTHONUNBUFFERED": "1",
        "PET_NNODES": "min:max",
        "PET_NPROC_PER_NODE": "nprocPerNode",
        "PET_RDZV_ENDPOINT": "<job>-worker-0:23456",
        "PET_RDZV_BACKEND": "c10d",
        "PET_MAX_RESTARTS": "as given",
        "PET_RDZV_ID": "as given",
        "PET_RDZV_CONF": "as given",
    },
    guarantees=frozenset({Guarantee.SIGTERM_SAVE, Guarantee.RESHARD}),
    generated_names=("{name}-worker-3",),
)
STATIC_PYTORCH_JOB = Binding(
    roles=(
        Role(name="master", pods=1, host="{name}-master-0", container="pytorch"),
        Role(name="worker", pods=3, host="{name}-worker-{index}", container="pytorch"),
    ),
    rank_zero_host="{name}-master-0",
    rendezvous_port=23456,
    node_index_env="PET_NODE_RANK",
    injects=dict.fromkeys(
        (
            "PYTHONUNBUFFERED",
            "MASTER_ADDR",
            "MASTER_PORT",
            "PET_MASTER_ADDR",
            "PET_MASTER_PORT",
            "WORLD_SIZE",
            "RANK",
            "PET_NODE_RANK",
            "PET_NPROC_PER_NODE",
            "PET_NNODES",
        ),
        "by the operator",
    ),
    generated_names=("{name}-master-0", "{name}-worker-2"),
)
BINDINGS = {"MPIJob": MPI_JOB, "TrainJob": TRAIN_JOB, "elastic PyTorchJob": ELASTIC_PYTORCH_JOB, "PyTorchJob": STATIC_PYTORCH_JOB}

TOPOLOGY = DDP(kind="ddp", nodes=4, gpus_per_node=8)
WORKS = {
    "supervisor": Work(name="run-00000000", command=None),
    "command": Work(name="run-00000000", command=("torchrun", "train.py")),
}


@pytest.mark.parametrize("binding", BINDINGS.values(), ids=BINDINGS)
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_ddp_renders_nothing_that_the_controller_injects(binding: Binding, work: Work) -> None:
    for process in TOPOLOGY.processes(binding, work).values():
        names = [variable.name for variable in process.environment]
        assert not set(names) & binding.injects.keys()
        assert not set(names) & binding.renders.keys()
        assert len(names) == len(set(names))
        assert all(variable.reason and variable.value for variable in process.environment)


@pytest.mark.parametrize("binding", BINDINGS.values(), ids=BINDINGS)
@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_ddp_runs_in_every_role_that_holds_ranks_and_in_no_other(binding: Binding, work: Work) -> None:
    processes = TOPOLOGY.processes(binding, work)
    assert processes.keys() == {role.name for role in binding.roles if role.holds_ranks}
    assert len({(process.command, process.environment) for process in processes.values()}) == 1
    assert all(process.supervised == (work.command is None) for process in processes.values())


def test_a_launcher_runs_nothing_of_ddp() -> None:
    assert "launcher" not in TOPOLOGY.processes(MPI_JOB, WORKS["supervisor"])


def test_where_nobody_injects_it_torchrun_gets_all_it_reads() -> None:
    (process,) = TOPOLOGY.processes(TARGETS["indexed-job"].bind(TOPOLOGY.needs()), WORKS["command"]).values()  # type: ignore[arg-type]
    values = {variable.name: variable.value for variable in process.environment}
    assert values == {
        "PET_NNODES": "4",
        "PET_NPROC_PER_NODE": "8",
        "PET_MASTER_ADDR": "run-00000000-0.run-00000000",
        "PET_MASTER_PORT": "29500",
    }
    assert process.command == ("torchrun", "train.py")


def test_a_port_that_the_operator_fixes_is_the_one_that_is_rendered() -> None:
    binding = Binding(roles=TRAIN_JOB.roles, rank_zero_host=TRAIN_JOB.rank_zero_host, rendezvous_port=12345, node_index_env=None)
    (process,) = TOPOLOGY.processes(binding, WORKS["command"]).values()
    assert {variable.name: variable.value for variable in process.environment}["PET_MASTER_PORT"] == "12345"


@pytest.mark.parametrize("binding", BINDINGS.values(), ids=BINDINGS)
def test_names_that_controllers_derive_are_patterns_of_the_one_name(binding: Binding) -> None:
    for pattern in binding.generated_names:
        name = pattern.format(name="n" * 40 + "-00000000")
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
        assert len(name) <= 63, "a run's name of 40 characters leaves room for what this operator derives"


# Targets.


def needs(rendezvous: Rendezvous) -> Needs:
    return Needs(
        nodes=2,
        processes_per_node=4,
        gpus_per_node=4,
        rendezvous=rendezvous,
        success=Success.ALL_RANKS,
        restart=RestartUnit.ALL_RANKS,
        elastic=(1, 2) if rendezvous is Rendezvous.C10D else None,
    )


@pytest.mark.parametrize("rendezvous", [kind for kind in Rendezvous if kind is not Rendezvous.STATIC])
def test_an_indexed_job_refuses_what_it_cannot_carry(rendezvous: Rendezvous) -> None:
    refusal = TARGETS["indexed-job"].bind(needs(rendezvous))
    assert isinstance(refusal, Refusal)
    assert rendezvous.value in refusal.reason
    assert len(refusal.alternative) > 10


def test_an_indexed_job_refuses_a_size_that_changes() -> None:
    refusal = TARGETS["indexed-job"].bind(replace(needs(Rendezvous.STATIC), elastic=(1, 2)))
    assert isinstance(refusal, Refusal)
    assert "number of its nodes" in refusal.reason


@pytest.mark.parametrize("success", [Success.CHIEF, Success.LAUNCHER])
def test_an_indexed_job_refuses_to_end_with_one_pod(success: Success) -> None:
    refusal = TARGETS["indexed-job"].bind(replace(needs(Rendezvous.STATIC), success=success))
    assert isinstance(refusal, Refusal)
    assert success.value in refusal.reason


def test_an_indexed_job_binds_static_needs() -> None:
    binding = TARGETS["indexed-job"].bind(needs(Rendezvous.STATIC))
    assert isinstance(binding, Binding)
    assert sum(role.pods for role in binding.roles if role.holds_ranks) == 2
    assert binding.node_index_env in binding.injects
    assert binding.rank_zero_host.format(name="run") == "run-0.run"
    assert [pattern.format(name="run") for pattern in binding.generated_names] == ["run-1"]


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_targets_are_well_formed(target: Any) -> None:
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", target.name)
    assert target.title
    assert target.minimum_kubernetes >= (1, 29)
    for path, reason in target.constants.items():
        assert re.fullmatch(r"[A-Z][A-Za-z]+(/[^/]+)*", path)
        assert len(reason) > 10
        kind = path.partition("/")[0]
        assert kind in target.constants, f"{kind} itself has no reason, so a line of it may have none"
    for kind, pointer in target.templates.values():
        assert f"{kind}{pointer}" in target.constants
    for kind, pointers in target.mutable.items():
        assert kind in target.constants
        assert all(pointer.startswith("/") for pointer in pointers)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_targets_put_each_role_into_a_template(target: Any) -> None:
    binding = target.bind(needs(Rendezvous.STATIC))
    if isinstance(binding, Binding):
        assert {role.name for role in binding.roles} == set(target.templates)


# The contract: None is never a value of its own.


def models(kind: Any, seen: set[type[BaseModel]]) -> set[type[BaseModel]]:
    """Every model that can stand in an annotation."""
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
        seen.add(kind)
        for field in kind.model_fields.values():
            models(field.annotation, seen)
    for argument in get_args(kind):
        models(argument, seen)
    return seen


CONTRACT = sorted(models(RunSpec, set()), key=lambda model: model.__name__)


@pytest.mark.parametrize("model", CONTRACT, ids=lambda model: model.__name__)
def test_an_optional_field_of_the_contract_is_none_by_default(model: type[BaseModel]) -> None:
    """The compiler leaves None out of the file; a field with another default would come back as that default."""
    assert issubclass(model, Contract)
    for name, field in model.model_fields.items():
        optional = get_origin(field.annotation) in (Union, types.UnionType) and type(None) in get_args(field.annotation)
        if optional and not field.is_required():
            assert field.get_default(call_default_factory=True) is None, f"{model.__name__}.{name}"
