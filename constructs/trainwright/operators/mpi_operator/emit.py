"""MPIJob of the MPI Operator (kubeflow.org/v2beta1): a launcher that runs mpirun, and workers that run sshd."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, EnvironmentChannel, Gang, Guarantee, Needs, Recovery, Refusal, Rendezvous, Role
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.scheduling import top_metadata
from trainwright.operators.base import BROUGHT_BACK_ALONE, KnownOperator, Target, Template, admitted
from trainwright.operators.mpi_operator.releases import MPI_OPERATOR
from trainwright.operators.training_operator import run_policy
from trainwright.plan import Resolution
from trainwright.rendezvous.mpi import LAUNCHER, MPI, OPEN_MPI, MPIName, Mpirun, launcher_and_workers

KIND = GroupKind(run_policy.GROUP, "MPIJob")
REPLICAS = run_policy.ReplicaSpecs(
    KIND,
    "mpiReplicaSpecs",
    {
        "Launcher": "runs mpirun; the run has ended when it has",
        "Worker": "sshd, through which mpirun starts the ranks",
    },
)
IMPLEMENTATIONS: dict[MPIName, str] = {"openmpi": "OpenMPI", "intel": "Intel", "mpich": "MPICH"}


class MPIJob(Target):
    """Launcher Job ``<name>-launcher`` and bare pods ``<name>-worker-<i>``, all behind the headless Service ``<name>``."""

    name = "mpi-job"
    title = "MPIJob"
    kind = KIND
    operator: KnownOperator | None = MPI_OPERATOR
    kueue: str | None = "kubeflow.org/mpijob"
    queue_writes: tuple[str, ...] = admitted(".spec.mpiReplicaSpecs[].template")
    cannot_carry: Mapping[str, str] = {"ttl": "only the launcher's Job would go, and the MPIJob stays (mpi-operator#644)"}
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, Template] = REPLICAS.templates
    reserved_labels: tuple[str, ...] = run_policy.RESERVED_LABELS

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if not needs.talk:
            return Refusal("mpirun starts ranks that meet, and the run ends with it", BROUGHT_BACK_ALONE)
        mpi = needs.part(MPI)
        if mpi is None:
            by_mpirun = "for kind ddp write `mpi: openmpi` in topology, and mpirun starts the ranks; or "
            static = needs.rendezvous is Rendezvous.STATIC
            instead = f"{by_mpirun if static else ''}choose a target whose operator makes it"
            return self.lacks("the operator only writes a host file", needs, instead)
        holds, others = mpi.launcher_holds_ranks, needs.nodes - mpi.launcher_holds_ranks
        return Binding(
            roles=launcher_and_workers(mpi, needs.nodes, "{name}-launcher.{name}", "{name}-worker-{index}.{name}"),
            rank_zero_host="{name}-launcher.{name}" if holds else "{name}-worker-0.{name}",
            injects={**_INJECTED, **_OF_MPI[mpi.implementation], **({} if holds else _WITHOUT_RANKS)},
            environment=EnvironmentChannel.LAUNCHER,
            of_rendezvous=Mpirun(mpi, "K_MPI_JOB_ROLE"),
            recovery=Recovery(
                counts_init_failures=not others,  # of the launcher's Job alone: a worker is started again in its place
                delays="none" if others else "all",  # the launcher's Job has one pod
                returns="an evicted worker is not made again: each new launcher waits for it until somebody deletes the pod",
                keeps_evicted=bool(others),
                takes_others="mpirun ends with the first rank, and an evicted worker stays Failed until somebody deletes it",
            ),
            gang=Gang.OPERATOR,
            # Not exit codes: the launcher's Job has no podFailurePolicy, so a failure that would come again is tried again.
            # Ranks are tied to the launcher's supervisor, which has them save before mpirun ends them.
            guarantees=frozenset(Guarantee) - {Guarantee.EXIT_CODES},
            generated_names=("{name}-launcher", *((f"{{name}}-worker-{others - 1}",) if others else ())),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [_job(resolution)]

    kinds: tuple[ObjectKind, ...] = (
        REPLICAS.object_kind(
            reasons={
                "/spec/runPolicy/cleanPodPolicy": "workers never end by themselves; by default they would keep their GPUs",
                f"{REPLICAS.pointer}/Launcher/restartPolicy": "a failed one keeps its log, and a new pod starts all ranks again",
                f"{REPLICAS.pointer}/Worker/restartPolicy": "the operator replaces no failed worker: it must come back in place",
            },
            owned=(
                Owned(r"/spec/(slotsPerWorker|runLauncherAsWorker)", "the ranks in a pod", "change topology"),
                Owned(r"/spec/mpiImplementation", "the MPI in the image", "change topology.mpi"),
                Owned(r"/spec/sshAuthMountPath", "the keys of mpirun", "remove it: it follows from security.user"),
                Owned(r"/spec/launcherCreationPolicy", "when the launcher starts", "remove it: outside a gang it waits"),
            ),
            ttl="the launcher's Job would go, and the operator would find a run without one",
        ),
    )


TARGET: Target = MPIJob()

_INJECTED = {"K_MPI_JOB_ROLE": "launcher or worker"}
_OF_MPI: Mapping[MPIName, Mapping[str, str]] = {
    "openmpi": OPEN_MPI,
    "intel": {
        "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile, on the launcher",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "options of ssh, on the launcher",
        "I_MPI_PERHOST": "slotsPerWorker, on the launcher",
    },
    "mpich": {
        "HYDRA_HOST_FILE": "/etc/mpi/hostfile, on the launcher",
        "HYDRA_LAUNCH_EXTRA_ARGS": "options of ssh, on the launcher",
    },
}
_WITHOUT_RANKS = {
    "NVIDIA_VISIBLE_DEVICES": "nothing, on a launcher that holds no ranks",
    "NVIDIA_DRIVER_CAPABILITIES": "nothing, on a launcher that holds no ranks",
}
"""Variables that the operator appends after the run's own (pkg/controller/mpi_job_controller.go)."""


def _job(resolution: Resolution) -> Tree:
    needs = resolution.needs
    mpi = needs.part(MPI)
    assert mpi is not None  # noqa: S101 - this target binds nothing else
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": top_metadata(resolution),
        "spec": {
            "mpiImplementation": Why(
                IMPLEMENTATIONS[mpi.implementation], "run:/topology/mpi", "the MPI in the image"
            ),
            "slotsPerWorker": Why(needs.processes_per_node, "run:/topology", "ranks in a pod; the operator does not count GPUs"),
            "runLauncherAsWorker": Why(
                mpi.launcher_holds_ranks, "run:/topology", "whether the launcher is the first node"
            ),
            "launcherCreationPolicy": _launcher_creation(resolution),
            "sshAuthMountPath": Why(mpi.ssh.keys, "trainwright", mpi.ssh.reason),
            "runPolicy": run_policy.run_policy(resolution, _backoff_limit(resolution)),
            "mpiReplicaSpecs": REPLICAS.lower(resolution, _restart_policy),
        },
    }


def _launcher_creation(resolution: Resolution) -> Why:
    """mpi-operator#481: a launcher that is first tries hosts that have no address yet."""
    if resolution.plan.gang:
        reason = "the gang counts the launcher: workers would wait for it, and it for them"
        return Why("AtStartup", "cluster:/scheduling/gang", reason)
    return Why("WaitForWorkersReady", "trainwright", "mpirun finds every worker, with its address and its sshd")


def _backoff_limit(resolution: Resolution) -> Why:
    return Why(resolution.run.restarts, "run:/restarts", "launchers that may fail before the run has failed")


def _restart_policy(resolution: Resolution, role: Role) -> str:
    return "Never" if role.name == LAUNCHER else "OnFailure"
