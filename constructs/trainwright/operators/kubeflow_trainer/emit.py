"""TrainJob of Kubeflow Trainer (trainer.kubeflow.org/v1alpha1), on a TrainingRuntime that runs of one shape share."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from trainwright.cluster import Cluster
from trainwright.findings.locate import at
from trainwright.handshake import Binding, EnvironmentChannel, Gang, Needs, Recovery, Refusal, Rendezvous, Role, Success
from trainwright.identity import PLACEHOLDER, short_hash
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.kueue import managed_by
from trainwright.manifest.labels import KEEP
from trainwright.manifest.provenance import Traced, Tree, Why, move_items, origin, put, repeat, transfer
from trainwright.manifest.template.life import deadline
from trainwright.manifest.template.pod import TEMPLATE_REASONS, template_reasons
from trainwright.manifest.template.scheduling import top_metadata
from trainwright.operators.base import (
    BROUGHT_BACK_ALONE,
    KnownOperator,
    Rule,
    Target,
    Template,
    further_roles,
    owned_manager,
    run_kind,
)
from trainwright.operators.job.child_jobs import BELOW_JOB_SET, INDEX_LABEL, INDEX_VARIABLE, INJECTED
from trainwright.operators.jobset.releases import JOB_SET_OPERATOR
from trainwright.operators.kubeflow_trainer import installed
from trainwright.operators.kubeflow_trainer.pods import INITIALIZERS
from trainwright.operators.kubeflow_trainer.releases import (
    DEADLINE,
    GROUP,
    PATCHES,
    POD_FIELDS,
    RUNTIME_PATCHES,
    TRAINER,
    trainer_has,
)
from trainwright.operators.kubeflow_trainer.run_rules import RULES
from trainwright.operators.kubeflow_trainer.runtime import (
    LAUNCHER,
    NODE,
    POLICIES,
    RUNTIME,
    TRAINING_RUNTIME,
    each_place,
    jobs_of,
    ordered,
    pod_at,
    runtime_name,
    training_runtime,
)
from trainwright.plan import Resolution
from trainwright.rendezvous.mpi import MPI, OPEN_MPI, Mpirun, launcher_and_workers

KIND = GroupKind(GROUP, "TrainJob")


def patches_at(place: int) -> str:
    """Where a TrainJob patches the pods of a replicated Job, from release 2.2 on."""
    return f"/spec/runtimePatches/0/trainingRuntimeSpec/template/spec/replicatedJobs/{place}/template/spec/template"


def overrides_at(place: int) -> str:
    """The same before release 2.2."""
    return f"/spec/podTemplateOverrides/{place}"


TRAINER_FIELDS = {"command": "command", "args": "args", "env": "env", "resources": "resourcesPerNode"}
"""Field of the container -> field of ``spec.trainer``, which then has it alone; patches may not touch these (trainer #2770). The
image is in both: the Kubeflow SDK refuses to list a namespace in which a runtime has none (kubeflow 0.5, get_runtime_trainer)."""

OF_A_LAUNCHER = ("command", "args", "env")
"""Those of them that a launcher is given. The operator has image and resources for the launcher alone too, not for the workers
(trainer #4030, #2650): the runtime states them for both."""
_KNOWN_BY_NAME = "the operator knows a Job by this name"


_THEIRS = Recovery(takes_others="the runtime is installed by others, and says itself what becomes of the pods")


class TrainJob(Target):
    """A JobSet ``<name>``, made from the runtime; pod ``<name>-node-0-<i>`` is reachable as ``<name>-node-0-<i>.<name>``."""

    name = "train-job"
    title = "TrainJob"
    kind = KIND
    operator: KnownOperator | None = TRAINER
    depends_on: tuple[KnownOperator, ...] = (JOB_SET_OPERATOR,)
    kueue: str | None = "trainer.kubeflow.org/trainjob"
    queue_writes: tuple[str, ...] = ('.spec.runtimePatches[]? | select(.manager == "kueue.x-k8s.io/manager")',)
    queue_adds_by_key = True
    cannot_carry: Mapping[str, str] = {"ttl": "the operator makes its JobSet again, and trains again (trainer #3779)"}
    minimum_kubernetes = (1, 31)
    """podFailurePolicy is stable from 1.31 on (KEP-3329)."""
    templates: Mapping[str, Template] = {NODE: (RUNTIME, pod_at(0)), LAUNCHER: (RUNTIME, pod_at(1))}
    images: tuple[str, ...] = ("/spec/trainer/image",)
    shared: GroupKind | None = RUNTIME
    reserved_labels: tuple[str, ...] = ("trainer.kubeflow.org/", "jobset.sigs.k8s.io/")
    rules: tuple[Rule, ...] = RULES

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if not needs.talk:
            return Refusal("its runtimes are made for ranks that meet by torch, JAX, XGBoost or MPI", BROUGHT_BACK_ALONE)
        if needs.runtime and (refused := installed.refusal(needs, cluster)):
            return refused
        if needs.elastic:
            reason = "the operator has no elastic runs yet: spec.trainer of a TrainJob cannot change"
            return Refusal(reason, "remove topology.elastic")
        if needs.rendezvous not in POLICIES:
            reason = f"it has policies for torch, JAX, XGBoost and MPI, and none for the rendezvous {needs.rendezvous.value}"
            return Refusal(reason, "choose a target whose operator makes it")
        mpi = needs.part(MPI)
        if mpi and mpi.implementation != "openmpi":
            return Refusal("the operator writes a host file only for Open MPI (kubeflow/trainer#3712)", "write mpi: openmpi")
        ends = Success.LAUNCHER if mpi else Success.ALL_RANKS
        if needs.success is not ends:
            reason = f"the run is complete when {ends.value}, not when {needs.success.value}"
            return Refusal(reason, "choose a target whose operator knows that rule")
        binding = _launched(needs, mpi) if mpi else _indexed(needs)
        if needs.runtime:  # whose rules nobody here has made
            binding = binding._replace(runtime=needs.runtime, recovery=_THEIRS, guarantees=frozenset())
        further = further_roles(needs, "{name}-{role}-0-{index}.{name}", INDEX_LABEL)
        names = (f"{{name}}-{role.name}-0-{role.pods - 1}-abcde" for role in further)
        return binding._replace(
            roles=(*binding.roles, *further),
            reserved_roles=dict.fromkeys((*INITIALIZERS, *((LAUNCHER,) if mpi else ())), _KNOWN_BY_NAME),
            generated_names=(*binding.generated_names, *names),
        )

    def templates_of(self, binding: Binding) -> Mapping[str, Template]:
        return {role.name: (RUNTIME, pod_at(place)) for place, role in enumerate(ordered(binding))}

    def lower(self, resolution: Resolution) -> list[Tree]:
        runtime = installed.stand_in(resolution) if resolution.binding.runtime else training_runtime(resolution)
        return [runtime, _train_job(resolution)]

    def finish(self, resolution: Resolution, objects: list[Traced]) -> list[Traced]:
        """What is this run's own goes to the TrainJob; the runtime that is left is called after its content. An installed one is
        not the run's to write.
        """
        finished = [(deepcopy(manifest), dict(answers)) for manifest, answers in objects]
        runtime, job = (next(one for one in finished if GroupKind.of(one[0]) == kind) for kind in (RUNTIME, KIND))
        if resolution.binding.runtime:
            finished.remove(runtime)
            runtime = installed.without_theirs(runtime, resolution.binding.runtime, len(jobs_of(resolution)))
        jobs = jobs_of(resolution)
        lead = resolution.binding.roles[0]
        trains = f"{pod_at(next(place for place, (_, role) in enumerate(jobs) if role is lead))}/spec/containers/0"
        mpi = resolution.needs.part(MPI)
        workers = _place_of_workers(jobs, lead) if mpi and mpi.launcher_holds_ranks and not resolution.binding.runtime else None
        of_both = mpi is not None and resolution.binding.runtime is None
        if not of_both:
            repeat(runtime, f"{trains}/image", job, "/spec/trainer/image")
        moved = OF_A_LAUNCHER if of_both else TRAINER_FIELDS
        if at(runtime[0], f"{trains}/resources/claims"):  # the operator takes requests and limits of a TrainJob, and nothing else
            moved = OF_A_LAUNCHER
        for field in moved:
            if field == "env" and workers is not None:
                _shared_variables(runtime, f"{trains}/env", f"{pod_at(workers)}/spec/containers/0/env", job)
            else:
                transfer(runtime, f"{trains}/{field}", job, f"/spec/trainer/{TRAINER_FIELDS[field]}")
        for place, (_, role) in enumerate(jobs):
            _patch(resolution, runtime, job, place, role)
        if not resolution.binding.runtime:
            _name(runtime, job)
        return finished

    kinds: tuple[ObjectKind, ...] = (
        TRAINING_RUNTIME,
        run_kind(
            KIND,
            reasons={
                "/spec/runtimeRef": "the runtime, in the foundation of the namespace",
                "/spec/initializer": "what the runtime fetches for this run before its pods start",
                "/spec/trainer": "without this part the operator would set no variables at all (trainer pkg/runtime/…/torch.go)",
                "/spec/trainer/env": TEMPLATE_REASONS["containers/0/env"],
                "/spec/trainer/resourcesPerNode": TEMPLATE_REASONS["containers/0/resources"],
                "/spec/runtimePatches": "what only this run's pods have, on top of the runtime",
                "/spec/runtimePatches/0/manager": "whose patch it is: queue controllers add their own next to it",
                "/spec/podTemplateOverrides": "what only this run's pods have, on top of the runtime",
                **each_place(lambda place: template_reasons(patches_at(place))),
                **each_place(lambda place: template_reasons(overrides_at(place))),
            },
            owned=(
                Owned(r"/spec/suspend", "the start of the run", "remove it: a queue controller suspends and resumes on its own"),
                Owned(r"/spec/runtimeRef.*", "the runtime of the run", "remove it: it follows from the run"),
                owned_manager("/spec"),
                Owned(r"/spec/trainer.*", "what the pods run", "change image, workload, env, resources or topology"),
                Owned(r"/spec/(runtimePatches|podTemplateOverrides).*", "what only this run's pods have", "use overrides.pod"),
                Owned(
                    r"/spec/initializer.*",
                    "the preparation of data",
                    "use initializer of a run on an installed runtime, or prepare",
                ),
            ),
            free=("/spec/activeDeadlineSeconds",),
        ),
    )


TARGET: Target = TrainJob()


def _indexed(needs: Needs) -> Binding:
    return Binding(
        roles=(Role(name=NODE, pods=needs.nodes, host="{name}-node-0-{index}.{name}", container=NODE),),
        rank_zero_host="{name}-node-0-0.{name}",
        fixed_port=True,
        finds_container=True,
        node_index_env=INDEX_VARIABLE,
        index_field=INDEX_LABEL,
        injects={**INJECTED, **_INJECTED[needs.rendezvous]},
        gang=Gang.OBJECTS,
        recovery=BELOW_JOB_SET,
        # below the TrainJob is a JobSet like any other: one Job, whose exit codes count, and all pods start again together
        generated_names=(f"{{name}}-node-0-{needs.nodes - 1}-abcde",),
    )


def _launched(needs: Needs, mpi: MPI) -> Binding:
    """A Job of one launcher besides that of the workers; alone, where the launcher is the only node."""
    hosts = "{name}-launcher-0-0.{name}", "{name}-node-0-{index}.{name}"
    launcher, *workers = launcher_and_workers(mpi, needs.nodes, *hosts, container=NODE, worker=NODE)
    return Binding(
        roles=(launcher if workers else launcher._replace(name=NODE), *workers),
        # The host file lists the workers first, by the order of the Jobs. Open MPI 5 goes by it; where the launcher has ranks,
        # Open MPI 4 begins there (tried with 5.0.11 and 4.1.8). Only Horovod has any there, and its ranks meet over MPI itself.
        rank_zero_host="{name}-node-0-0.{name}" if workers else "{name}-launcher-0-0.{name}",
        finds_container=True,
        injects={**INJECTED, **_INJECTED[needs.rendezvous]},
        environment=EnvironmentChannel.LAUNCHER,
        of_rendezvous=Mpirun(mpi),
        gang=Gang.OBJECTS,
        recovery=BELOW_JOB_SET,
        # As above: the launcher ends with the code of the rank that failed first, and its Job has a failure policy. Ranks are
        # tied to the launcher's supervisor, which has them save before mpirun ends them.
        generated_names=("{name}-launcher-0-0-abcde", *(f"{{name}}-node-0-{role.pods - 1}-abcde" for role in workers)),
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
    Rendezvous.JAX_COORDINATOR: {
        "JAX_COORDINATOR_ADDRESS": "the first pod's name and port 29500",
        "JAX_NUM_PROCESSES": "numNodes",
        "JAX_PROCESS_ID": "the pod's completion index",
    },
}
"""Variables of each policy; the operator's webhook refuses a TrainJob that sets them (pkg/runtime/framework/plugins)."""


def _train_job(resolution: Resolution) -> Tree:
    needs = resolution.needs
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": top_metadata(resolution),
        "spec": {
            "runtimeRef": _runtime_ref(resolution),
            **installed.initializer(resolution),
            "trainer": {
                "numNodes": Why(needs.nodes, "run:/topology/nodes", "pods of the run"),
                "numProcPerNode": Why(
                    needs.processes_per_node, "run:/topology", "a number: auto counts CPUs where it finds no GPU (trainer #3974)"
                ),
            },
            **managed_by(resolution),
            **(deadline(resolution.run) if trainer_has(DEADLINE, resolution) else {}),
            **_patches(resolution),
        },
    }


def _runtime_ref(resolution: Resolution) -> Tree:
    if resolution.binding.runtime:
        return installed.runtime_ref(resolution)
    return {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": runtime_name(resolution)}


def _patches(resolution: Resolution) -> Tree:
    """An empty patch of the pods of each Job, in the words of the operator's release."""
    names = [name for name, _ in jobs_of(resolution)]
    if not trainer_has(PATCHES, resolution):
        return {}  # 2.0 has podSpecOverrides, of few fields: all of a pod is the runtime's
    if not trainer_has(RUNTIME_PATCHES, resolution):
        return {"podTemplateOverrides": [{"targetJobs": [{"name": name}]} for name in names]}
    template = {"spec": {"replicatedJobs": [{"name": name} for name in names]}}
    return {"runtimePatches": [{"manager": "trainwright.dev/compiler", "trainingRuntimeSpec": {"template": template}}]}


def _patch(resolution: Resolution, runtime: Traced, job: Traced, place: int, role: Role) -> None:
    """Move what is the run's own of the pods of one Job; of a further role also its variables, which name pods of this run."""
    pod = pod_at(place)
    there = patches_at(place) if trainer_has(RUNTIME_PATCHES, resolution) else overrides_at(place)
    for field, feature in POD_FIELDS.items():
        if not trainer_has(feature, resolution):
            continue
        if field == "/spec/containers/0/volumeMounts":
            _container(runtime, f"{pod}/spec/containers/0", job, f"{there}/spec/containers", role)
        else:
            transfer(runtime, f"{pod}{field}", job, f"{there}{field}")
    if not at(runtime[0], f"{pod}/metadata"):
        del at(runtime[0], pod)["metadata"]


def _container(runtime: Traced, pointer: str, job: Traced, containers: str, role: Role) -> None:
    """Mounts, but for those of a volume after its first: a patch tells mounts apart by the volume's name."""
    mounts, env = at(runtime[0], f"{pointer}/volumeMounts") or [], f"{pointer}/env"
    if not mounts and not role.further:
        return
    names = [mount["name"] for mount in mounts]
    first = {index for index, name in enumerate(names) if names.index(name) == index}
    put(job[0], containers, [{"name": role.container}])
    if mounts:
        move_items(runtime, f"{pointer}/volumeMounts", job, f"{containers}/0/volumeMounts", first)
    if role.further:
        transfer(runtime, env, job, f"{containers}/0/env")


def _place_of_workers(jobs: list[tuple[str, Role]], launcher: Role) -> int | None:
    return next((place for place, (name, role) in enumerate(jobs) if name == NODE and role is not launcher), None)


def _shared_variables(runtime: Traced, launchers: str, workers: str, job: Traced) -> None:
    """Move a launcher's variables, but for those that would be wrong in a worker.

    Where the launcher is a node, the operator sets those of the TrainJob in the workers too, over their own (``Trainer`` in
    pkg/runtime/framework/plugins/jobset/builder.go, 2.1 to 2.3). So the runtime keeps what a worker has with another value, such
    as the role, and what is stated for the launcher alone.
    """
    entries, theirs = at(runtime[0], launchers), {entry["name"]: entry for entry in at(runtime[0], workers) or []}

    def is_shared(index: int, entry: Tree) -> bool:
        sources = (origin(runtime[1], f"{launchers}/{index}/{key}")[0] for key in entry)
        own = any(source.startswith(("run:/roles/", "run:/overrides/")) for source in sources)
        return theirs.get(entry["name"], entry) == entry and not own

    shared = {index for index, entry in enumerate(entries) if is_shared(index, entry)}
    move_items(runtime, launchers, job, "/spec/trainer/env", shared)


def _name(runtime: Traced, job: Traced) -> None:
    manifest = runtime[0]
    kind = manifest["metadata"]["name"].removesuffix(PLACEHOLDER)
    content = {**manifest, "metadata": {key: value for key, value in manifest["metadata"].items() if key != "name"}}
    manifest["metadata"]["name"] = job[0]["spec"]["runtimeRef"]["name"] = kind + short_hash(content)
    manifest["metadata"].setdefault("annotations", {}).update(KEEP)  # no part of its content
