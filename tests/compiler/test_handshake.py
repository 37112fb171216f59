"""The handshake between topologies and targets: laws that hold for every pair of the two, whichever are registered."""

from __future__ import annotations

import re
import types
from typing import Any, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter
from tests.compiler.example import EVERY_TARGET
from tests.tables import beside

from trainwright.handshake import Binding, EnvironmentChannel, Guarantee, OperatorName, Ports, Refusal, Rendezvous, TargetName
from trainwright.operators import TARGETS
from trainwright.operators.base import Target
from trainwright.topology import AnyTopology, Topology, Work
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.base import Contract
from trainwright_trainer.contract.engine import CAPABILITIES

TOPOLOGIES: dict[str, Topology] = {
    name: TypeAdapter(AnyTopology).validate_python(fields)
    for name, fields in {
        "ddp": {"kind": "ddp", "nodes": 4, "gpus_per_node": 8},
        "ddp on one node": {"kind": "ddp", "nodes": 1, "gpus_per_node": 8},
        "ddp, elastic": {"kind": "ddp", "nodes": 4, "gpus_per_node": 8, "elastic": {"min_nodes": 2, "max_nodes": 8}},
        "ddp by mpirun": {"kind": "ddp", "nodes": 4, "gpus_per_node": 8, "mpi": "openmpi"},
        "zero3, deepspeed": {"kind": "zero3", "engine": "deepspeed", "nodes": 4, "gpus_per_node": 8},
        "zero3, fsdp2": {"kind": "zero3", "engine": "fsdp2", "nodes": 4, "gpus_per_node": 8},
        "zero3, fsdp2, elastic": {
            "kind": "zero3", "engine": "fsdp2", "nodes": 4, "gpus_per_node": 8, "elastic": {"min_nodes": 2, "max_nodes": 8},
        },
        "horovod": {"kind": "horovod", "nodes": 4, "gpus_per_node": 8},
        "horovod, intel": {"kind": "horovod", "nodes": 4, "gpus_per_node": 8, "mpi": "intel", "launcher_is_node": True},
        "horovod, mpich": {"kind": "horovod", "nodes": 4, "gpus_per_node": 8, "mpi": "mpich"},
        "multi-worker-mirrored": {"kind": "multi-worker-mirrored", "nodes": 4, "gpus_per_node": 8},
        "multi-worker-mirrored, chief": {"kind": "multi-worker-mirrored", "nodes": 4, "gpus_per_node": 8, "chief": True},
        "xgboost": {"kind": "xgboost", "nodes": 4, "gpus_per_node": 1},
        "ray": {"kind": "ray", "nodes": 4, "gpus_per_node": 8},
        "mpi": {"kind": "mpi", "nodes": 4, "gpus_per_node": 8},
        "jax": {"kind": "jax", "nodes": 4, "gpus_per_node": 8},
        "parameter-server": {"kind": "parameter-server", "nodes": 4, "gpus_per_node": 8, "parameter_servers": 2},
        "parameter-server, coordinator": {"kind": "parameter-server", "nodes": 4, "gpus_per_node": 8, "coordinator": True},
        "independent": {"kind": "independent", "nodes": 4, "gpus_per_node": 1},
    }.items()
}
PORTS = Ports(rendezvous=29500, control=29400, http=9400, ssh=2222)
PROGRAM = ("python", "train.py")
WORKS = {
    "supervisor": Work(name="run-00000000", ports=PORTS, command=None, program=PROGRAM, forwarded=("A", "B")),
    "command": Work(name="run-00000000", ports=PORTS, command=("torchrun", "train.py"), supervised=False),
    "supervised command": Work(name="run-00000000", ports=PORTS, command=("torchrun", "train.py")),
}


def bound() -> dict[str, tuple[Topology, Target, Binding]]:
    """Every pair that agrees."""
    answers = {
        f"{kind} on {name}": (topology, target, target.bind(topology.needs(), EVERY_TARGET))
        for kind, topology in TOPOLOGIES.items()
        for name, target in TARGETS.items()
    }
    return {name: (topology, target, found) for name, (topology, target, found) in answers.items() if isinstance(found, Binding)}


PAIRS = bound()
each_pair = pytest.mark.parametrize(("topology", "target", "binding"), PAIRS.values(), ids=PAIRS)
each_work = pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)


def test_names_are_those_that_runs_and_profiles_can_write() -> None:
    assert set(get_args(TargetName)) == TARGETS.keys()
    assert {target.operator.name for target in TARGETS.values() if target.operator} == set(get_args(OperatorName))


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_every_topology_has_a_target(topology: Topology) -> None:
    assert any(isinstance(target.bind(topology.needs(), EVERY_TARGET), Binding) for target in TARGETS.values())


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_a_run_may_resume_at_another_size_where_its_engine_loads_it(topology: Topology) -> None:
    if topology.engine:
        assert (Guarantee.RESHARD in topology.guarantees) == CAPABILITIES[topology.engine].reshards


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_refusal_says_why_and_what_else(topology: Topology, target: Target) -> None:
    answer = target.bind(topology.needs(), EVERY_TARGET)
    if isinstance(answer, Refusal):
        assert len(answer.reason) > 20
        assert len(answer.alternative) > 10


@each_pair
def test_a_binding_has_room_for_every_rank(topology: Topology, target: Target, binding: Binding) -> None:
    needs = topology.needs()
    assert sum(role.pods for role in binding.roles if role.holds_ranks) == needs.nodes
    assert {role.name for role in binding.roles} <= target.templates.keys()
    assert all(role.pods > 0 for role in binding.roles)
    assert all(role.container for role in binding.roles)
    assert binding.guarantees <= set(Guarantee)


@each_pair
def test_ranks_save_together_wherever_our_supervisor_starts_them(topology: Topology, target: Target, binding: Binding) -> None:
    """Ray starts its own, and an evicted pod of its cluster tells nobody. TensorFlow's workers come back one by one. Where only a
    command fits, it starts none.
    """
    supervised = not topology.only_commands
    rendezvous, kept = topology.needs().rendezvous, binding.guarantees & topology.guarantees
    assert (Guarantee.SIGTERM_SAVE in kept) == (supervised and rendezvous is not Rendezvous.RAY_HEAD)
    assert (Guarantee.RESTART_ALL in kept) == (supervised and rendezvous is not Rendezvous.TF_CONFIG)


def test_one_supervisor_agrees_with_itself() -> None:
    alone = TypeAdapter(AnyTopology).validate_python({"kind": "multi-worker-mirrored", "nodes": 1, "gpus_per_node": 8})
    assert {Guarantee.SIGTERM_SAVE, Guarantee.RESTART_ALL} <= alone.guarantees


@each_pair
@each_work
def test_nothing_is_set_that_the_controller_sets(topology: Topology, target: Target, binding: Binding, work: Work) -> None:
    variables = topology.variables(binding, work)
    names = [variable.name for variable in variables]
    assert not set(names) & binding.injects.keys()
    assert not set(names) & binding.renders.keys()
    assert len(names) == len(set(names))
    assert all(variable.reason and variable.value for variable in variables)


@each_pair
@each_work
def test_every_role_runs_something(topology: Topology, target: Target, binding: Binding, work: Work) -> None:
    processes = topology.processes(binding, work)
    assert processes.keys() == {role.name for role in binding.roles}
    for role in binding.roles:
        process = processes[role.name]
        assert process.command or binding.replaces_command or (work.command is None and not topology.needs().talk)
        of_a_launcher = work.command is not None and binding.environment is EnvironmentChannel.LAUNCHER  # sshd starts its ranks
        supervised = work.supervised and (role is binding.roles[0] or not of_a_launcher)
        assert process.supervised == (supervised and not binding.replaces_command and topology.needs().talk)
        assert len({port.name for port in process.ports}) == len(process.ports) == len({port.number for port in process.ports})
        assert all(len(port.name) <= 15 for port in process.ports), "Kubernetes takes no longer port name"


@each_pair
def test_a_launcher_hands_on_what_its_ranks_need(topology: Topology, target: Target, binding: Binding) -> None:
    if binding.environment is EnvironmentChannel.LAUNCHER:
        command = topology.processes(binding, WORKS["supervisor"])[binding.roles[0].name].command
        assert command[-2:] == PROGRAM
        words = {word for token in command for word in token.split(",")}
        assert {"A", "B"} <= words
        assert str(topology.needs().world_size) in command


@each_pair
def test_names_that_controllers_derive_leave_room_for_usual_names(topology: Topology, target: Target, binding: Binding) -> None:
    for pattern in binding.generated_names:
        name = pattern.format(name="n" * 20 + "-00000000")
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
        assert len(name) <= 63


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_targets_are_well_formed(target: Any) -> None:
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", target.name)
    assert target.title
    assert target.minimum_kubernetes >= (1, 29)
    assert len(beside(target, "md").read_text(encoding="utf-8")) > 200
    reasons = {kind.key: kind.reasons for kind in target.kinds}
    assert len(reasons) == len(target.kinds)
    assert target.kind in reasons
    assert target.shared is None or target.shared in reasons
    for kind in target.kinds:
        assert "" in kind.reasons, f"{kind.key} itself has no reason, so a line of it may have none"
        assert all(re.fullmatch(r"(/[^/]+)*", pointer) and len(reason) > 10 for pointer, reason in kind.reasons.items())
        assert all(pointer.startswith("/") for pointer in kind.mutable)
    for key, pointer in target.templates.values():
        assert pointer in reasons[key]


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


@pytest.mark.parametrize("target", ["indexed-job", "volcano-job"])
@pytest.mark.parametrize("name", [name for name in TOPOLOGIES if "elastic" in name])
def test_what_a_controller_could_do_is_said_as_ours_to_do(name: str, target: str) -> None:
    """Both kinds may change their number of pods in place: an Indexed Job since Kubernetes 1.27 (KEP-3715)."""
    answer = TARGETS[target].bind(TOPOLOGIES[name].needs(), EVERY_TARGET)
    assert isinstance(answer, Refusal)
    assert answer.reason.startswith("this release does not")
    assert "could" in answer.reason
