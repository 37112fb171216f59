"""TrainJob of Kubeflow Trainer (trainer.kubeflow.org/v1alpha1), on a TrainingRuntime that runs of one shape share."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from trainwright.cluster.addons import release
from trainwright.findings.locate import at
from trainwright.handshake import (
    Binding,
    EnvironmentChannel,
    Gang,
    Guarantee,
    Needs,
    OperatorName,
    Refusal,
    Rendezvous,
    Role,
    Success,
)
from trainwright.identity import PLACEHOLDER
from trainwright.manifest import volumes
from trainwright.manifest.pod import CONSTANTS, template_constants
from trainwright.manifest.provenance import Owned, Settled, Tree, Why, move_items, put, transfer
from trainwright.manifest.scheduling import top_labels
from trainwright.plan import Resolution
from trainwright.plan.checkpoint import short_hash
from trainwright.target.base import JOB_SET, Releases
from trainwright.target.index import INJECTED
from trainwright.target.mpi import HOSTFILE, OPEN_MPI, SHARE, SSHD
from trainwright.target.train_job import runtime as train_runtime
from trainwright.target.train_job.runtime import (
    LAUNCHER,
    NODE,
    POLICIES,
    RUNTIME,
    each_place,
    jobs_of,
    pod_at,
    runtime_name,
    training_runtime,
)
from trainwright_trainer.contract.layout import RENDEZVOUS_PORT, ROLE_ENV

KIND = "TrainJob"


def patches_at(place: int) -> str:
    """Where a TrainJob patches the pods of a replicated Job, from release 2.2 on."""
    return f"/spec/runtimePatches/0/trainingRuntimeSpec/template/spec/replicatedJobs/{place}/template/spec/template"


def overrides_at(place: int) -> str:
    """The same before release 2.2."""
    return f"/spec/podTemplateOverrides/{place}"


TRAINER = {"image": "image", "command": "command", "env": "env", "resources": "resourcesPerNode"}
"""Field of the container -> field of ``spec.trainer``; patches may not touch these (trainer #2770)."""

OF_A_LAUNCHER = ("command", "env")
"""Those of them that a launcher is given. The operator has image and resources for the launcher alone too, not for the workers
(trainer #4030, #2650): the runtime states them for both."""

POD_FIELDS: Mapping[str, tuple[int, int]] = {
    "/metadata/labels": (2, 1),
    "/metadata/annotations": (2, 1),
    "/spec/terminationGracePeriodSeconds": (2, 3),
    "/spec/nodeSelector": (2, 1),
    "/spec/affinity": (2, 1),
    "/spec/tolerations": (2, 1),
    "/spec/serviceAccountName": (2, 1),
    "/spec/imagePullSecrets": (2, 1),
    "/spec/containers/0/volumeMounts": (2, 1),
    "/spec/volumes": (2, 1),
}
"""What a TrainJob patches of its pods, and since which release it may (PodSpecPatch in trainjob_types.go; the grace period by
trainer #3324). Everything else is the runtime's: two runs that differ in nothing else share it."""


RELEASES = Releases((2, 1), (2, 3))


class TrainJob:
    """A JobSet ``<name>``, made from the runtime; pod ``<name>-node-0-<i>`` is reachable as ``<name>-node-0-<i>.<name>``."""

    name = "train-job"
    title = "TrainJob"
    operator: OperatorName | None = "trainer"
    releases: Releases | None = RELEASES
    relies_on: Mapping[OperatorName, Releases] = {"jobset": JOB_SET}
    kueue = "trainer.kubeflow.org/trainjob"
    minimum_kubernetes = (1, 31)
    """podFailurePolicy is stable from 1.31 on (KEP-3329)."""
    templates: Mapping[str, tuple[str, str]] = {NODE: (RUNTIME, pod_at(0)), LAUNCHER: (RUNTIME, pod_at(1))}
    mutable: Mapping[str, tuple[str, ...]] = {}
    shared_kind: str | None = RUNTIME

    def bind(self, needs: Needs) -> Binding | Refusal:
        if needs.elastic:
            reason = "the operator has no elastic runs yet: its JobSet has a fixed number of pods"
            return Refusal(reason, "remove topology.elastic")
        if needs.rendezvous not in POLICIES:
            reason = f"it has policies for torch, XGBoost and MPI, which makes no rendezvous of kind {needs.rendezvous.value}"
            return Refusal(reason, "choose a target whose operator makes it")
        if needs.mpi and needs.mpi.implementation != "openmpi":
            return Refusal("the operator writes a host file for Open MPI alone (kubeflow/trainer#3712)", "write mpi: openmpi")
        ends = Success.LAUNCHER if needs.mpi else Success.ALL_RANKS
        if needs.success is not ends:
            reason = f"the run is complete when {ends.value}, not when {needs.success.value}"
            return Refusal(reason, "choose a target whose operator knows that rule")
        return _launched(needs) if needs.mpi else _indexed(needs)

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [*volumes.configuration(resolution), training_runtime(resolution), _train_job(resolution)]

    def settle(self, resolution: Resolution, objects: list[Settled]) -> list[Settled]:
        """What is this run's own goes to the TrainJob; the runtime that is left is called after its content."""
        settled = [(deepcopy(manifest), dict(answers)) for manifest, answers in objects]
        runtime, job = (next(part for part in settled if part[0]["kind"] == kind) for kind in (RUNTIME, KIND))
        jobs = jobs_of(resolution)
        trains = f"{pod_at(len(jobs) - 1)}/spec/containers/0"
        for field in TRAINER if resolution.needs.mpi is None else OF_A_LAUNCHER:
            transfer(runtime, f"{trains}/{field}", job, f"/spec/trainer/{TRAINER[field]}")
        for place in range(len(jobs)):
            _patch(resolution, runtime, job, place)
        _name(runtime, job)
        return settled

    constants: Mapping[str, str] = {
        **volumes.CONSTANTS,
        **train_runtime.CONSTANTS,
        KIND: "the run itself",
        f"{KIND}/metadata": "run name and identity hash: an edit that would change a pod is a new object",
        f"{KIND}/metadata/labels": "labels of the run's objects; free to change",
        f"{KIND}/spec/runtimeRef": "the runtime, in the foundation of the namespace",
        f"{KIND}/spec/trainer": "without this part the operator would set no variables at all (trainer pkg/runtime/…/torch.go)",
        f"{KIND}/spec/trainer/env": CONSTANTS["containers/0/env"],
        f"{KIND}/spec/trainer/resourcesPerNode": CONSTANTS["containers/0/resources"],
        f"{KIND}/spec/runtimePatches": "what only this run's pods have, on top of the runtime",
        f"{KIND}/spec/runtimePatches/0/manager": "whose patch it is: queue controllers add their own beside it",
        f"{KIND}/spec/podTemplateOverrides": "what only this run's pods have, on top of the runtime",
        **each_place(lambda place: template_constants(f"{KIND}{patches_at(place)}")),
        **each_place(lambda place: template_constants(f"{KIND}{overrides_at(place)}")),
    }

    owned: Mapping[str, tuple[Owned, ...]] = {
        "ConfigMap": volumes.OWNED,
        RUNTIME: train_runtime.OWNED,
        KIND: (
            Owned(r"/spec/suspend", "the start of the run", "remove it: a queue controller suspends and resumes on its own"),
            Owned(r"/spec/(runtimeRef.*|managedBy)", "the runtime of the run", "remove it: it follows from the run"),
            Owned(r"/spec/trainer.*", "what the pods run", "change image, workload, env, resources or topology"),
            Owned(r"/spec/(runtimePatches|podTemplateOverrides).*", "what only this run's pods have", "use overrides.pod"),
            Owned(r"/spec/initializer.*", "the preparation of data", "remove it: it would wait for a gang that waits for it"),
        ),
    }


def _indexed(needs: Needs) -> Binding:
    return Binding(
        roles=(Role(name=NODE, pods=needs.nodes, host="{name}-node-0-{index}.{name}", container=NODE),),
        rank_zero_host="{name}-node-0-0.{name}",
        rendezvous_port=RENDEZVOUS_PORT,
        fixed_port=True,
        node_index_env="JOB_COMPLETION_INDEX",
        injects={**INJECTED, **_INJECTED[needs.rendezvous]},
        gang=Gang.RUNTIME,
        # below the TrainJob is a JobSet like any other: one Job, whose exit codes count, and all pods start again together
        guarantees=frozenset(Guarantee),
        generated_names=(f"{{name}}-node-0-{needs.nodes - 1}-abcde",),
    )


def _launched(needs: Needs) -> Binding:
    """A Job of one launcher beside that of the workers; alone, where the launcher is the only node."""
    holds = needs.mpi is not None and needs.mpi.launcher_holds_ranks
    others = needs.nodes - holds
    share, alone = None if holds else SHARE, not others
    launcher = Role(NODE if alone else LAUNCHER, pods=1, host="{name}-launcher-0-0.{name}", container=NODE, share=share)
    workers = Role(NODE, pods=others, host="{name}-node-0-{index}.{name}", container=NODE)
    return Binding(
        roles=(launcher,) if alone else (launcher, workers),
        # The host file lists the workers first, by the order of the Jobs. Open MPI 5 goes by it; where the launcher has ranks,
        # Open MPI 4 begins there (tried with 5.0.11 and 4.1.8). Only Horovod has any there, and its ranks meet over MPI itself.
        rank_zero_host="{name}-launcher-0-0.{name}" if alone else "{name}-node-0-0.{name}",
        rendezvous_port=RENDEZVOUS_PORT,
        node_index_env=None,  # ranks are numbered by mpirun, from the host file
        injects={**INJECTED, **_INJECTED[needs.rendezvous]},
        environment=EnvironmentChannel.LAUNCHER,
        role_env=ROLE_ENV,
        hostfile=HOSTFILE,
        sshd=SSHD,
        gang=Gang.RUNTIME,
        # As above: the launcher ends with the code of the rank that failed first, and its Job has a failure policy. Ranks are
        # tied to the launcher's supervisor, which has them save before mpirun ends them.
        guarantees=frozenset(Guarantee),
        generated_names=("{name}-launcher-0-0-abcde", *(() if alone else (f"{{name}}-node-0-{others - 1}-abcde",))),
    )


_INJECTED: Mapping[Rendezvous, Mapping[str, str]] = {
    Rendezvous.STATIC: {
        "PET_NNODES": "numNodes",
        "PET_NPROC_PER_NODE": "numProcPerNode",
        "PET_NODE_RANK": "the pod's completion index",
        "PET_MASTER_ADDR": "the first pod's name",
        "PET_MASTER_PORT": "29500",
    },
    Rendezvous.DMLC_TRACKER: {
        "DMLC_TRACKER_URI": "the first pod's name",
        "DMLC_TRACKER_PORT": "29500",
        "DMLC_TASK_ID": "the pod's completion index",
        "DMLC_NUM_WORKER": "the number of pods: there is one process in each",
    },
    Rendezvous.MPI_HOSTFILE: OPEN_MPI,
}
"""Variables of each policy; the operator's webhook refuses a TrainJob that sets them (pkg/runtime/framework/plugins)."""


def trainer_release(resolution: Resolution) -> tuple[int, int]:
    """Of the operator in the cluster; the newest known one where the profile names none, which is a finding of its own."""
    installed = resolution.cluster.operators.get("trainer")
    return RELEASES.last if installed is None else release(installed.version)


def _train_job(resolution: Resolution) -> Tree:
    plan, needs = resolution.plan, resolution.needs
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": KIND,
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": top_labels(resolution)},
        "spec": {
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": RUNTIME,
                "name": runtime_name(resolution),
            },
            "trainer": {
                "numNodes": Why(needs.nodes, "run:/topology/nodes", "pods of the run"),
                "numProcPerNode": Why(
                    needs.processes_per_node, "run:/topology", "a number: auto counts CPUs where it finds no GPU (trainer #3974)"
                ),
            },
            **_patches(resolution),
        },
    }


def _patches(resolution: Resolution) -> Tree:
    """An empty patch of the pods of each Job, in the words of the operator's release."""
    names = [name for name, _ in jobs_of(resolution)]
    if trainer_release(resolution) < (2, 2):
        return {"podTemplateOverrides": [{"targetJobs": [{"name": name}]} for name in names]}
    template = {"spec": {"replicatedJobs": [{"name": name} for name in names]}}
    return {"runtimePatches": [{"manager": "trainwright.dev/compiler", "trainingRuntimeSpec": {"template": template}}]}


def _patch(resolution: Resolution, runtime: Settled, job: Settled, place: int) -> None:
    """Move what is the run's own of the pods of one Job."""
    installed, pod = trainer_release(resolution), pod_at(place)
    there = overrides_at(place) if installed < (2, 2) else patches_at(place)
    for field, since in POD_FIELDS.items():
        if since > installed:
            continue
        if field == "/spec/containers/0/volumeMounts":
            _mounts(runtime, f"{pod}{field}", job, f"{there}/spec/containers")
        else:
            transfer(runtime, f"{pod}{field}", job, f"{there}{field}")
    if not at(runtime[0], f"{pod}/metadata"):
        del at(runtime[0], pod)["metadata"]


def _mounts(runtime: Settled, pointer: str, job: Settled, containers: str) -> None:
    """The first mount of each volume: a patch tells mounts apart by the volume's name, so a second one stays in the runtime."""
    names = [mount["name"] for mount in at(runtime[0], pointer)]
    first = {index for index, name in enumerate(names) if names.index(name) == index}
    put(job[0], containers, [{"name": NODE}])
    move_items(runtime, pointer, job, f"{containers}/0/volumeMounts", first)


def _name(runtime: Settled, job: Settled) -> None:
    manifest = runtime[0]
    kind = manifest["metadata"]["name"].removesuffix(PLACEHOLDER)
    content = {**manifest, "metadata": {key: value for key, value in manifest["metadata"].items() if key != "name"}}
    manifest["metadata"]["name"] = job[0]["spec"]["runtimeRef"]["name"] = kind + short_hash(content)
