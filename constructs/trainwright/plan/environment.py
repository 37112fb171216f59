"""Environment of the training container: each variable with its reason."""

from __future__ import annotations

from trainwright.cluster import Fabric
from trainwright.handshake import Binding, Needs, Process, Variable
from trainwright.locate import escape
from trainwright.plan.model import EnvironmentVariable, ResourcesPlan
from trainwright.run import Run, SecretReference
from trainwright_trainer.contract.layout import BIND_ENV

POD_IP = "status.podIP"


def plan_environment(
    run: Run,
    needs: Needs,
    binding: Binding,
    process: Process,
    place: tuple[str, Fabric],
    resources: ResourcesPlan,
    directory: str | None,
) -> tuple[EnvironmentVariable, ...]:
    """What the plan sets, then what the run sets; the run's own value replaces a default, and the rules refuse any other double.

    ``place`` is the name of the node pool and its fabric.
    """
    own = [EnvironmentVariable(name=v.name, value=v.value, reason=v.reason, source=v.source) for v in process.environment]
    if process.supervised:
        own.append(_field(BIND_ENV, POD_IP, "the supervisor listens on the pod's own address"))
    own += [
        _field(name, path, "the pod's index, by label, so that rank follows index")
        for name, path in binding.renders.items()
        if not process.supervised
    ]
    own += [
        EnvironmentVariable(name=v.name, value=v.value, reason=v.reason, source=v.source)
        for v in (*_defaults(run, needs, resources), *_directory(directory), *_network(*place, needs))
    ]
    return (*own, *_from_run(run))


def _field(name: str, path: str, reason: str) -> EnvironmentVariable:
    return EnvironmentVariable(name=name, field=path, reason=reason, source="trainwright")


def _defaults(run: Run, needs: Needs, resources: ResourcesPlan) -> list[Variable]:
    """Settings that any run may have another opinion on."""
    threads = max(1, resources.cpu.millicores // 1000 // needs.processes_per_node)
    variables = [
        Variable("HOME", "/tmp", "the root file system is read-only; caches go to the pod's scratch"),  # noqa: S108
        Variable("PYTHONUNBUFFERED", "1", "log lines leave the pod as they are written"),
        *([Variable("HF_HUB_OFFLINE", "1", "nothing is downloaded while training")] if run.trainer else []),
        Variable("OMP_NUM_THREADS", str(threads), f"CPUs {resources.cpu}, processes {needs.processes_per_node}"),
    ]
    return [variable for variable in variables if variable.name not in run.env]


def _directory(directory: str | None) -> list[Variable]:
    if directory is None:
        return []
    return [Variable("TRAINWRIGHT_CHECKPOINT_DIRECTORY", directory, "this run's own checkpoint directory")]


def _network(pool: str, fabric: Fabric, needs: Needs) -> list[Variable]:
    """NCCL and gloo settings that follow from the fabric (NCCL user guide, environment variables)."""
    if needs.nodes == 1:
        return []
    variables = []
    source = f"cluster:/node_pools/{escape(pool)}/fabric"
    library = "NCCL" if needs.gpus_per_node else "GLOO"
    if fabric.interface:
        reason = "the interface for bootstrap traffic"
        variables.append(Variable(f"{library}_SOCKET_IFNAME", fabric.interface, reason, f"{source}/interface"))
    if needs.gpus_per_node and fabric.kind == "tcp":
        variables.append(Variable("NCCL_IB_DISABLE", "1", "the fabric is TCP: do not look for RDMA devices", f"{source}/kind"))
    if needs.gpus_per_node and fabric.hca:
        variables.append(Variable("NCCL_IB_HCA", fabric.hca, "the network adapters that carry training", f"{source}/hca"))
    return variables


def _from_run(run: Run) -> list[EnvironmentVariable]:
    variables = []
    for name, value in run.env.items():
        source = f"run:/env/{name}"
        if isinstance(value, SecretReference):
            reason = "a reference: the value stays in the Secret"
            variables.append(EnvironmentVariable(name=name, secret=value, reason=reason, source=source))
        else:
            variables.append(EnvironmentVariable(name=name, value=value, reason="as asked", source=source))
    return variables
