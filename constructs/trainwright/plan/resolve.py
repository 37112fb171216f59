"""From a run and a cluster to a plan: every number and name, decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from trainwright.cluster import Cluster, Fabric, NodePool
from trainwright.findings import CompileError
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator, escape
from trainwright.handshake import Binding, Needs, Port, Ports, Process, Refusal, Rendezvous, Role, Variable
from trainwright.plan.batch import plan_batch, plan_duration, plan_elastic, plan_learning_rate
from trainwright.plan.checkpoint import plan_checkpoint, plan_grace
from trainwright.plan.data import plan_data
from trainwright.plan.deepspeed import plan_deepspeed
from trainwright.plan.environment import (
    EnvironmentInputs,
    environment_of,
    forwarded,
    further_environment,
    in_pool,
    plan_environment,
    threads_of,
    told_to_launcher,
    with_own,
)
from trainwright.plan.estimate.communication import communication, computed
from trainwright.plan.estimate.memory import plan_memory
from trainwright.plan.guarantees import plan_guarantees
from trainwright.plan.incident import plan_recovery
from trainwright.plan.model import (
    AmountPlan,
    BroughtSupervisor,
    CheckpointPlan,
    CommunicationPlan,
    ControlPlan,
    EnvironmentVariable,
    Plan,
    RendezvousPlan,
    ResourcesPlan,
    SecurityPlan,
)
from trainwright.plan.pods import choose_pool, plan_gang, plan_placement, plan_ports, plan_world
from trainwright.plan.resources import plan_amounts, plan_resources, with_stated_shares
from trainwright.plan.roles import further_process, further_roles, own_ports, role_pools
from trainwright.plan.security import plan_security, role_security
from trainwright.plan.specification import Payload, PlannedParts, build_specification, plan_payloads
from trainwright.plan.stated import Stated, mounts_of
from trainwright.plan.supervisor import plan_supervisor
from trainwright.rendezvous.mpi import HOSTFILE, MPI, Mpirun, host_lines
from trainwright.rendezvous.ray import RayPods
from trainwright.run import CommandWorkload, Mount, RoleParts, Run, ScriptWorkload
from trainwright.topology import LINKED, Work
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import BROUGHT_FOLDER, RANK_COMMAND, SECRET_DIRECTORY, SECRET_FILE, brought_command


class Carrier(Protocol):
    """What the plan asks of a target."""

    name: str
    title: str

    @property
    def operators(self) -> tuple[str, ...]:
        """Names of all that must be installed."""

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        """Where the ranks would live, or why they cannot."""


class Resolution(NamedTuple):
    """A run with everything decided: what a target lowers."""

    run: Run
    cluster: Cluster
    pool: NodePool
    """Of the pods that hold ranks."""
    plan: Plan
    needs: Needs
    binding: Binding
    processes: dict[str, Process]
    """Role -> what its pods run."""
    spec: RunSpec | None
    payloads: tuple[Payload, ...]
    pools: Mapping[str, str]
    """Role -> the pool of its pods."""
    counted: Mapping[str, ResourcesPlan]
    """Role -> what the plan counts with, of one of its pods if it holds ranks: nothing that the run states of other roles."""
    amounts: Mapping[str, tuple[AmountPlan, ...]]
    """Role -> what the main container of its pods asks for."""
    mounts: Mapping[str, Mapping[str, Stated[Mount]]]
    """Role -> path in its pods -> what is mounted there, and where it is stated."""
    securities: Mapping[str, SecurityPlan]
    """Role -> who the processes in its pods are; of a pod that has no role, under the empty name."""

    def pool_of(self, role: Role) -> tuple[str, NodePool]:
        """Name and pool of a role's pods."""
        name = self.pools[role.name]
        return name, self.pool if name == self.plan.world.pool else self.cluster.node_pools[name]

    @property
    def node_pools(self) -> tuple[NodePool, ...]:
        """Those that pods of the run go to."""
        return tuple(self.pool_of(role)[1] for role in self.binding.roles)

    def security_of(self, role: Role | None) -> SecurityPlan:
        """Who the processes in a role's pods are; None for a pod that has no role."""
        return self.securities[role.name if role else ""]

    @property
    def supervised(self) -> bool:
        """Whether our supervisor is in every pod, but for those of further roles."""
        return all(self.processes[role.name].supervised for role in self.binding.roles if not role.further)

    def brings(self, role: Role) -> BroughtSupervisor | None:
        """The supervisor that the pods of a role bring along: around their work, or for Ray to start it and parents of ranks."""
        starts = self.processes[role.name].supervised or (self.binding.replaces_command and not role.further)
        return self.plan.supervisor if starts else None

    @property
    def in_place(self) -> bool:
        """Whether pods stay when a rank or another pod is lost."""
        return self.plan.recovery is not None and self.plan.recovery.in_place

    @property
    def gpus(self) -> int:
        """GPUs of all pods, those of further roles too, and as many as an autoscaler may make."""
        return sum(self.most_pods(role) * self.gpus_of(role) for role in self.binding.roles)

    def gpus_of(self, role: Role) -> int:
        """GPUs of each pod of a role."""
        if role.further:
            return self.run.roles[role.name].gpus
        return self.plan.world.gpus_per_node if role.holds_ranks else 0

    def most_pods(self, role: Role) -> int:
        """Pods that a role may have."""
        bounds = self.needs.autoscaled.get(role.name)
        return max(role.pods, bounds.most) if bounds else role.pods

    def environment(self, role: Role) -> tuple[EnvironmentVariable, ...]:
        """The environment of a role's pods."""
        parts, planned = self.run.roles.get(role.name), self.without_own(role)
        return planned if parts is None else with_own(planned, parts.env, f"run:/roles/{role.name}/env")

    def without_own(self, role: Role) -> tuple[EnvironmentVariable, ...]:
        """The same before the role states variables of its own."""
        pool, offered = self.pool_of(role)
        if role.further and not self.binding.replaces_command:
            checkpoint = self.plan.checkpoint
            sees = checkpoint and (checkpoint.mount is None or checkpoint.mount in self.mounts[role.name])
            return further_environment(
                self.run, self.binding, self.plan.name, role, self._threads(role), pool, offered.pods.env,
                self.security_of(role).read_only_root, checkpoint.directory if checkpoint and sees else None,
            )  # fmt: skip
        planned, ranks = environment_of(role, self.binding, self.plan.environment, self._threads(role)), self.plan.world.pool
        if pool == ranks or self.binding.hands_on(role):
            return planned
        return in_pool(self.run, planned, ranks, pool, offered.pods.env)

    def _threads(self, role: Role) -> Variable | None:
        return threads_of(role, self.amounts[role.name], self.needs.processes_per_node)

    def image(self, role: Role) -> tuple[str, str]:
        """The image of a role's pods, and where it is stated."""
        parts = self.run.roles.get(role.name)
        return (parts.image, f"run:/roles/{role.name}/image") if parts and parts.image else (self.run.image, "run:/image")


def resolve(run: Run, cluster: Cluster, targets: Mapping[str, Carrier], name: str, locate: Locator) -> Resolution:
    """Decide everything for a run whose objects are called ``name``, on one of these targets.

    Raises:
        CompileError: where the run cannot be planned at all: no pool fits, the target refuses, no place for checkpoints.
    """
    security = plan_security(run, cluster)
    needs = _needs(run, cluster, security, locate)
    ports = plan_ports(run)
    target, binding = _bind(run, needs, cluster, targets, ports, locate)
    pool_name, pool_reason = choose_pool(run, cluster, needs, locate)
    pool = _as_seen(run, cluster.node_pools[pool_name])
    work = _work(run, name, ports, pool)._replace(told=told_to_launcher(run, needs, binding))
    checkpoint = plan_checkpoint(run, cluster, name, locate)
    ranks = binding.ranks
    counted = {role.name: plan_resources(run, pool, needs, role.name) for role in binding.roles}
    inputs = EnvironmentInputs(
        needs=needs,
        binding=binding,
        name=name,
        variables=run.topology.variables(binding, work),
        told=work.told,
        pool=pool_name,
        fabric=pool.fabric,
        resources=counted[ranks.name],
        threads=threads_of(
            ranks, plan_amounts(run, ranks, needs, pool, pool_name, counted[ranks.name]), needs.processes_per_node
        ),
        directory=checkpoint.directory if checkpoint and not run.trainer else None,
        read_only_root=security.read_only_root,
        pool_env=pool.pods.env,
    )
    environment = plan_environment(run, inputs)
    batch = plan_batch(run, needs)
    planned = PlannedParts(
        world=plan_world(needs, cluster, pool_name, pool_reason),
        rendezvous=_rendezvous(needs, binding, name, ports),
        batch=batch,
        learning_rate=plan_learning_rate(run, batch),
        elastic=plan_elastic(run, needs, batch),
        checkpoint=checkpoint,
        grace=plan_grace(run, checkpoint),
        control=_control(run, cluster, needs),
        recovery=plan_recovery(run, cluster, needs, binding, target.operators),
    )
    spec = build_specification(run, name, needs, binding, planned, locate)
    pools = role_pools(run, cluster, needs, binding.roles, locate)
    offered = {name: pool if name == pool_name else cluster.node_pools[name] for name in pools.values()}
    brought = plan_supervisor(run, cluster, needs, binding)
    work = work._replace(trainer=brought_command(BROUGHT_FOLDER)) if brought else work
    processes = _processes(run, binding, work._replace(forwarded=forwarded(environment)))
    return Resolution(
        run=run,
        cluster=cluster,
        pool=pool,
        plan=_plan(run, cluster, target, name, inputs, planned, environment, security, pools)._replace(supervisor=brought),
        needs=needs,
        binding=binding,
        processes=processes,
        spec=spec,
        payloads=plan_payloads(run, spec, plan_deepspeed(run, batch), _hosts(needs, binding, name)),
        pools=pools,
        counted=counted,
        amounts={
            role.name: plan_amounts(run, role, needs, offered[pools[role.name]], pools[role.name], counted[role.name])
            for role in binding.roles
        },
        mounts={
            role.name: mounts_of(run, role, _place_of_history(checkpoint, binding, role, processes)) for role in binding.roles
        },
        securities={role.name if role else "": role_security(run, cluster, role) for role in (None, *binding.roles)},
    )


def _place_of_history(
    checkpoint: CheckpointPlan | None, binding: Binding, role: Role, processes: Mapping[str, Process]
) -> str | None:
    """Where pods without ranks read and write beside the checkpoints: our supervisor in front of mpirun has the history of the
    run there, and Ray Train's driver in the head its own (ray/train/v2/_internal/execution/storage.py).
    """
    reads = processes[role.name].supervised or binding.part(RayPods) is not None
    return checkpoint.mount if checkpoint and reads and not role.further else None


def _hosts(needs: Needs, binding: Binding, name: str) -> tuple[str, str] | None:
    """Path and text of mpirun's host file, where the run brings it."""
    mpirun = binding.part(Mpirun)
    return (HOSTFILE, host_lines(needs, mpirun.mpi, binding, name)) if mpirun and mpirun.brings_hostfile else None


def _plan(
    run: Run,
    cluster: Cluster,
    target: Carrier,
    name: str,
    inputs: EnvironmentInputs,
    planned: PlannedParts,
    environment: tuple[EnvironmentVariable, ...],
    security: SecurityPlan,
    pools: Mapping[str, str],
) -> Plan:
    """Everything that a reader of the plan is told."""
    memory, unknown = plan_memory(run, planned.world, inputs.resources, cluster.node_pools[inputs.pool])
    return Plan(
        run=run.run,
        name=name,
        team=run.team,
        namespace=run.namespace,
        cluster=cluster.cluster,
        target=target.name,
        target_title=target.title,
        topology=run.topology.title,
        workload=run.workload.kind,
        world=planned.world,
        rendezvous=planned.rendezvous,
        batch=planned.batch,
        learning_rate=planned.learning_rate,
        elastic=planned.elastic,
        duration=plan_duration(run, planned.batch),
        memory=memory,
        memory_unknown=unknown,
        communication=_communication(run, planned, inputs.fabric),
        resources=inputs.resources,
        environment=environment,
        checkpoint=planned.checkpoint,
        saved_by=run.saved_by,
        grace=planned.grace,
        gang=plan_gang(run, cluster, inputs.needs, inputs.binding),
        security=security,
        guarantees=plan_guarantees(run, inputs.needs, inputs.binding, planned.recovery),
        data=plan_data(run),
        placement=plan_placement(run, [role for role in inputs.binding.roles if pools[role.name] == inputs.pool]),
        control=planned.control,
        recovery=planned.recovery,
    )


def _communication(run: Run, planned: PlannedParts, fabric: Fabric) -> CommunicationPlan | None:
    if run.trained is None or planned.batch is None:
        return None
    return communication(computed(run.trained, planned.batch), planned.world, run.topology.sharding(), fabric)


def _needs(run: Run, cluster: Cluster, security: SecurityPlan, locate: Locator) -> Needs:
    """What the topology asks of a target, and the further roles of the run; under mpirun also whose sshd is: that of an image
    made for root, or of its own user; and what it can write to.
    """
    needs = run.topology.needs()._replace(runtime=run.runtime) if run.runtime else run.topology.needs()
    if any(parts.is_further for parts in run.roles.values()):
        needs = needs._replace(further=further_roles(run, cluster, needs, locate))
    mpi = needs.part(MPI)
    if mpi is None:
        return needs
    return needs._replace(of_rendezvous=mpi._replace(as_root=not security.user, read_only_root=security.read_only_root))


def answer(target: Carrier, needs: Needs, cluster: Cluster) -> Binding | Refusal:
    """What a target says. One that gives a further role no pods cannot carry it."""
    said = target.bind(needs, cluster)
    if isinstance(said, Refusal):
        return said
    if needs.runtime and said.runtime != needs.runtime:
        return Refusal("it is made from no runtime", "write target: train-job, or remove runtime")
    missing = [one.name for one in needs.further if one not in [role.further for role in said.roles]]
    if missing:
        return Refusal("it has pods for its topology alone", "remove the further roles", tuple(missing))
    return said


def _bind(
    run: Run, needs: Needs, cluster: Cluster, targets: Mapping[str, Carrier], ports: Ports, locate: Locator
) -> tuple[Carrier, Binding]:
    """The target of the run, and how it carries it."""
    target = targets[run.target or cluster.default_target]
    binding = answer(target, needs, cluster)
    if isinstance(binding, Refusal):
        roles = binding.roles
        further = f" with the further role{'s' if roles[1:] else ''} {' and '.join(roles)}" if roles else ""
        message = f"{target.title} cannot run {run.topology.title}{further}: {binding.reason}"
        fix = f"{binding.alternative}{_others(needs, cluster, targets)}"
        place = f"/roles/{escape(roles[0])}" if roles else "/topology"
        raise CompileError([found("TW401", locate.run(place), message, fix)])
    itself = f"{target.title} has the role {{name}} itself, and the topology says how many pods it has"
    taken = {role.name: itself.format(name=role.name) for role in binding.roles if not role.further}
    reserved = binding.reserved_roles.items()
    taken |= {name: f"no further role of a {target.title} can be called {name}: {why}" for name, why in reserved}
    for name in (role.name for role in needs.further if role.name in taken):
        fix = "remove pods, or give the further role another name"
        raise CompileError([found("TW327", locate.run(f"/roles/{name}/pods"), taken[name], fix)])
    if binding.finds_container and (named := next((name for name, parts in run.roles.items() if parts.container), None)):
        message = f"the operator of a {target.title} looks for the container that trains by its own name for it"
        raise CompileError([found("TW327", locate.run(f"/roles/{escape(named)}/container"), message, "remove container")])
    binding = with_stated_shares(binding, run)
    if run.host_network and not binding.fixed_port:
        return target, binding._replace(rendezvous_port=ports.rendezvous)
    return target, binding


_CONNECTED = LINKED | {Rendezvous.C10D, Rendezvous.RAY_HEAD}
"""Where supervisors meet over a port. Those of tf-config are not connected, and under mpirun ssh has keys of its own."""


def _control(run: Run, cluster: Cluster, needs: Needs) -> ControlPlan | None:
    """None where no supervisor listens for another: one node, tasks of TF_CONFIG, or a command whose launchers meet by
    themselves.
    """
    if not run.supervised or needs.most_nodes == 1:
        return None
    if isinstance(run.workload, CommandWorkload) and needs.rendezvous not in LINKED:
        return None
    if needs.rendezvous is Rendezvous.MPI_HOSTFILE:
        return ControlPlan(None, None, None, "authenticated by the ssh keys that the operator makes for the run")
    if needs.rendezvous not in _CONNECTED:
        return None
    namespace = cluster.namespaces.get(run.namespace)
    if namespace is None or namespace.control_secret is None:
        return ControlPlan(None, None, None, "not authenticated: pods name run and attempt, and prove nothing")
    secret = namespace.control_secret
    shown = f"authenticated by Secret {secret.name}, key {secret.key}"
    return ControlPlan(secret.name, secret.key, f"{SECRET_DIRECTORY}/{SECRET_FILE}", shown)


def _as_seen(run: Run, pool: NodePool) -> NodePool:
    """The pool as pods see it: on the node's own network its interfaces have the node's names."""
    if not run.host_network:
        return pool
    fabric = pool.fabric.model_copy(update={"interface": pool.fabric.host_interface})
    return pool.model_copy(update={"fabric": fabric})


def _others(needs: Needs, cluster: Cluster, targets: Mapping[str, Carrier]) -> str:
    """Targets that would carry the topology."""
    names = [name for name, target in targets.items() if isinstance(answer(target, needs, cluster), Binding)]
    return f", or write target: {' or '.join(names)}" if names else ""


def _work(run: Run, name: str, ports: Ports, pool: NodePool) -> Work:
    workload = run.workload
    return Work(
        name=name,
        ports=ports,
        command=tuple(workload.command or ()) if isinstance(workload, CommandWorkload) else None,
        args=tuple(workload.args) if isinstance(workload, CommandWorkload) else (),
        program=tuple(workload.command) if isinstance(workload, ScriptWorkload) else RANK_COMMAND,
        interface=pool.fabric.interface,
        supervised=run.supervised,
    )


def _processes(run: Run, binding: Binding, work: Work) -> dict[str, Process]:
    """What the pods of each role run: what the run states of a role, else what the topology has for it; with the run's ports."""
    topology = binding._replace(roles=tuple(role for role in binding.roles if not role.further))
    planned = run.topology.processes(topology, work)
    own = {
        role: _instead(planned[role], parts)
        for role, parts in run.roles.items()
        if role in planned and (parts.command or parts.args)
    }
    further = {role.name: further_process(role.name, run.roles[role.name]) for role in binding.roles if role.further}
    if binding.replaces_command:  # the operator knows when its own program is ready
        further = {name: process._replace(ready_port=None) for name, process in further.items()}
    return _with_ports(run, binding, planned | own | further)


def _with_ports(run: Run, binding: Binding, processes: dict[str, Process]) -> dict[str, Process]:
    """Ports of the run are where its own program is, under mpirun in the launcher's pod; those of a role in its pods."""
    ports = tuple(Port(name, number, "as asked", f"run:/ports/{name}") for name, number in run.ports.items())
    more = {role.name: ports for role in binding.roles if ports and binding.runs_the_work(role)}
    for name, parts in run.roles.items():
        if parts.ports and not parts.is_further:
            more[name] = (*more.get(name, ()), *own_ports(name, parts))
    there = {name: processes[name] for name in more if name in processes}
    return processes | {name: one._replace(ports=(*one.ports, *more[name])) for name, one in there.items()}


def _instead(planned: Process, parts: RoleParts) -> Process:
    """Another program in the same place. Of an sshd of its own nobody knows the port, nor what it needs to start."""
    behind = bool(planned.behind)
    own = planned._replace(command=tuple(parts.command or planned.command), args=tuple(parts.args), supervised=behind)
    return own._replace(ports=(), ready_port=None, capabilities={}) if planned.ready_port else own


def _rendezvous(needs: Needs, binding: Binding, name: str, ports: Ports) -> RendezvousPlan:
    return RendezvousPlan(
        kind=needs.rendezvous.value,
        host=binding.rank_zero_host.format(name=name),
        port=binding.rendezvous_port,
        control_port=ports.control if needs.rendezvous in LINKED else None,
        http_port=ports.http,
        hosts=binding.ranks.host.replace("{name}", name),
    )
