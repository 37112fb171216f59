"""What controllers make of a run's objects: its pods, with the names, labels and variables that each controller adds.

Written from what the controllers do, and from nothing in the compiler:

- Job: kubernetes, pkg/controller/job/indexed_job_utils.go
- JobSet: kubernetes-sigs/jobset, pkg/controllers/jobset_controller.go
- PyTorchJob, TFJob, XGBoostJob: kubeflow/training-operator 1.9, pkg/controller.v1/{common,pytorch,tensorflow,xgboost}
- TrainJob: kubeflow/trainer 2.3, pkg/runtime/core/trainingruntime.go and pkg/runtime/framework/plugins/{torch,xgboost,mpi,jobset}
- MPIJob: kubeflow/mpi-operator 0.8, pkg/controller/mpi_job_controller.go
- RayJob: ray-project/kuberay 1.7, ray-operator/controllers/ray/common/pod.go
- Volcano Job: volcano 1.15, pkg/controllers/job/job_controller_util.go and plugins/{env,svc,distributed-framework}
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod, as the kubelet gets it."""

    role: str
    index: int
    """Among the pods of its role."""
    host: str
    """By which its peers find it."""
    labels: Data
    spec: Data
    injected: Mapping[str, str] = field(default_factory=dict)
    """What the controller sets in the container that trains."""
    annotations: Data = field(default_factory=dict)

    @property
    def container(self) -> Data:
        """The container that trains."""
        first: Data = self.spec["containers"][0]
        return first

    @property
    def environment(self) -> dict[str, Any]:
        """Variable -> text, or a reference to a Secret; of two the later one holds, and the controller's come last."""
        return {entry["name"]: self._value(entry) for entry in self.container.get("env", [])} | dict(self.injected)

    def _value(self, entry: Data) -> Any:
        if "valueFrom" not in entry:
            return entry["value"]
        source = entry["valueFrom"]
        if "fieldRef" not in source:
            return source
        path = source["fieldRef"]["fieldPath"]
        label = re.fullmatch(r"metadata\.labels\['(.+)'\]", path)
        return self.labels[label[1]] if label else f"{path} of {self.host}"


def pods(manifests: Sequence[Data], flags: Mapping[str, str | None] = MappingProxyType({})) -> list[Pod]:
    """Every pod of a run that holds ranks or starts them; ``flags`` are those for gangs, by the operator that has them."""
    return [
        _grouped(pod, manifest, flags)
        for manifest in manifests
        if (reader := READERS.get(_group_kind(manifest)))
        for pod in reader(manifest, manifests)
    ]


def _group_kind(manifest: Data) -> tuple[str, str]:
    return manifest["apiVersion"].rpartition("/")[0], manifest["kind"]


def _grouped(pod: Pod, manifest: Data, flags: Mapping[str, str | None]) -> Pod:
    """With the group and the scheduler that an operator with a flag for gangs gives to every pod, whatever the manifest says.

    - Kubeflow v1: pkg/controller.v1/control/podgroup_control.go; a scheduler in the template stays
    - MPIJob: pkg/controller/podgroup.go; a scheduler in the template is overwritten
    - RayJob: ray-operator/controllers/ray/batchscheduler; the group of coscheduling only where a label asks for it
    """
    operator, name = _FLAGGED.get(_group_kind(manifest)), manifest["metadata"]["name"]
    flag = flags.get(operator) if operator else None
    if not flag:
        return pod
    of_ray = operator == "kuberay"
    scheduler = {"scheduler-plugins": "scheduler-plugins-scheduler"}.get(flag, flag) if of_ray else flag
    if operator == "training-operator":
        scheduler = pod.spec.get("schedulerName", scheduler)
    labels, annotations = dict(pod.labels), dict(pod.annotations)
    if flag == "volcano":
        annotations["scheduling.k8s.io/group-name"] = f"ray-{name}-pg" if of_ray else name
    elif not of_ray or "ray.io/gang-scheduling-enabled" in manifest["metadata"]["labels"]:
        labels["scheduling.x-k8s.io/pod-group"] = name
    return replace(pod, spec={**pod.spec, "schedulerName": scheduler}, labels=labels, annotations=annotations)


def _pod(role: str, index: int, host: str, template: Data, labels: Data, injected: Mapping[str, str]) -> Pod:
    metadata = template.get("metadata", {})
    own = metadata.get("labels", {})
    return Pod(role, index, host, {**own, **labels}, template["spec"], injected, metadata.get("annotations", {}))


def _indexed(role: str, name: str, subdomain: str, job: Data, labels: Data, injected: Callable[[int], Data]) -> Iterator[Pod]:
    """The pods of an Indexed Job: its index is a label, and a variable unless one of that name is there."""
    assert job["completionMode"] == "Indexed"
    assert job["completions"] == job["parallelism"], "all pods at once: ranks wait for each other"
    for index in range(job["completions"]):
        added = {"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/job-completion-index": str(index), **labels}
        variables = {"JOB_COMPLETION_INDEX": str(index), **injected(index)}
        yield _pod(role, index, ".".join(filter(None, (f"{name}-{index}", subdomain))), job["template"], added, variables)


def _nothing(index: int) -> Data:
    return {}


def _job(manifest: Data, manifests: Sequence[Data]) -> Iterator[Pod]:
    if manifest["spec"].get("completionMode") != "Indexed":
        return  # a Job of the foundation, which fetches data
    name, job = manifest["metadata"]["name"], manifest["spec"]
    subdomain = job["template"]["spec"].get("subdomain", "")
    if not subdomain:
        assert not [one for one in manifests if one["kind"] == "Service"], "nobody would find a pod by it"
        yield from _indexed("node", name, subdomain, job, {}, _nothing)
        return
    (service,) = [one for one in manifests if one["kind"] == "Service" and one["metadata"]["name"] == subdomain]
    made = list(_indexed("node", name, subdomain, job, {}, _nothing))
    assert service["spec"]["publishNotReadyAddresses"], "ranks look for each other before they are ready"
    assert all(service["spec"]["selector"].items() <= pod.labels.items() for pod in made)
    yield from made


def _job_set(manifest: Data, manifests: Sequence[Data]) -> Iterator[Pod]:
    yield from _of_job_set(manifest["metadata"]["name"], manifest["spec"], _nothing)


def _of_job_set(name: str, spec: Data, injected: Callable[[int], Data]) -> Iterator[Pod]:
    has_names = spec["network"]["enableDNSHostnames"]
    subdomain = spec["network"].get("subdomain", name) if has_names else ""
    for replicated in spec["replicatedJobs"]:
        for number in range(replicated["replicas"]):
            job = f"{name}-{replicated['name']}-{number}"
            labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": replicated["name"]}
            yield from _indexed(replicated["name"], job, subdomain, replicated["template"]["spec"], labels, injected)


def _train_job(manifest: Data, manifests: Sequence[Data]) -> Iterator[Pod]:
    spec, name = manifest["spec"], manifest["metadata"]["name"]
    (runtime,) = [
        one for one in manifests
        if one["kind"] == spec["runtimeRef"]["kind"] and one["metadata"]["name"] == spec["runtimeRef"]["name"]
    ]  # fmt: skip
    trainer, policy = spec["trainer"], runtime["spec"]["mlPolicy"]
    job_set = copy.deepcopy(runtime["spec"]["template"]["spec"])
    trains = []
    for replicated in job_set["replicatedJobs"]:
        job, labels = replicated["template"]["spec"], replicated["template"].get("metadata", {}).get("labels", {})
        for patch in _patches_of(spec, replicated["name"]):
            _patch(job["template"], patch)
        ancestor = labels.get("trainer.kubeflow.org/trainjob-ancestor-step") == "trainer"
        if ancestor or ("mpi" in policy and replicated["name"] == "node"):
            job["completions"] = job["parallelism"] = _count(policy, trainer, replicated["name"])
        if ancestor:
            (container,) = [one for one in job["template"]["spec"]["containers"] if one["name"] == "node"]
            trains.append(container)
            container |= {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
            container["resources"] = trainer.get("resourcesPerNode", container.get("resources"))
        if ancestor or (replicated["name"] == "node" and policy.get("mpi", {}).get("runLauncherAsNode")):
            for one in job["template"]["spec"]["containers"]:
                if one["name"] == "node":
                    one["env"] = _upserted(one.get("env", []), trainer.get("env", []))
    (container,) = trains
    told = _policy_variables(policy, name, trainer, container)
    for pod in _of_job_set(name, job_set, _nothing):
        yield pod if pod.role not in ("node", "launcher") else replace(pod, injected={**pod.injected, **told(pod.index)})


def _upserted(env: list[Data], added: list[Data]) -> list[Data]:
    """A variable that is there is replaced where it stands (pkg/apply/apply.go)."""
    return list(({one["name"]: one for one in env} | {one["name"]: one for one in added}).values())


def _count(policy: Data, trainer: Data, name: str) -> int:
    """Pods of a replicated Job: launchers as many as the runtime has nodes, and one node less where the launcher is one."""
    nodes, of_policy = int(trainer["numNodes"]), int(policy["numNodes"])
    if "mpi" not in policy:
        return nodes
    if name == "node":
        return max(nodes - 1, 1) if policy["mpi"]["runLauncherAsNode"] else nodes
    return of_policy


def _patches_of(spec: Data, name: str) -> list[Data]:
    """Of the pods of a replicated Job: in the words of 2.2 and later, or of 2.1."""
    jobs = [
        one
        for patch in spec.get("runtimePatches", [])
        for one in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        if one["name"] == name
    ]
    overrides = [one for one in spec.get("podTemplateOverrides", []) if {"name": name} in one["targetJobs"]]
    return [one["template"]["spec"]["template"] for one in jobs] + overrides


_MERGED = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "imagePullSecrets": "name",
           "volumeMounts": "mountPath"}  # fmt: skip
"""Lists that a strategic merge joins, and by which key (k8s.io/api/core/v1, patchMergeKey); any other list is replaced."""


def _patch(template: Data, patch: Data) -> None:
    """A strategic merge patch, as the operator applies it to the Job template."""
    for field_name, value in patch.items():
        if field_name == "targetJobs":
            continue
        if isinstance(value, dict):
            _patch(template.setdefault(field_name, {}), value)
        elif field_name in _MERGED:
            key, items = _MERGED[field_name], template.setdefault(field_name, [])
            for item in value:
                same = next((one for one in items if one[key] == item[key]), None)
                if same is None:
                    items.append(copy.deepcopy(item))
                else:
                    _patch(same, item)
        else:
            template[field_name] = copy.deepcopy(value)


def _policy_variables(policy: Data, name: str, trainer: Data, container: Data) -> Callable[[int], Data]:
    if "mpi" in policy:
        return _nothing  # a host file, and for the launcher what Open MPI 4 reads
    address, nodes = f"{name}-node-0-0.{name}", trainer["numNodes"]
    if "jax" in policy:
        return lambda index: {
            "JAX_COORDINATOR_ADDRESS": f"{address}:29500", "JAX_NUM_PROCESSES": str(nodes), "JAX_PROCESS_ID": str(index),
        }  # fmt: skip
    if "torch" in policy:
        return lambda index: {
            "PET_NNODES": str(nodes), "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]), "PET_NODE_RANK": str(index),
            "PET_MASTER_ADDR": address, "PET_MASTER_PORT": "29500",
        }  # fmt: skip
    workers = nodes * int(container["resources"]["limits"].get("nvidia.com/gpu", 1))
    return lambda index: {
        "DMLC_TRACKER_URI": address, "DMLC_TRACKER_PORT": "29500", "DMLC_TASK_ID": str(index), "DMLC_NUM_WORKER": str(workers),
    }  # fmt: skip


def _replicas(manifest: Data, replicas: Data, container: str, injected: Callable[[str, int], Data]) -> Iterator[Pod]:
    """Kubeflow v1: a pod and a headless Service ``<name>-<role>-<index>`` for each replica."""
    name = manifest["metadata"]["name"]
    for role, spec in replicas.items():
        role = role.lower()
        assert spec["template"]["spec"]["containers"][0]["name"] == container
        for index in range(spec["replicas"]):
            labels = {"training.kubeflow.org/job-name": name, "training.kubeflow.org/replica-type": role,
                      "training.kubeflow.org/replica-index": str(index)}
            yield _pod(role, index, f"{name}-{role}-{index}", spec["template"], labels, injected(role, index))


def _port(template: Data, name: str) -> str:
    (port,) = [port["containerPort"] for port in template["spec"]["containers"][0]["ports"] if port["name"] == name]
    return str(port)


def _pytorch_job(manifest: Data, manifests: Sequence[Data]) -> Iterator[Pod]:
    spec, name = manifest["spec"], manifest["metadata"]["name"]
    replicas, per_node = spec["pytorchReplicaSpecs"], spec["nprocPerNode"]
    total = sum(one["replicas"] for one in replicas.values())
    elastic = spec.get("elasticPolicy")

    def injected(role: str, index: int) -> Data:
        both = {"PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": per_node}
        if elastic:
            endpoint = f"{name}-worker-0:{_port(replicas['Worker']['template'], 'pytorchjob-port')}"
            sizes = f"{elastic['minReplicas']}:{elastic['maxReplicas']}"
            return both | {"PET_NNODES": sizes, "PET_RDZV_ENDPOINT": endpoint, "PET_RDZV_BACKEND": elastic["rdzvBackend"]}
        place, port = str(0 if role == "master" else index + 1), _port(replicas["Master"]["template"], "pytorchjob-port")
        address = {"MASTER_ADDR": f"{name}-master-0", "MASTER_PORT": port}
        return {
            **both, **address, **{f"PET_{key}": value for key, value in address.items()}, "PET_NNODES": str(total),
            "PET_NODE_RANK": place, "RANK": place, "WORLD_SIZE": str(total * int(per_node)),
        }  # fmt: skip

    return _replicas(manifest, replicas, "pytorch", injected)


def _tf_job(manifest: Data, manifests: Sequence[Data]) -> Iterator[Pod]:
    replicas = manifest["spec"]["tfReplicaSpecs"]
    several = sum(one["replicas"] for one in replicas.values()) > 1
    return _replicas(manifest, replicas, "tensorflow", lambda role, index: {"TF_CONFIG": f"{role} {index}"} if several else {})


def _xgboost_job(manifest: Data, manifests: Sequence[Data]) -> Iterator[Pod]:
    replicas, name = manifest["spec"]["xgbReplicaSpecs"], manifest["metadata"]["name"]
    total, port = sum(one["replicas"] for one in replicas.values()), _port(replicas["Master"]["template"], "xgboostjob-port")

    def injected(role: str, index: int) -> Data:
        workers = (
            {"WORKER_PORT": port, "WORKER_ADDRS": ",".join(f"{name}-worker-{i}" for i in range(total - 1))} if total > 1 else {}
        )
        place = str(0 if role == "master" else index + 1)
        address = {"MASTER_ADDR": f"{name}-master-0", "MASTER_PORT": port}
        return {"PYTHONUNBUFFERED": "1", **address, "WORLD_SIZE": str(total), "RANK": place, **workers}

    return _replicas(manifest, replicas, "xgboost", injected)


def _mpi_job(manifest: Data, manifests: Sequence[Data]) -> Iterator[Pod]:
    name = manifest["metadata"]["name"]
    for role, spec in manifest["spec"]["mpiReplicaSpecs"].items():
        role = role.lower()
        for index in range(spec["replicas"]):
            host = f"{name}-launcher.{name}" if role == "launcher" else f"{name}-worker-{index}.{name}"
            labels = {"training.kubeflow.org/job-name": name, "training.kubeflow.org/job-role": role}
            yield _pod(role, index, host, spec["template"], labels, {"K_MPI_JOB_ROLE": role})


def _ray_job(manifest: Data, manifests: Sequence[Data]) -> Iterator[Pod]:
    name, cluster = manifest["metadata"]["name"], manifest["spec"]["rayClusterSpec"]
    head = {"RAY_PORT": "6379", "RAY_ADDRESS": "127.0.0.1:6379"}
    yield _pod("head", 0, f"{name}-abcde-head-svc", cluster["headGroupSpec"]["template"], {"ray.io/node-type": "head"}, head)
    for group in cluster["workerGroupSpecs"]:
        for index in range(group["replicas"]):
            variables = {"RAY_PORT": "6379", "RAY_ADDRESS": f"{name}-abcde-head-svc:6379", "FQ_RAY_IP": f"{name}-abcde-head-svc"}
            host, label = f"{name}-abcde-{group['groupName']}-worker-{index}", {"ray.io/node-type": "worker"}
            yield _pod(group["groupName"], index, host, group["template"], label, variables)


def _volcano_job(manifest: Data, manifests: Sequence[Data]) -> Iterator[Pod]:
    name, spec = manifest["metadata"]["name"], manifest["spec"]
    env, svc = spec["plugins"]["env"], spec["plugins"]["svc"]
    assert env == []
    assert "--publish-not-ready-addresses=true" in svc, "ranks look for each other before they are ready"
    assert spec["minAvailable"] <= sum(task["replicas"] for task in spec["tasks"])
    hosts = {
        task["name"]: [f"{name}-{task['name']}-{index}.{name}" for index in range(task["replicas"])] for task in spec["tasks"]
    }
    about = {task: task.upper().replace("-", "_") for task in hosts}
    everyone = {f"VC_{about[task]}_HOSTS": ",".join(names) for task, names in hosts.items()}
    everyone |= {f"VC_{about[task]}_NUM": str(len(names)) for task, names in hosts.items()}
    for task in spec["tasks"]:
        for index, host in enumerate(hosts[task["name"]]):
            labels = {
                "volcano.sh/job-name": name, "volcano.sh/job-namespace": manifest["metadata"]["namespace"],
                "volcano.sh/task-spec": task["name"], "volcano.sh/task-index": str(index), "volcano.sh/queue-name": spec["queue"],
            }  # fmt: skip
            variables = {"VK_TASK_INDEX": str(index), "VC_TASK_INDEX": str(index), **everyone}
            if "tensorflow" in spec["plugins"]:
                variables["TF_CONFIG"] = f"{task['name']} {index}"
            if "mpi" in spec["plugins"] and task["name"] == "launcher" and "worker" in hosts:
                assert "--worker=worker" in spec["plugins"]["mpi"]
                variables["MPI_HOST"] = ",".join(hosts["worker"])
            pod = _pod(task["name"], index, host, task["template"], labels, variables)
            group = {"scheduling.k8s.io/group-name": f"{name}-uid"}
            yield replace(
                pod, spec={"schedulerName": spec["schedulerName"], **pod.spec}, annotations={**pod.annotations, **group}
            )


READERS: Mapping[tuple[str, str], Callable[[Data, Sequence[Data]], Iterator[Pod]]] = {
    ("batch", "Job"): _job,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("kubeflow.org", "PyTorchJob"): _pytorch_job,
    ("trainer.kubeflow.org", "TrainJob"): _train_job,
    ("kubeflow.org", "MPIJob"): _mpi_job,
    ("kubeflow.org", "TFJob"): _tf_job,
    ("kubeflow.org", "XGBoostJob"): _xgboost_job,
    ("ray.io", "RayJob"): _ray_job,
    ("batch.volcano.sh", "Job"): _volcano_job,
}
"""API group and kind -> its pods."""

_FLAGGED = {
    ("kubeflow.org", "PyTorchJob"): "training-operator",
    ("kubeflow.org", "TFJob"): "training-operator",
    ("kubeflow.org", "XGBoostJob"): "training-operator",
    ("kubeflow.org", "MPIJob"): "mpi-operator",
    ("ray.io", "RayJob"): "kuberay",
}
"""Kinds whose operator has a flag for gangs."""
