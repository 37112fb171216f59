"""MPIJob of the MPI Operator (kubeflow.org/v2beta1): a launcher that runs mpirun, and workers that run sshd."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.handshake import (
    Binding,
    EnvironmentChannel,
    Gang,
    Guarantee,
    MPIName,
    Needs,
    OperatorName,
    Refusal,
    Rendezvous,
    Role,
)
from trainwright.manifest import volumes
from trainwright.manifest.pod import pod_template, template_constants
from trainwright.manifest.provenance import Owned, Tree, Why
from trainwright.manifest.scheduling import scheduling_policy, top_labels
from trainwright.plan import Resolution
from trainwright.target.base import Releases, Unshared
from trainwright.target.mpi import HOSTFILE, KEYS, OPEN_MPI, SHARE, SSHD, WHY_KEYS
from trainwright_trainer.contract.layout import RENDEZVOUS_PORT

KIND = "MPIJob"
REPLICAS = "/spec/mpiReplicaSpecs"
LAUNCHER, WORKER = "launcher", "worker"
IMPLEMENTATIONS: dict[MPIName, str] = {"openmpi": "OpenMPI", "intel": "Intel", "mpich": "MPICH"}


class MPIJob(Unshared):
    """Launcher Job ``<name>-launcher`` and bare pods ``<name>-worker-<i>``, all behind the headless Service ``<name>``."""

    name = "mpi-job"
    title = "MPIJob"
    operator: OperatorName | None = "mpi-operator"
    releases: Releases | None = Releases((0, 5), (0, 8))
    """runLauncherAsWorker and MPICH came with 0.5."""
    kueue = "kubeflow.org/mpijob"
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, tuple[str, str]] = {
        LAUNCHER: (KIND, f"{REPLICAS}/Launcher/template"),
        WORKER: (KIND, f"{REPLICAS}/Worker/template"),
    }
    mutable: Mapping[str, tuple[str, ...]] = {}

    def bind(self, needs: Needs) -> Binding | Refusal:
        if needs.rendezvous is not Rendezvous.MPI_HOSTFILE or needs.mpi is None:
            reason = f"the operator writes a host file for mpirun, which makes no rendezvous of kind {needs.rendezvous.value}"
            return Refusal(reason, "choose a target whose operator makes it")
        holds, others = needs.mpi.launcher_holds_ranks, needs.nodes - needs.mpi.launcher_holds_ranks
        launcher = Role(LAUNCHER, pods=1, host="{name}-launcher.{name}", container="mpi", share=None if holds else SHARE)
        workers = Role(WORKER, pods=others, host="{name}-worker-{index}.{name}", container="mpi")
        return Binding(
            roles=(launcher, workers) if others else (launcher,),
            rank_zero_host="{name}-launcher.{name}" if holds else "{name}-worker-0.{name}",
            rendezvous_port=RENDEZVOUS_PORT,
            node_index_env=None,  # ranks are numbered by mpirun, from the host file
            injects={**_INJECTED, **_OF_MPI[needs.mpi.implementation], **({} if holds else _WITHOUT_RANKS)},
            environment=EnvironmentChannel.LAUNCHER,
            role_env="K_MPI_JOB_ROLE",
            hostfile=HOSTFILE,
            sshd=SSHD,
            counts_init_failures=not others,  # of the launcher's Job alone: a worker is started again in its place
            gang=Gang.OPERATOR,
            # Not exit codes: the launcher's Job has no podFailurePolicy, so a failure that would come again is tried again.
            # Ranks are tied to the launcher's supervisor, which has them save before mpirun ends them.
            guarantees=frozenset(Guarantee) - {Guarantee.EXIT_CODES},
            generated_names=("{name}-launcher", *((f"{{name}}-worker-{others - 1}",) if others else ())),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [*volumes.configuration(resolution), _job(resolution)]

    constants: Mapping[str, str] = {
        **volumes.CONSTANTS,
        KIND: "the run itself",
        f"{KIND}/metadata": "run name and identity hash: an edit that would change a pod is a new object",
        f"{KIND}/metadata/labels": "labels of the run's objects; free to change",
        f"{KIND}/spec/sshAuthMountPath": WHY_KEYS,
        f"{KIND}/spec/runPolicy": "how the run ends",
        f"{KIND}/spec/runPolicy/cleanPodPolicy": "workers never end by themselves; by default they would keep their GPUs",
        f"{KIND}{REPLICAS}": "the pods of the run",
        f"{KIND}{REPLICAS}/Launcher": "runs mpirun; the run has ended when it has",
        f"{KIND}{REPLICAS}/Launcher/restartPolicy": "a failed launcher stays for its log, and a new pod starts all ranks again",
        f"{KIND}{REPLICAS}/Worker": "sshd, through which mpirun starts the ranks",
        f"{KIND}{REPLICAS}/Worker/restartPolicy": "the operator makes no failed worker anew, so it has to come back in its place",
        **template_constants(f"{KIND}{REPLICAS}/Launcher/template"),
        **template_constants(f"{KIND}{REPLICAS}/Worker/template"),
    }

    owned: Mapping[str, tuple[Owned, ...]] = {
        "ConfigMap": volumes.OWNED,
        KIND: (
            Owned(r"/spec/(slotsPerWorker|runLauncherAsWorker)", "the ranks in a pod", "change topology"),
            Owned(r"/spec/mpiImplementation", "the MPI in the image", "change topology.mpi"),
            Owned(r"/spec/sshAuthMountPath", "the keys of mpirun", "remove it: sshd of user 1000 looks for them there"),
            Owned(r"/spec/launcherCreationPolicy", "when the launcher starts", "remove it: it waits for workers, but in a gang"),
            Owned(r"/spec/runPolicy/suspend", "the start of the run", "remove it: a queue controller suspends and resumes"),
            Owned(
                r"/spec/runPolicy/ttlSecondsAfterFinished",
                "the life of the run",
                "remove it: the launcher's Job would go, and the operator would find a run without one",
            ),
            Owned(r"/spec/runPolicy/backoffLimit", "the retry budget", "change restarts"),
            Owned(r"/spec/runPolicy/(cleanPodPolicy|managedBy)", "how the run ends", "remove it: ended runs must not keep GPUs"),
            Owned(r"/spec/runPolicy/schedulingPolicy.*", "how pods start together", "change gang, queue or priority"),
            Owned(rf"{REPLICAS}/\w+/replicas", "the number of pods", "change topology"),
            Owned(rf"{REPLICAS}/\w+/restartPolicy", "how pods come back", "change restarts"),
            Owned(rf"{REPLICAS}/(?!Launcher|Worker)\w+(/.*)?", "the roles of the run", "change topology"),
        ),
    }


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
    run, plan, needs = resolution.run, resolution.plan, resolution.needs
    assert needs.mpi is not None  # noqa: S101 - this target binds nothing else
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": KIND,
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": top_labels(resolution)},
        "spec": {
            "mpiImplementation": Why(
                IMPLEMENTATIONS[needs.mpi.implementation], "run:/topology/mpi", "the MPI in the image"
            ),
            "slotsPerWorker": Why(needs.processes_per_node, "run:/topology", "ranks in a pod; the operator does not count GPUs"),
            "runLauncherAsWorker": Why(
                needs.mpi.launcher_holds_ranks, "run:/topology", "whether the launcher is the first node"
            ),
            "launcherCreationPolicy": _launcher_creation(resolution),
            "sshAuthMountPath": KEYS,
            "runPolicy": {
                "cleanPodPolicy": "Running",
                "backoffLimit": Why(run.restarts, "run:/restarts", "launchers that may fail before the run has failed"),
                **scheduling_policy(resolution),
            },
            "mpiReplicaSpecs": {
                role.name.capitalize(): {
                    "replicas": Why(role.pods, "run:/topology/nodes", "pods of this role"),
                    "restartPolicy": "Never" if role.name == LAUNCHER else "OnFailure",
                    "template": pod_template(resolution, role, {}),
                }
                for role in resolution.binding.roles
            },
        },
    }


def _launcher_creation(resolution: Resolution) -> Why:
    """mpi-operator#481: a launcher that is first tries hosts that have no address yet."""
    if resolution.plan.gang:
        reason = "the gang counts the launcher: workers would wait for it, and it for them"
        return Why("AtStartup", "cluster:/scheduling/gang", reason)
    return Why("WaitForWorkersReady", "trainwright", "mpirun finds every worker, with its address and its sshd")
