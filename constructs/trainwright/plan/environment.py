"""Environment of the training container: each variable with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from trainwright.cluster import Fabric
from trainwright.findings.locate import escape
from trainwright.handshake import Binding, EnvironmentChannel, Needs, Role, Variable
from trainwright.plan.checkpoint import directory_source
from trainwright.plan.model import AmountPlan, EnvironmentVariable, ResourcesPlan
from trainwright.plan.network import network_variables
from trainwright.plan.packages import packages_variable
from trainwright.rendezvous.mpi import HOSTFILE_VARIABLES, Mpirun
from trainwright.run import CommandWorkload, ConfigMapReference, EnvValue, FieldReference, Run, SecretReference, TrainerWorkload
from trainwright.topology import LAUNCHER_VARIABLES, names_read, untold
from trainwright.topology.launching import NODE_RANK
from trainwright.units import Cpu
from trainwright_trainer.contract.layout import BIND_ENV, CHECKPOINT_ENV, RESUME_ENV, SPEC_ENV

POD_IP = "status.podIP"
THREADS = "OMP_NUM_THREADS"

_OF_EVERY_POD = frozenset({SPEC_ENV, BIND_ENV, "HOME", "PYTHONUNBUFFERED"})
"""What a worker's own pod needs if everything else reaches the ranks through a launcher."""


class EnvironmentInputs(NamedTuple):
    """What decides the environment besides the run: the handshake, the pool with its fabric, and the pod's resources."""

    needs: Needs
    binding: Binding
    name: str
    """Of the run's objects."""
    variables: Sequence[Variable]
    """What the topology tells its ranks."""
    told: frozenset[str]
    """What a launcher of the run's own is told."""
    pool: str
    fabric: Fabric
    resources: ResourcesPlan
    threads: Variable | None
    """Of each rank; None where nobody knows how many CPUs a pod may use."""
    directory: str | None
    """Of the checkpoints, if the work must be told."""
    read_only_root: bool
    pool_env: Mapping[str, EnvValue] = {}
    """Variables that every pod of the pool has."""


def plan_environment(run: Run, inputs: EnvironmentInputs) -> tuple[EnvironmentVariable, ...]:
    """What the plan sets, then what the run sets; a value of the run replaces a default, and the rules refuse any other
    duplicate.
    """
    needs, binding = inputs.needs, inputs.binding
    opaque = isinstance(run.workload, CommandWorkload)
    own = [_literal(variable) for variable in (*inputs.variables, *host_variables(binding, inputs.name))]
    if run.supervised and not binding.replaces_command:
        own.append(_field(BIND_ENV, POD_IP, "the supervisor listens on the pod's own address"))
    if opaque:
        reason = "the pod's index, by label, so that rank follows index"
        own += [_field(name, path, reason) for name, path in binding.renders.items()]
        if binding.index_field and NODE_RANK in inputs.told:
            own.append(_field(NODE_RANK, binding.index_field, "for the launcher: the pod's index, by label"))
    defaults = [
        variable
        for variable in (*_defaults(run, inputs), *network_variables(inputs.pool, inputs.fabric, needs))
        if variable.name not in run.env and variable.name not in inputs.pool_env and variable.name not in binding.injects
    ]
    own += [*map(_default, defaults), *(_literal(variable) for variable in _directory(run, inputs.directory))]
    if run.resume_from:
        reason, source = "a directory to start from, which is only read", "run:/workload/resume_from"
        own.append(_literal(Variable(RESUME_ENV, run.resume_from, reason, source)))
    return (*own, *_of_pool(run, inputs.pool, inputs.pool_env), *_from_run(run))


def told_to_launcher(run: Run, needs: Needs, binding: Binding) -> frozenset[str]:
    """What a command reads of the variables that launchers other than torchrun ask for, or all where it says so."""
    work = run.workload
    if not isinstance(work, CommandWorkload) or work.launcher_variables is False or untold(needs, binding):
        return frozenset()
    told = frozenset(LAUNCHER_VARIABLES) if work.launcher_variables else names_read_by(run, work)
    return told if binding.index_field or _has_command_lines(run, binding) else told - {NODE_RANK}


def names_read_by(run: Run, work: CommandWorkload) -> frozenset[str]:
    """What an opaque command, the run's files and its variables read of ``LAUNCHER_VARIABLES``, but for what the run states."""
    parts = [one for one in run.roles.values() if not one.is_further]
    commands = [work.words, *((*(part.command or work.command or ()), *part.args) for part in parts)]
    env = [value for values in (run.env, *(part.env for part in parts)) for value in values.values() if isinstance(value, str)]
    files = [text for text in run.files.values() if isinstance(text, str)]
    return names_read(commands, files, env) - run.env.keys()


def _has_command_lines(run: Run, binding: Binding) -> bool:
    """Whether every pod has a command before which words can stand: of an image's own entrypoint nobody knows it."""
    everywhere = isinstance(run.workload, CommandWorkload) and run.workload.command is not None
    own = {name for name, part in run.roles.items() if part.command}
    return everywhere or all(role.name in own for role in binding.roles)


def environment_of(
    role: Role, binding: Binding, environment: tuple[EnvironmentVariable, ...], threads: Variable | None
) -> tuple[EnvironmentVariable, ...]:
    """The part of it that the pods of one role get: everything, except for workers whose ranks get it from the launcher.

    A launcher keeps the thread count of its ranks, because it passes its environment on to them; the head of Ray passes nothing
    on. Other pods have ``threads``, by their own CPUs.
    """
    if binding.environment is EnvironmentChannel.POD:
        return _with_threads(environment, threads)
    if binding.hands_on(role):
        return (*_role(binding, "launcher", "the pod that runs mpirun"), *environment)
    of_every_pod = (variable for variable in environment if variable.name in _OF_EVERY_POD)
    return (*_role(binding, "worker", "a pod that runs sshd"), *of_every_pod)


def in_pool(
    run: Run, environment: tuple[EnvironmentVariable, ...], ranks: str, pool: str, pool_env: Mapping[str, EnvValue]
) -> tuple[EnvironmentVariable, ...]:
    """The environment of pods in another pool than that of the ranks: with what each pod there has, and without what is said of
    the other pool's nodes.
    """
    others = f"cluster:/node_pools/{escape(ranks)}/"
    return (*(one for one in environment if not one.source.startswith(others)), *_of_pool(run, pool, pool_env))


def further_environment(
    run: Run, binding: Binding, name: str, role: Role, threads: Variable | None, pool: str, pool_env: Mapping[str, EnvValue],
    home: bool, directory: str | None,
) -> tuple[EnvironmentVariable, ...]:
    """What the pods of a further role are told: their place, where others are, and what the run and the pool state.

    Args:
        name: of the run's objects.
        home: whether the root file system is read-only, so that programs need another home.
        directory: of the checkpoints.
    """
    place = [
        Variable("NNODES", str(role.pods), "pods of this role", role.counted_in),
        Variable("MASTER_ADDR", binding.rank_zero_host.format(name=name), "the pod that holds rank 0"),
        *host_variables(binding, name),
    ]
    own = [_literal(variable) for variable in (*place, *_directory(run, directory))]
    if role.index_field:
        own.append(_field(NODE_RANK, role.index_field, "the pod's number among those of its role, by label"))
    asked = [*_of_pool(run, pool, pool_env), *_from_run(run)]
    taken, stated = {variable.name for variable in own}, {variable.name for variable in asked}
    usual = [*([_HOME] if home else []), _UNBUFFERED, *([threads] if threads else [])]
    defaults = [_default(variable) for variable in usual if variable.name not in stated]
    return (*own, *defaults, *(variable for variable in asked if variable.name not in taken))


def host_variables(binding: Binding, name: str) -> list[Variable]:
    """Where the pods of each further role are, for all pods of the run."""
    roles = [role for role in binding.roles if role.further and "*" not in role.host]
    return [_hosts(role, name) for role in roles]


def _hosts(role: Role, name: str) -> Variable:
    hosts = ",".join(role.host.format(name=name, index=index) for index in range(role.pods))
    return Variable(hosts_variable(role.name), hosts, f"host names of the pods of role {role.name}", role.counted_in)


def hosts_variable(role: str) -> str:
    """``EVALUATOR_HOSTS``: variable with the host names of a further role's pods, separated by commas."""
    return f"{role.upper().replace('-', '_')}_HOSTS"


def with_own(
    planned: tuple[EnvironmentVariable, ...], env: Mapping[str, EnvValue], source: str
) -> tuple[EnvironmentVariable, ...]:
    """Variables with those that are stated at ``source``, which win."""
    kept = (variable for variable in planned if variable.name not in env)
    return (*kept, *(_asked(name, value, f"{source}/{name}") for name, value in env.items()))


def is_stated(variable: EnvironmentVariable) -> bool:
    """Whether a person states it, in a run or in a profile, and not the plan."""
    return bool(re.match(r"run:/(?:roles/[^/]+/)?env/|cluster:/node_pools/[^/]+/pods/env/", variable.source))


def stated_variables(env: Mapping[str, EnvValue]) -> list[dict[str, Any]]:
    """Variables as Kubernetes writes them, without reasons."""
    return [_rendered(_asked(name, value, "")) for name, value in env.items()]


def _rendered(variable: EnvironmentVariable) -> dict[str, Any]:
    if variable.value is not None:
        return {"name": variable.name, "value": variable.value}
    return {"name": variable.name, "valueFrom": value_from(variable)}


def value_from(variable: EnvironmentVariable) -> dict[str, Any]:
    """Where a variable that is not written out takes its value from."""
    if variable.secret:
        return {"secretKeyRef": {"name": variable.secret.secret, "key": variable.secret.key}}
    if variable.config_map:
        return {"configMapKeyRef": {"name": variable.config_map.config_map, "key": variable.config_map.key}}
    return {"fieldRef": {"apiVersion": "v1", "fieldPath": variable.field}}


def _with_threads(environment: tuple[EnvironmentVariable, ...], threads: Variable | None) -> tuple[EnvironmentVariable, ...]:
    """What the run says of its threads holds in every role."""
    own = [_default(threads)] if threads else []
    place = next((number for number, one in enumerate(environment) if one.name == THREADS), None)
    if place is None:
        return (*environment, *own)
    return (*environment[:place], *own, *environment[place + 1 :]) if environment[place].default else environment


def threads_of(role: Role, amounts: Sequence[AmountPlan], processes: int) -> Variable | None:
    """Threads of each process in a pod that asks for ``amounts``. A pod without a limit may use every core of its node: there a
    number would be a guess, and what reads the variable counts by itself.
    """
    limit = next((one.limit for one in amounts if one.name == "cpu"), None)
    if limit is None:
        return None
    shared = f"processes {processes}" if role.holds_ranks else "of a pod without ranks"
    threads = Cpu.parse(limit).millicores // 1000 // (processes if role.holds_ranks else 1)
    return Variable(THREADS, str(max(1, threads)), f"CPUs {limit}, {shared}")


def _role(binding: Binding, value: str, reason: str) -> list[EnvironmentVariable]:
    mpirun = binding.part(Mpirun)
    told = mpirun is None or mpirun.role_env in binding.injects
    return [] if mpirun is None or told else [_literal(Variable(mpirun.role_env, value, reason))]


def forwarded(environment: Sequence[EnvironmentVariable]) -> tuple[str, ...]:
    """Names that a launcher passes on to its ranks: not what is mpirun's own, nor a field of the pod, which differs in each."""
    own = HOSTFILE_VARIABLES.values()
    return tuple(variable.name for variable in environment if variable.field is None and variable.name not in own)


def _literal(variable: Variable) -> EnvironmentVariable:
    return EnvironmentVariable(name=variable.name, value=variable.value, reason=variable.reason, source=variable.source)


def _default(variable: Variable) -> EnvironmentVariable:
    return _literal(variable)._replace(default=True)


def _field(name: str, path: str, reason: str) -> EnvironmentVariable:
    return EnvironmentVariable(name=name, field=path, reason=reason, source="trainwright")


def _defaults(run: Run, inputs: EnvironmentInputs) -> list[Variable]:
    """Defaults that a run may override."""
    needs = inputs.needs
    return [
        *([_HOME] if inputs.read_only_root else []),
        _UNBUFFERED,
        *packages_variable(run),
        *([Variable("HF_HUB_OFFLINE", "1", "nothing is downloaded while training")] if run.trainer else []),
        *([inputs.threads] if inputs.threads else []),
        *(_of_torch(run.trainer, needs) if run.trainer else []),
    ]


_HOME = Variable("HOME", "/tmp", "the root file system is read-only; caches go to the pod's scratch")  # noqa: S108
_UNBUFFERED = Variable("PYTHONUNBUFFERED", "1", "log lines leave the pod as they are written")


def _of_torch(work: TrainerWorkload, needs: Needs) -> Iterator[Variable]:
    """What torch reads before a program can tell it anything, for the settings that a run states."""
    if work.compile_cache:
        # torch/_inductor/runtime/cache_dir_utils.py, and Triton's own kernels: both write a file under another name first.
        reason = "compiled code outlives the pod"
        yield Variable("TORCHINDUCTOR_CACHE_DIR", f"{work.compile_cache}/inductor", reason, "run:/workload/compile_cache")
        yield Variable("TRITON_CACHE_DIR", f"{work.compile_cache}/triton", reason, "run:/workload/compile_cache")
    if work.expandable_segments and needs.gpus_per_node:
        # The name since torch 2.9; PYTORCH_CUDA_ALLOC_CONF is its former one (c10/core/AllocatorConfig.cpp).
        reason, source = "segments of GPU memory grow, which fragments less", "run:/workload/expandable_segments"
        yield Variable("PYTORCH_ALLOC_CONF", "expandable_segments:True", reason, source)


def _of_pool(run: Run, pool: str, env: Mapping[str, EnvValue]) -> list[EnvironmentVariable]:
    """Variables that every pod of a pool has, where the run states nothing else."""
    source = f"cluster:/node_pools/{escape(pool)}/pods/env"
    return [_asked(name, value, f"{source}/{name}") for name, value in env.items() if name not in run.env]


def _directory(run: Run, directory: str | None) -> list[Variable]:
    if directory is None:
        return []
    source, reason = directory_source(run)
    return [Variable(CHECKPOINT_ENV, directory, reason, source)]


def _from_run(run: Run) -> list[EnvironmentVariable]:
    return [_asked(name, value, f"run:/env/{name}") for name, value in run.env.items()]


def _asked(name: str, value: EnvValue, source: str) -> EnvironmentVariable:
    match value:
        case SecretReference():
            reason = "a reference: the value stays in the Secret"
            return EnvironmentVariable(name=name, secret=value, reason=reason, source=source)
        case ConfigMapReference():
            reason = "a reference: the value stays in the ConfigMap"
            return EnvironmentVariable(name=name, config_map=value, reason=reason, source=source)
        case FieldReference():
            return EnvironmentVariable(name=name, field=value.field, reason="a field of the pod, as asked", source=source)
        case _:
            return EnvironmentVariable(name=name, value=value, reason="as asked", source=source)
