"""The targets and their operators, as tests need them: one entry each.

A new target is an entry in ``CASES``, and what its controller makes of its objects in its folder. What the compiler says of
a target itself (its operator, what else that relies on) is read from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.compiler.example import Data, command

from trainwright.operators import TARGETS


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator that a profile may list."""

    releases: Mapping[str, str]
    """Release -> the finding on it: too old, known or too new. The known ones are those of random profiles."""
    has_gang_flag: bool = False
    """Whether a flag of it names the scheduler of gangs."""
    flag_names_scheduler: bool = True
    """Whether any value but Volcano's is the name by which pods know that scheduler."""
    keeps_scheduler: bool = False
    """Whether a scheduler that a pod template names stays, whatever the flag says."""
    not_with_kueue: tuple[str, ...] = ()
    """The known minor releases whose objects no newer Kueue admits."""
    not_with_volcano: tuple[str, ...] = ()
    """Those that make no groups for Volcano yet."""

    @property
    def known(self) -> tuple[str, ...]:
        """Releases without a finding."""
        return tuple(release for release, code in self.releases.items() if not code)


OPERATORS: dict[str, Operator] = {
    "jobset": Operator({
        "0.7": "TW314", "0.7.9": "TW314", "0.8": "", "0.10.1": "", "0.13.0": "", "0.13.99": "", "0.14.0": "TW315", "1.0": "TW315",
    }),
    "training-operator": Operator(
        {"1.6.9": "TW314", "1.7.0": "", "1.9.4": "", "1.10.0": "TW315"}, has_gang_flag=True, keeps_scheduler=True,
    ),
    "trainer": Operator(
        {"1.9": "TW314", "2.0.1": "", "2.1": "", "2.1.0": "", "2.2.1": "", "2.3.0": "", "2.3.7": "", "2.4.0": "TW315"},
        not_with_kueue=("2.0", "2.1"), not_with_volcano=("2.0",),
    ),
    "mpi-operator": Operator(
        {"0.4.0": "TW314", "0.5.0": "", "0.8.0": "", "0.8.1": "", "0.10": "TW315"}, has_gang_flag=True,
    ),
    "kuberay": Operator(
        {"1.2.9": "TW314", "1.3.0": "", "1.7.0": "", "1.8.0": "TW315", "1.10.0": "TW315"},
        has_gang_flag=True, flag_names_scheduler=False,
    ),
}  # fmt: skip


def conditions(words: str) -> Data:
    """Conditions as controllers leave them behind, oldest first; ``-`` before one whose status has become False."""
    parts = [word.rpartition("-") for word in words.split()]
    return {
        "conditions": [
            {"type": word, "status": "False" if gone else "True", "message": f"about {word}"} for _, gone, word in parts
        ]
    }


Statuses = Mapping[str, tuple[Data, str, str]]
"""What it means -> an object's ``status``, its health, and the condition that Argo CD shows."""

NO_VERDICT = ("Progressing", "no verdict yet")
QUEUED = (conditions("Suspended"), "Suspended", "Suspended: about Suspended")
KUBEFLOW: Statuses = {
    "created": (conditions("Created"), "Progressing", "Created: about Created"),
    "runs": (conditions("Created Running"), "Progressing", "Running: about Running"),
    "restarts": (conditions("Created -Running Restarting"), "Progressing", "Restarting: about Restarting"),
    "waits in a queue": (conditions("Created Suspended"), *QUEUED[1:]),
    "admitted, and runs": (conditions("Created -Suspended Running"), "Progressing", "Running: about Running"),
    "succeeded": (conditions("Created -Running Succeeded"), "Healthy", "Succeeded: about Succeeded"),
    "failed": (conditions("Created -Running Failed"), "Degraded", "Failed: about Failed"),
}

SHARDED = ("zero1", "zero2", "zero3")
BY_MPIRUN, TENSORFLOW = ("mpi", "bare-mpi", "horovod"), ("multi-worker-mirrored", "parameter-server")
FURTHER = ("data-service", "evaluator")
POD = "/template/spec/template/spec"
JOB_SET_POD = f"/spec/replicatedJobs/0{POD}"
RUNTIME_POD = f"/spec/template/spec/replicatedJobs/0{POD}"
PATCHED_POD = f"/spec/runtimePatches/0/trainingRuntimeSpec{RUNTIME_POD.removeprefix('/spec')}"
MASTER, WORKER = (f"/spec/pytorchReplicaSpecs/{role}" for role in ("Master", "Worker"))


@dataclass(frozen=True, slots=True)
class Case:
    """A target."""

    name: str
    kind: tuple[str, str]
    """API group and kind of the object that carries the run."""
    kueue: str | None
    """What Kueue's configuration calls it (kubernetes-sigs/kueue, config/components/manager/controller_manager_config.yaml)."""
    roles: Mapping[str, str]
    """Role -> its main container; the first is one that every run has, but for elastic ones and for a chief."""
    shapes: tuple[str, ...]
    """Of the topologies that it carries, as ``drawn_topologies`` calls them."""
    roles_of_shape: Mapping[str, Mapping[str, str]] = field(default_factory=dict, kw_only=True)
    """Shape -> its roles, where they are called otherwise."""
    further: tuple[str, ...] = field(default=(), kw_only=True)
    """Further roles that it carries beside any shape."""
    orders_start: bool = field(default=False, kw_only=True)
    """Whether a further role can be ready first, or wait for the ranks."""
    statuses: Statuses
    run: Data = field(default_factory=dict)
    """Changes of the example run with which it compiles here, with a pod in each role."""
    fewest_roles: Data = field(default_factory=dict)
    """Changes of that run's topology that leave as few roles as there can be."""
    changes: tuple[tuple[str, str, str, Any], ...] = ()
    """Of targets that number their pods: work, kind, pointer, and a value with which the run means something else."""
    place_variables: tuple[str, ...] = ()
    """Beginnings of the names of variables by which its controller tells a pod its place, where no other target's has them."""
    gang: str | None = None
    """The gang scheduler that it takes, where it takes one."""
    mpi: tuple[str, ...] = ("openmpi",)
    """Implementations of MPI whose ranks it starts."""
    longest_name: int = 63
    """Characters of the longest name that its object can have."""
    job_per_role: bool = False
    """Whether pods are called after a Job of their role, too: their names are the longest that the run's leads to."""
    host_network: bool = True
    """Whether the plan can give a run ports of its own."""
    hosts_are_known: bool = True
    """Whether the plan knows by which names pods find each other."""

    too_old: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Shape -> the known minor releases of its operator that do not carry it yet."""

    def roles_of(self, shape: str) -> Mapping[str, str]:
        """Role -> its main container, of a shape of topology."""
        return self.roles_of_shape.get(shape, self.roles)

    @property
    def operator(self) -> str | None:
        """By the name that profiles know."""
        operator = TARGETS[self.name].operator
        return operator.name if operator else None

    def carries(self, shape: str, cluster: Data) -> bool:
        """Whether it carries a shape of topology with what a profile has."""
        operators, needed = cluster["operators"], {str(operator.name) for operator in TARGETS[self.name].depends_on}
        needed |= {self.operator} if self.operator else set()
        if shape not in self.shapes or not needed <= operators.keys():
            return False
        if self.gang not in (None, cluster.get("scheduling", {}).get("gang")):
            return False
        old = self.too_old.get(shape)
        return not old or not operators[self.operator]["version"].startswith(old)


_ALL = (
    Case(
        name="indexed-job",
        kind=("batch", "Job"),
        kueue="batch/job",
        roles={"node": "trainer"},
        shapes=("ddp", *SHARDED, "xgboost", "independent", "jax"),
        statuses={
            "new": ({}, *NO_VERDICT),
            "runs": ({"active": 4, "ready": 4}, *NO_VERDICT),
            "waits in a queue": QUEUED,
            "admitted, and runs": (conditions("-Suspended"), *NO_VERDICT),
            "complete": (conditions("-Suspended SuccessCriteriaMet Complete"), "Healthy", "Complete: about Complete"),
            "failed": (conditions("FailureTarget Failed"), "Degraded", "Failed: about Failed"),
        },
        changes=(
            ("trainer", "Job", "/spec/template/spec/containers/0/env/0/value", "/etc/other.json"),
            ("trainer", "Job", "/spec/template/spec/subdomain", "elsewhere"),
            ("trainer", "Job", "/spec/completions", 3),
            ("trainer", "Service", "/spec/selector", {"app": "other"}),
            ("torchrun", "Job", "/spec/template/spec/containers/0/env/0/value", "3"),
        ),
    ),
    Case(
        name="job-set",
        kind=("jobset.x-k8s.io", "JobSet"),
        kueue="jobset.x-k8s.io/jobset",
        roles={"node": "trainer"},
        shapes=("ddp", *SHARDED, "xgboost", "independent", "jax"),
        statuses={
            "new": ({"restarts": 0}, *NO_VERDICT),
            "waits in a queue": QUEUED,
            "admitted, and runs": (conditions("-Suspended"), *NO_VERDICT),
            "complete": (conditions("Completed"), "Healthy", "Completed: about Completed"),
            "failed": (conditions("Failed"), "Degraded", "Failed: about Failed"),
        },
        changes=(
            ("trainer", "JobSet", "/spec/network/subdomain", "elsewhere"),
            ("trainer", "JobSet", "/spec/replicatedJobs/0/name", "worker"),
            ("trainer", "JobSet", f"{JOB_SET_POD}/containers/0/volumeMounts/3/mountPath", "/d"),
            ("torchrun", "JobSet", f"{JOB_SET_POD}/containers/0/env/2/value", "other"),
        ),
        job_per_role=True,
        further=FURTHER,
        orders_start=True,
    ),
    Case(
        name="pytorch-job",
        kind=("kubeflow.org", "PyTorchJob"),
        kueue="kubeflow.org/pytorchjob",
        roles={"master": "pytorch", "worker": "pytorch"},
        fewest_roles={"nodes": 1},
        shapes=("ddp", *SHARDED, "elastic"),
        statuses=KUBEFLOW,
        changes=(
            ("trainer", "PyTorchJob", f"{WORKER}/replicas", 4),
            ("trainer", "PyTorchJob", f"{WORKER}/template/spec/containers/0/image", "other"),
            ("trainer", "PyTorchJob", f"{MASTER}/template/spec/volumes/0/emptyDir", {}),
            ("torchrun", "PyTorchJob", "/spec/nprocPerNode", "4"),
            ("torchrun", "PyTorchJob", f"{MASTER}/template/spec/containers/0/ports/0/containerPort", 23456),
        ),
    ),
    Case(
        name="train-job",
        kind=("trainer.kubeflow.org", "TrainJob"),
        kueue="trainer.kubeflow.org/trainjob",
        roles={"node": "node"},
        shapes=("ddp", *SHARDED, "mpi", "bare-mpi", "horovod", "xgboost", "jax"),
        statuses={
            "new": ({}, *NO_VERDICT),
            "waits in a queue": QUEUED,
            "runs": (conditions("-Suspended"), *NO_VERDICT),
            "complete": (conditions("-Suspended Complete"), "Healthy", "Complete: about Complete"),
            "failed": (conditions("-Suspended Failed"), "Degraded", "Failed: about Failed"),
        },
        changes=(
            ("trainer", "TrainJob", "/spec/trainer/command", ["train"]),
            ("trainer", "TrainJob", "/spec/trainer/numNodes", 5),
            ("trainer", "TrainJob", "/spec/runtimeRef/name", "other"),
            ("trainer", "TrainingRuntime", f"{RUNTIME_POD}/enableServiceLinks", True),
            ("torchrun", "TrainJob", "/spec/trainer/numProcPerNode", 1),
            ("torchrun", "TrainJob", "/spec/trainer/resourcesPerNode/limits/cpu", "1"),
            ("torchrun", "TrainJob", f"{PATCHED_POD}/tolerations", []),
        ),
        job_per_role=True,
        host_network=False,
        too_old={"xgboost": ("2.0", "2.1"), "jax": ("2.0", "2.1")},
        further=FURTHER,
        orders_start=True,
    ),
    Case(
        name="mpi-job",
        kind=("kubeflow.org", "MPIJob"),
        kueue="kubeflow.org/mpijob",
        roles={"launcher": "mpi", "worker": "mpi"},
        shapes=("mpi", "bare-mpi", "horovod"),
        statuses=KUBEFLOW,
        run={"topology": {"kind": "horovod", "nodes": 2, "gpus_per_node": 8}},
        mpi=("openmpi", "intel", "mpich"),
    ),
    Case(
        name="tf-job",
        kind=("kubeflow.org", "TFJob"),
        kueue="kubeflow.org/tfjob",
        roles={"worker": "tensorflow", "chief": "tensorflow"},
        shapes=("multi-worker-mirrored", "parameter-server"),
        statuses=KUBEFLOW,
        run={"topology": {"kind": "multi-worker-mirrored", "nodes": 3, "gpus_per_node": 8, "chief": True}},
        fewest_roles={"chief": False},
    ),
    Case(
        name="xgboost-job",
        kind=("kubeflow.org", "XGBoostJob"),
        kueue="kubeflow.org/xgboostjob",
        roles={"master": "xgboost", "worker": "xgboost"},
        fewest_roles={"nodes": 1},
        shapes=("xgboost",),
        statuses=KUBEFLOW,
        run={
            "topology": {"kind": "xgboost", "nodes": 2, "gpus_per_node": 0},
            "workload": {
                "kind": "boosting", "booster": {"objective": "binary:logistic"}, "rounds": 10,
                "data": {"source": "table", "format": "csv", "path": "/checkpoints/table", "label": "y"},
            },
            **dict.fromkeys(("batch", "learning_rate")),
        },
    ),
    Case(
        name="ray-job",
        kind=("ray.io", "RayJob"),
        kueue="ray.io/rayjob",
        roles={"worker": "ray-worker", "head": "ray-head"},
        shapes=("ray",),
        statuses={
            "new": ({}, "Progressing", ""),
            "starts": ({"jobDeploymentStatus": "Initializing"}, "Progressing", "Initializing: "),
            "runs": ({"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "Progressing", "Running: RUNNING"),
            "tries again": ({"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}, "Progressing", "Retrying: FAILED"),
            "waits in a queue": ({"jobDeploymentStatus": "Suspended"}, "Suspended", "Suspended: "),
            "succeeded": ({"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, "Healthy", "Complete: SUCCEEDED"),
            "stopped": ({"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, "Degraded", "Complete: STOPPED"),
            "failed": (
                {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "the driver ended with 1"},
                "Degraded", "Failed: the driver ended with 1",
            ),
            "refused": (
                {"jobDeploymentStatus": "ValidationFailed", "reason": "because"}, "Degraded", "ValidationFailed: because",
            ),
        },
        run={
            "topology": {"kind": "ray", "nodes": 2, "gpus_per_node": 8, "version": "2.52.0"}, **command("python", "train.py"),
        },
        longest_name=47,
        host_network=False,
        hosts_are_known=False,
        further=FURTHER,
    ),
    Case(
        name="volcano-job",
        kind=("batch.volcano.sh", "Job"),
        kueue=None,
        roles={"node": "trainer"},
        shapes=("ddp", *SHARDED, *BY_MPIRUN, *TENSORFLOW),
        roles_of_shape={
            **{shape: {"launcher": "mpi"} for shape in BY_MPIRUN}, **{shape: {"worker": "tensorflow"} for shape in TENSORFLOW},
        },
        mpi=("openmpi", "intel", "mpich"),
        further=FURTHER,
        orders_start=True,
        statuses={
            "new": ({}, "Progressing", ": "),
            "waits in a queue": ({"state": {"phase": "Pending"}}, "Progressing", "Pending: "),
            "runs": ({"state": {"phase": "Running"}}, "Progressing", "Running: "),
            "starts again": ({"state": {"phase": "Restarting"}, "retryCount": 1}, "Progressing", "Restarting: "),
            "complete": ({"state": {"phase": "Completed"}}, "Healthy", "Completed: "),
            "failed": ({"state": {"phase": "Failed", "message": "too often"}}, "Degraded", "Failed: too often"),
            "failed for good": ({"state": {"phase": "Terminated"}}, "Degraded", "Terminated: "),
            "stopped by hand": ({"state": {"phase": "Aborted"}}, "Degraded", "Aborted: "),
        },
        changes=(
            ("trainer", "Job", "/spec/tasks/0/replicas", 3),
            ("trainer", "Job", "/spec/tasks/0/name", "worker"),
            ("trainer", "Job", "/spec/plugins/svc", []),
            ("trainer", "Job", "/spec/minAvailable", 5),
            ("torchrun", "Job", "/spec/plugins", {"svc": ["--publish-not-ready-addresses=true"]}),
            ("torchrun", "Job", "/spec/tasks/0/template/spec/containers/0/env/0/value", "other"),
        ),
        place_variables=("VC_", "VK_"),
        gang="volcano",
    ),
)  # fmt: skip

CASES: dict[str, Case] = {case.name: case for case in _ALL}
"""What runs call a target -> the target."""

INSTALLED: dict[str, Data] = {name: {"version": operator.known[-1]} for name, operator in OPERATORS.items()}
"""Every operator, in the last known release."""

RELEASES = {"volcano": "1.15", "coscheduling": "0.33"}
"""Gang scheduler -> its last known release."""


def flags(gang: str) -> dict[str, str]:
    """Operator -> the flag with which its pods go to a gang scheduler that is called as by default."""
    names = {name: operator for name, operator in OPERATORS.items() if operator.has_gang_flag}
    if gang == "volcano":
        return dict.fromkeys(names, gang)
    words = {True: "scheduler-plugins-scheduler", False: "scheduler-plugins"}
    return {name: words[operator.flag_names_scheduler and not operator.keeps_scheduler] for name, operator in names.items()}


def in_gangs(gang: str) -> Data:
    """Changes of the example profile: a gang scheduler, and every operator with the flag for it."""
    flagged = {name: {"gang_scheduler": flag} for name, flag in flags(gang).items()}
    return {
        "scheduling": {"gang": gang, "version": RELEASES[gang]},
        "operators": {name: operator | flagged.get(name, {}) for name, operator in INSTALLED.items()},
    }


CLUSTER: Data = {"operators": INSTALLED, "namespaces": {"training": {"pod_security": "privileged"}}}
"""Changes of the example profile: every operator, and no limit to what pods may do."""


def on(target: str, **fields: Any) -> Data:
    """Changes of the example run that bring it to a target, then others; a field that is None is removed."""
    return {"target": target, **CASES[target].run, **fields}


def profile_for(target: str) -> Data:
    """Changes of the example profile with which a target can be chosen."""
    gang = CASES[target].gang
    return CLUSTER | ({"scheduling": {"gang": gang, "version": RELEASES[gang]}} if gang else {})


def carrying(shape: str) -> tuple[str, ...]:
    """Targets that carry a shape of topology."""
    return tuple(name for name, case in CASES.items() if shape in case.shapes)
