"""The JobSet of a TrainJob, and what is beside it (kubeflow/trainer at v2.3).

pkg/runtime/core/trainingruntime.go, and pkg/runtime/framework/plugins/{torch,xgboost,jax,mpi,coscheduling,volcano,jobset}.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from trainwright.manifest.gang import SCHEDULERS
from trainwright.objects.requests import requested
from trainwright.operators.jobset.pods import pods as pods_of_job_set
from trainwright.operators.operator import Around, Made, Size, Tree, child
from trainwright.rendezvous.mpi import HOSTFILE

ANCESTOR, NODE, LAUNCHER = "trainer.kubeflow.org/trainjob-ancestor-step", "node", "launcher"
INITIALIZERS = ("dataset-initializer", "model-initializer")
"""Jobs that fetch before the others start, by name and by label; their containers have that name too."""
PORT = 29500
_INDEX = {"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}


def pods(manifest: Mapping[str, Any], around: Around) -> Made:
    """The JobSet, and what is beside it."""
    runtime = merged(manifest, _runtime_of(manifest, around))
    name, template, policy = manifest["metadata"]["name"], runtime["spec"]["template"], runtime["spec"].get("mlPolicy") or {}
    spec, trainer = template["spec"], manifest["spec"].get("trainer") or {}
    mpi = _run_by_mpi(name, spec, policy["mpi"], trainer, manifest) if "mpi" in policy else []
    if "trainer" in manifest["spec"] and "mpi" not in policy:
        for job in spec["replicatedJobs"]:
            if _trains(job):
                _tell(name, job, policy, trainer)
    group = _pod_group(manifest, template, runtime["spec"].get("podGroupPolicy") or {})
    own = template.get("metadata") or {}
    metadata = {field: own[field] for field in ("labels", "annotations") if own.get(field)}
    job_set = child(manifest, "JobSet", name, "jobset.x-k8s.io/v1alpha2", metadata=metadata, spec=spec)
    made = pods_of_job_set(job_set, around)
    return made._replace(objects=[_snapshot(manifest, around), *mpi, *group, job_set, *made.objects])


def merged(manifest: Mapping[str, Any], runtime: Mapping[str, Any]) -> Tree:
    """The runtime with what a TrainJob says in its place: patches, numbers of pods, and the container that trains."""
    whole: Tree = copy.deepcopy(dict(runtime))
    spec, policy = whole["spec"]["template"]["spec"], whole["spec"].get("mlPolicy") or {}
    trainer = manifest["spec"].get("trainer") or {}
    for patch in _patches_of(manifest["spec"]):
        _merge(spec, patch)
    for job in spec["replicatedJobs"]:
        _count(job, policy, trainer)
        _train(job, policy, trainer)
        _initialize(job, manifest["spec"].get("initializer") or {})
    return whole


def resized(manifest: Mapping[str, Any], around: Around, size: Size) -> Tree:
    job: Tree = copy.deepcopy(dict(manifest))
    policy = _runtime_of(manifest, around)["spec"].get("mlPolicy") or {}
    trainer = job["spec"].setdefault("trainer", {})
    trainer.setdefault("numNodes", policy.get("numNodes", 1))
    size.fewer(trainer, "numNodes")
    if size.processes and ("numProcPerNode" in trainer or "mpi" in policy):
        trainer["numProcPerNode"] = size.processes
    return job


def _runtime_of(manifest: Mapping[str, Any], around: Around) -> Mapping[str, Any]:
    reference = manifest["spec"]["runtimeRef"]
    wanted = reference.get("kind", "ClusterTrainingRuntime"), reference["name"]
    for one in around.objects:
        if (one["kind"], one["metadata"]["name"]) == wanted:
            return one
    raise LookupError(f"there is no {wanted[0]} {wanted[1]}")


def _snapshot(manifest: Mapping[str, Any], around: Around) -> Tree:
    """A copy of the runtime, which is read in its place from then on. The real one has uids, times and managed fields too."""
    text = yaml.safe_dump(dict(_runtime_of(manifest, around)))
    return child(manifest, "ConfigMap", f"{manifest['metadata']['name']}-runtime-snapshot", data={"runtime": text})


def _trains(job: Tree) -> bool:
    """Whether a replicated Job is the one that ``spec.trainer`` is about."""
    return bool((job["template"].get("metadata") or {}).get("labels", {}).get(ANCESTOR) == "trainer")


def _count(job: Tree, policy: Tree, trainer: Mapping[str, Any]) -> None:
    """Pods of a Job: launchers as many as the runtime has nodes, and one node less where the launcher is one."""
    spec = job["template"]["spec"]
    count, nodes = spec.get("parallelism", 1), trainer.get("numNodes")
    if _trains(job):
        count = policy.get("numNodes", 1) if nodes is None or "mpi" in policy else nodes
    if "mpi" in policy and nodes is not None and job["name"] == NODE:
        count = max(nodes - 1, 1) if policy["mpi"].get("runLauncherAsNode") else nodes
    spec |= {"completions": count, "parallelism": count}


def _container(job: Tree) -> Tree | None:
    """The container that trains."""
    containers = job["template"]["spec"]["template"]["spec"]["containers"]
    return next((one for one in containers if one["name"] == NODE), None)


def _train(job: Tree, policy: Tree, trainer: Mapping[str, Any]) -> None:
    """What ``spec.trainer`` says. Under MPI the workers get its variables and resources where the launcher is a node too, and
    never its image and command (trainer #4030)."""
    container, is_node_too = _container(job), policy.get("mpi", {}).get("runLauncherAsNode") and job["name"] == NODE
    if container is None or not (_trains(job) or is_node_too):
        return
    if _trains(job):
        job["replicas"] = 1
        container |= {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
    if not policy.keys() & {"xgboost", "jax"}:
        _upsert(container, "env", _variables(trainer), "name")
    if of_node := trainer.get("resourcesPerNode"):
        own = container.setdefault("resources", {})
        own |= {field: {**own.get(field, {}), **of_node[field]} for field in ("limits", "requests") if field in of_node}


def _initialize(job: Tree, initializer: Mapping[str, Any]) -> None:
    """What ``spec.initializer`` says of the container that fetches (builder.go, Initializer)."""
    step = ((job["template"].get("metadata") or {}).get("labels") or {}).get(ANCESTOR, "")
    told = initializer.get(step.removesuffix("-initializer"))
    if step not in INITIALIZERS or not told:
        return
    job["replicas"] = 1
    for container in job["template"]["spec"]["template"]["spec"]["containers"]:
        if container["name"] == step:
            where = [{"name": "STORAGE_URI", "value": told["storageUri"]}] if told.get("storageUri") is not None else []
            _upsert(container, "env", [*where, *_variables(told)], "name")
            if "secretRef" in told:
                container.setdefault("envFrom", []).append({"secretRef": dict(told["secretRef"])})


def _variables(trainer: Mapping[str, Any]) -> list[Tree]:
    """Its own, of which the operator copies no more of a reference to a field than the path."""
    variables: list[Tree] = copy.deepcopy(trainer.get("env", []))
    for one in variables:
        one.get("valueFrom", {}).get("fieldRef", {}).pop("apiVersion", None)
    return variables


def _upsert(owner: Tree, field: str, added: Sequence[Mapping[str, Any]], key: str) -> None:
    """What is there is replaced where it stands (pkg/apply/apply.go)."""
    items = owner.setdefault(field, [])
    for item in added:
        place = next((place for place, one in enumerate(items) if one[key] == item[key]), len(items))
        items[place : place + 1] = [copy.deepcopy(dict(item))]


def _tell(name: str, job: Tree, policy: Tree, trainer: Mapping[str, Any]) -> None:
    """The variables by which ranks find each other. The plugins for XGBoost and JAX write theirs before those of the run."""
    container, nodes = _container(job), job["template"]["spec"]["parallelism"]
    if container is None:
        return
    address, resources = f"{name}-node-0-0.{name}", trainer.get("resourcesPerNode") or container.get("resources") or {}
    if "torch" in policy:
        each = trainer.get("numProcPerNode", "auto")
        variables: list[Tree] = [
            {"name": "PET_NNODES", "value": str(nodes)},
            {"name": "PET_NPROC_PER_NODE", "value": str(each if each != "auto" or _gpus(resources) else _cpus(resources))},
            {"name": "PET_NODE_RANK", **_INDEX},
            {"name": "PET_MASTER_ADDR", "value": address},
            {"name": "PET_MASTER_PORT", "value": str(PORT)},
        ]
    elif "xgboost" in policy:
        variables = [
            {"name": "DMLC_TRACKER_URI", "value": address},
            {"name": "DMLC_TRACKER_PORT", "value": str(PORT)},
            {"name": "DMLC_TASK_ID", **_INDEX},
            {"name": "DMLC_NUM_WORKER", "value": str(nodes * max(_gpus(resources), 1))},
        ]
    elif "jax" in policy:
        variables = [
            {"name": "JAX_NUM_PROCESSES", "value": str(nodes)},
            {"name": "JAX_PROCESS_ID", **_INDEX},
            {"name": "JAX_COORDINATOR_ADDRESS", "value": f"{address}:{PORT}"},
        ]
    else:
        return
    _upsert(container, "env", variables, "name")
    if "torch" not in policy:
        _upsert(container, "env", _variables(trainer), "name")
    _upsert(container, "ports", [{"containerPort": PORT}], "containerPort")


def _gpus(resources: Mapping[str, Any]) -> int:
    """Of the first resource with ``gpu`` in its name."""
    for field in ("requests", "limits"):
        for name, amount in (resources.get(field) or {}).items():
            if "gpu" in name.lower() and int(amount):
                return int(amount)
    return 0


def _cpus(resources: Mapping[str, Any]) -> int:
    cpus = requested([(1, {"containers": [{"resources": resources}]})]).get("cpu", "1")
    return max(int(cpus), 1) if cpus.isdigit() else 1


def _run_by_mpi(name: str, spec: Tree, mpi: Tree, trainer: Mapping[str, Any], owner: Mapping[str, Any]) -> list[Tree]:
    """Keys and a host file, in the containers that use them: of Open MPI alone."""
    runs_ranks = (NODE, LAUNCHER) if mpi.get("runLauncherAsNode") else (NODE,)
    slots, hosts = trainer.get("numProcPerNode") or mpi.get("numProcPerNode", 1), []
    keys, hostfile = f"{name}-mpi-ssh-auth", f"{name}-mpi-hostfile"
    for job in spec["replicatedJobs"]:
        if job["name"] in runs_ranks:
            hosts += [f"{name}-{job['name']}-0-{index}.{name}" for index in range(job["template"]["spec"]["parallelism"])]
        if job["name"] not in (NODE, LAUNCHER):
            continue
        pod, container = job["template"]["spec"]["template"]["spec"], _container(job)
        _upsert(pod, "volumes", [{"name": "mpi-ssh-auth", "secret": {"secretName": keys, "defaultMode": 0o400, "items": [
            {"key": "ssh-privatekey", "path": "id_rsa", "mode": 0o640},
            {"key": "ssh-publickey", "path": "id_rsa.pub", "mode": 0o644},
            {"key": "ssh-publickey", "path": "authorized_keys", "mode": 0o644},
        ]}}], "name")  # fmt: skip
        mounts = [{"name": "mpi-ssh-auth", "mountPath": mpi.get("sshAuthMountPath", "/root/.ssh")}]
        if job["name"] == LAUNCHER:
            file = {"key": "hostfile", "path": "hostfile", "mode": 0o444}
            _upsert(pod, "volumes", [{"name": "mpi-hostfile", "configMap": {"name": hostfile, "items": [file]}}], "name")
            mounts.append({"name": "mpi-hostfile", "mountPath": "/etc/mpi"})
        if container is None:
            continue
        _upsert(container, "volumeMounts", mounts, "mountPath")
        if job["name"] == LAUNCHER:
            _upsert(container, "env", [
                {"name": "OMPI_MCA_orte_default_hostfile", "value": HOSTFILE},
                {"name": "OMPI_MCA_orte_keep_fqdn_hostnames", "value": "true"},
                {"name": "OMPI_MCA_orte_set_default_slots", "value": str(slots)},
                {"name": "OMPI_MCA_plm_rsh_args", "value": "-o ConnectionAttempts=10"},
            ], "name")  # fmt: skip
    listed, empty = "".join(f"{host} slots={slots}\n" for host in hosts), {"ssh-privatekey": "", "ssh-publickey": ""}
    return [
        child(owner, "Secret", keys, type="kubernetes.io/ssh-auth", immutable=True, data=empty),
        child(owner, "ConfigMap", hostfile, data={"hostfile": listed}),
    ]


def _pod_group(manifest: Mapping[str, Any], template: Tree, policy: Tree) -> list[Tree]:
    """The group, which counts the pods of all Jobs; and its name in them. No scheduler: that is the runtime's to say."""
    name, jobs = manifest["metadata"]["name"], template["spec"]["replicatedJobs"]
    if not policy:
        return []
    counted = [(job["template"]["spec"]["parallelism"], job["template"]["spec"]["template"]) for job in jobs]
    spec = {
        "minMember": sum(count for count, _ in counted),
        "minResources": requested((count, pod["spec"]) for count, pod in counted),
    }
    gang = "coscheduling" if "coscheduling" in policy else "volcano"
    for _, pod in counted:
        SCHEDULERS[gang].join(pod.setdefault("metadata", {}), name)
    if gang == "coscheduling":
        spec["scheduleTimeoutSeconds"] = (policy["coscheduling"] or {}).get("scheduleTimeoutSeconds", 60)
        return [child(manifest, "PodGroup", name, SCHEDULERS[gang].api_version, spec=spec)]
    queue = template.get("metadata", {}).get("annotations", {}).get("scheduling.volcano.sh/queue-name")
    classes = [pod["spec"]["priorityClassName"] for _, pod in counted if "priorityClassName" in pod["spec"]]
    spec |= {"queue": queue} if queue else {}
    spec |= {"priorityClassName": classes[-1]} if classes else {}
    spec |= {"networkTopology": policy["volcano"]["networkTopology"]} if (policy["volcano"] or {}).get("networkTopology") else {}
    return [child(manifest, "PodGroup", name, SCHEDULERS[gang].api_version, spec=spec)]


def _patches_of(spec: Mapping[str, Any]) -> list[Tree]:
    """Of the JobSet's spec: in the words of 2.2 and later, or of 2.1."""
    patches = [patch["trainingRuntimeSpec"]["template"]["spec"] for patch in spec.get("runtimePatches") or ()]
    for override in spec.get("podTemplateOverrides") or ():
        pod = {key: value for key, value in override.items() if key != "targetJobs"}
        names = [one["name"] for one in override["targetJobs"]]
        patches.append({"replicatedJobs": [{"name": name, "template": {"spec": {"template": pod}}} for name in names]})
    return patches


_MERGED = {
    "replicatedJobs": "name", "containers": "name", "initContainers": "name", "volumes": "name", "env": "name",
    "imagePullSecrets": "name", "volumeMounts": "mountPath",
}  # fmt: skip
"""Lists that a strategic merge joins, and by which key (patchMergeKey in the Go types); any other list is replaced."""


def _merge(owner: Tree, patch: Mapping[str, Any]) -> None:
    """A strategic merge patch: what it adds to a list comes first, in its order (apimachinery, strategicpatch)."""
    for field, value in patch.items():
        if isinstance(value, Mapping):
            _merge(owner.setdefault(field, {}), value)
        elif field in _MERGED:
            items, key = owner.setdefault(field, []), _MERGED[field]
            for item in value:
                same = next((one for one in items if one[key] == item[key]), None)
                if same is None:
                    items.append(copy.deepcopy(item))
                else:
                    _merge(same, item)
        else:
            owner[field] = copy.deepcopy(value)
