"""The pods of a manifest in dist/, as their controllers make them: name, command, and the variables that they add to its own.

The facts are of the controllers' sources: Training Operator v1.9 (pkg/controller.v1/{pytorch,tensorflow,xgboost}), MPI Operator
0.8 (pkg/controller/mpi_job_controller.go), Kubernetes (pkg/controller/job), JobSet 0.12, Kubeflow Trainer v2.3
(pkg/runtime/framework/plugins/{torch,xgboost,jax,jobset}) and Volcano 1.15
(pkg/controllers/job/plugins/{env,svc,distributed-framework}).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from tests.engines.processes import ROOT

Tree = dict[str, Any]
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class Pod:
    """One that is to run here. Node ``number`` of the run, unless it only starts the others."""

    name: str
    role: str
    number: int
    container: Tree
    hosts: tuple[str, ...]
    """By which the others call it."""
    ends: bool = True
    """Whether it ends by itself when the run does."""
    before: tuple[Tree, ...] = ()
    """Containers that run first, one after the other."""
    after: str | None = None
    """Role whose pods are ready first."""

    @property
    def ready_port(self) -> int | None:
        """On which something listens once it is ready; None where nothing tells."""
        probe = self.container.get("readinessProbe", {}).get("tcpSocket", {})
        named = {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}
        return named.get(probe.get("port"))


@dataclass(frozen=True)
class Manifest:
    """A run in dist/: its workload and its files."""

    name: str
    namespace: str
    workload: Tree
    files: Mapping[str, str]
    """Of the ConfigMap beside it, by key."""
    runtime: Tree | None = None
    """Of a TrainJob: the TrainingRuntime that it names."""

    @property
    def run(self) -> str:
        """What its people call it."""
        return str(self.workload["metadata"]["labels"]["app.kubernetes.io/name"])

    @property
    def specification(self) -> Tree:
        document: Tree = json.loads(self.files["run.json"])
        return document

    def pods(self, count: int) -> list[Pod]:
        """The first of the run's pods in the order of their numbers; a launcher comes last."""
        return _PODS[self.workload["apiVersion"], self.workload["kind"]](self, count)


def read(path: str | Path) -> Manifest:
    """``CLUSTER/NAMESPACE/runs/NAME`` below dist/, or a file of its own."""
    file = path if isinstance(path, Path) else ROOT / "dist" / f"{path}.k8s.yaml"
    documents = list(yaml.safe_load_all(file.read_text(encoding="utf-8")))
    [workload] = [document for document in documents if (document["apiVersion"], document["kind"]) in _PODS]
    [config] = [document for document in documents if document["kind"] == "ConfigMap" and "run.json" in document["data"]]
    name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
    return Manifest(name, namespace, workload, config["data"], _runtime_of(workload, str(path).partition("/")[0], namespace))


def _runtime_of(workload: Tree, cluster: str, namespace: str) -> Tree | None:
    """In the namespace's foundation, by the name that a TrainJob gives."""
    if workload["kind"] != "TrainJob":
        return None
    file = ROOT / "dist" / cluster / namespace / "foundation" / f"{namespace}.k8s.yaml"
    wanted = workload["spec"]["runtimeRef"]
    [runtime] = [
        document for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        if (document["kind"], document["metadata"]["name"]) == (wanted["kind"], wanted["name"])
    ]
    return dict(runtime)


def _indexed(manifest: Manifest, count: int) -> list[Pod]:
    spec = manifest.workload["spec"]
    assert count <= spec["completions"]
    names = [(f"{manifest.name}-{number}", f"{spec['template']['spec']['subdomain']}") for number in range(count)]
    return _numbered(manifest, names, spec["template"])


def _volcano_job(manifest: Manifest, count: int) -> list[Pod]:
    """Pods of each task, a chief first. Where one task completes the run, the others are removed then."""
    tasks, pods = {task["name"]: task for task in manifest.workload["spec"]["tasks"]}, []
    completing = [
        name for name, task in tasks.items() if any(policy["action"] == "CompleteJob" for policy in task.get("policies", ()))
    ]
    for name in sorted(tasks, key=lambda name: {"chief": 0, "launcher": 2}.get(name, 1)):
        task, there = tasks[name], _first_of(name, tasks[name]["replicas"], count - ("chief" in tasks))
        names = [(f"{manifest.name}-{name}-{number}", manifest.name) for number in range(there)]
        ends = not completing or name in completing
        pods += _numbered(manifest, names, task["template"], name, ends, task.get("dependsOn", {}).get("name"))
    numbered = tasks.keys() & {"chief", "launcher"}
    return [replace(pod, number=place) for place, pod in enumerate(pods)] if numbered else pods


def _first_of(role: str, replicas: int, count: int) -> int:
    """Pods of a role that are to run here: the first of the nodes, and all of further roles."""
    first = role in ("node", "worker")
    assert not first or count <= replicas
    return count if first else replicas


def _job_set(manifest: Manifest, count: int) -> list[Pod]:
    spec = manifest.workload["spec"]
    return _of_job_set(manifest, spec, spec["network"]["subdomain"], count)


def _of_job_set(manifest: Manifest, spec: Tree, subdomain: str, count: int) -> list[Pod]:
    awaited, pods = spec["successPolicy"].get("targetReplicatedJobs"), []
    for replicated in spec["replicatedJobs"]:
        name, job = replicated["name"], replicated["template"]["spec"]
        assert (replicated["replicas"], job["completionMode"]) == (1, "Indexed")
        there = count if name == "node" else job["completions"]
        names = [(f"{manifest.name}-{name}-0-{number}", subdomain) for number in range(there)]
        after = [one["name"] for one in replicated.get("dependsOn", [])]
        pods += _numbered(manifest, names, job["template"], name, awaited is None or name in awaited, after)
    return pods


def _train_job(manifest: Manifest, count: int) -> list[Pod]:
    """The runtime's container ``node``, with the TrainJob's command, image and variables, and what its patches add."""
    assert manifest.runtime is not None
    spec, jobs = manifest.workload["spec"], deepcopy(manifest.runtime["spec"]["template"]["spec"])
    assert count <= spec["trainer"]["numNodes"]
    of_role = {job["name"]: job["template"]["spec"]["template"]["spec"]["containers"][0] for job in jobs["replicatedJobs"]}
    assert of_role["node"]["name"] == "node"
    of_role["node"] |= {key: spec["trainer"][key] for key in ("image", "command", "args", "env") if key in spec["trainer"]}
    for patch in spec["runtimePatches"]:
        for patched in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            for added in patched["template"]["spec"]["template"]["spec"].get("containers", []):
                container, allowed = of_role[patched["name"]], {"name", "volumeMounts"}
                assert added.keys() <= (allowed if patched["name"] == "node" else allowed | {"env"})
                container |= {key: [*container.get(key, []), *added[key]] for key in ("volumeMounts", "env") if key in added}
    return _of_job_set(manifest, jobs, manifest.name, count)


def _numbered(
    manifest: Manifest, names: Sequence[tuple[str, str]], template: Tree, role: str = "node", ends: bool = True,
    after: Sequence[str] | None = None,
) -> list[Pod]:
    first, waits_for = _before(template), after[0] if after else None
    return [
        Pod(name, role, number, _container(template), _hosts(manifest, name, subdomain), ends, first, waits_for)
        for number, (name, subdomain) in enumerate(names)
    ]


def _replicas(key: str, *order: str) -> Callable[[Manifest, int], list[Pod]]:
    """The pods of Kubeflow's v1 kinds, each with a Service of its own name."""

    def pods(manifest: Manifest, count: int) -> list[Pod]:
        specs = manifest.workload["spec"][key]
        found = [
            (f"{manifest.name}-{role.lower()}-{index}", role.lower(), specs[role]["template"])
            for role in order if role in specs for index in range(specs[role]["replicas"])
        ]
        return [
            Pod(name, role, number, _container(template), _hosts(manifest, name, None), before=_before(template))
            for number, (name, role, template) in enumerate(found[:count])
        ]

    return pods


def _mpi(manifest: Manifest, count: int) -> list[Pod]:
    specs = manifest.workload["spec"]["mpiReplicaSpecs"]
    workers = [
        Pod(
            name := f"{manifest.name}-worker-{number}", "worker", number, _container(specs["Worker"]["template"]),
            _hosts(manifest, name, manifest.name), ends=False,  # the operator ends them when the launcher has ended
        )
        for number in range(count)
    ]
    launcher = f"{manifest.name}-launcher"
    container = _container(specs["Launcher"]["template"])
    return [*workers, Pod(launcher, "launcher", count, container, _hosts(manifest, launcher, manifest.name))]


_PODS: Mapping[tuple[str, str], Callable[[Manifest, int], list[Pod]]] = {
    ("batch/v1", "Job"): _indexed,
    ("batch.volcano.sh/v1alpha1", "Job"): _volcano_job,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): _job_set,
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): _train_job,
    ("kubeflow.org/v1", "PyTorchJob"): _replicas("pytorchReplicaSpecs", "Master", "Worker"),
    ("kubeflow.org/v1", "TFJob"): _replicas("tfReplicaSpecs", "Chief", "Worker"),
    ("kubeflow.org/v1", "XGBoostJob"): _replicas("xgbReplicaSpecs", "Master", "Worker"),
    ("kubeflow.org/v2beta1", "MPIJob"): _mpi,
}


def _container(template: Tree) -> Tree:
    [container] = template["spec"]["containers"]
    return dict(container)


def _before(template: Tree) -> tuple[Tree, ...]:
    return tuple(template["spec"].get("initContainers", ()))


def _hosts(manifest: Manifest, name: str, subdomain: str | None) -> tuple[str, ...]:
    full = f"{name}.{subdomain}" if subdomain else name
    return f"{full}.{manifest.namespace}.svc", full, name


def own_variables(pod: Pod, container: Tree, address: str) -> dict[str, str]:
    """Of one of its containers: literal values, and what the kubelet fills in. For a key of a Secret its name stands in."""
    places = (f"metadata.annotations['{INDEX}']", f"metadata.labels['{INDEX}']", "metadata.labels['volcano.sh/task-index']")
    fields = {"status.podIP": address, "metadata.name": pod.name, **dict.fromkeys(places, str(pod.number))}

    def value(entry: Tree) -> str:
        if "value" in entry:
            return str(entry["value"])
        source = entry["valueFrom"]
        return str(source["secretKeyRef"]["name"]) if "secretKeyRef" in source else fields[source["fieldRef"]["fieldPath"]]

    return {entry["name"]: value(entry) for entry in container.get("env", [])}


def added_variables(manifest: Manifest, pod: Pod, pods: Sequence[Pod], port: Callable[[Pod], int]) -> dict[str, str]:
    """What the controller adds, which wins over the container's own. ``port`` has the port that the kind names for a pod."""
    kind, spec, first = manifest.workload["kind"], manifest.workload["spec"], pods[0]
    if manifest.workload["apiVersion"].startswith("batch.volcano.sh/"):
        return _of_volcano(pod, pods, spec["plugins"], port)
    if kind in ("Job", "JobSet"):
        return {"JOB_COMPLETION_INDEX": str(pod.number)}
    if kind == "TrainJob":
        own = [one for one in pods if one.role == "node"]
        of_policy = _of_runtime(manifest, pod, own, str(port(own[0]))) if pod in own else {}
        return {"JOB_COMPLETION_INDEX": str(pod.number), **of_policy}
    if kind == "MPIJob":
        return _of_mpi(pod, spec)
    if kind == "TFJob":
        return {"TF_CONFIG": json.dumps({**_of_tensorflow(pod, pods, port), "environment": "cloud"})}
    meeting = {"MASTER_ADDR": first.name, "MASTER_PORT": str(port(first)), "RANK": str(pod.number), "PYTHONUNBUFFERED": "1"}
    if kind == "XGBoostJob":
        names = ",".join(each.name for each in pods[1:])
        return meeting | {"WORLD_SIZE": str(len(pods)), "WORKER_PORT": str(port(pods[1])), "WORKER_ADDRS": names}
    processes = {"PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": str(spec["nprocPerNode"])}
    if "elasticPolicy" in spec:
        return processes | _of_elastic(spec["elasticPolicy"], f"{first.name}:{port(first)}")
    return processes | meeting | {
        "WORLD_SIZE": str(len(pods)), "PET_NNODES": str(len(pods)), "PET_NODE_RANK": str(pod.number),
        "PET_MASTER_ADDR": first.name, "PET_MASTER_PORT": str(port(first)),
    }


def _of_elastic(policy: Tree, endpoint: str) -> dict[str, str]:
    settings = ",".join(f"{entry['key']}={entry['value']}" for entry in policy["rdzvConf"])
    return {
        "PET_NNODES": f"{policy['minReplicas']}:{policy['maxReplicas']}", "PET_RDZV_ENDPOINT": endpoint,
        "PET_RDZV_BACKEND": policy["rdzvBackend"], "PET_MAX_RESTARTS": str(policy["maxRestarts"]), "PET_RDZV_CONF": settings,
    }


def _of_runtime(manifest: Manifest, pod: Pod, pods: Sequence[Pod], port: str) -> dict[str, str]:
    """By the plugin that the runtime's policy names. ``port`` stands for the 29500 that both have written in."""
    assert manifest.runtime is not None
    first, each = f"{pods[0].name}.{manifest.name}", str(manifest.workload["spec"]["trainer"]["numProcPerNode"])
    if "xgboost" in manifest.runtime["spec"]["mlPolicy"]:
        return {
            "DMLC_TRACKER_URI": first, "DMLC_TRACKER_PORT": port, "DMLC_TASK_ID": str(pod.number),
            "DMLC_NUM_WORKER": str(len(pods)),
        }
    if "jax" in manifest.runtime["spec"]["mlPolicy"]:
        return {
            "JAX_COORDINATOR_ADDRESS": f"{pods[0].name}.{manifest.name}:{port}", "JAX_NUM_PROCESSES": str(len(pods)),
            "JAX_PROCESS_ID": str(pod.number),
        }
    assert "torch" in manifest.runtime["spec"]["mlPolicy"]
    return {
        "PET_NNODES": str(len(pods)), "PET_NPROC_PER_NODE": each, "PET_NODE_RANK": str(pod.number), "PET_MASTER_ADDR": first,
        "PET_MASTER_PORT": port,
    }


def _by_role(pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    roles: dict[str, list[Pod]] = {}
    for pod in pods:
        roles.setdefault(pod.role, []).append(pod)
    return roles


def _of_tensorflow(pod: Pod, pods: Sequence[Pod], port: Callable[[Pod], int]) -> Tree:
    """TF_CONFIG, by full names of Services."""
    by_role = _by_role(pods)
    cluster = {role: [f"{each.hosts[0]}:{port(each)}" for each in found] for role, found in by_role.items()}
    return {"cluster": cluster, "task": {"type": pod.role, "index": by_role[pod.role].index(pod)}}


def _of_volcano(pod: Pod, pods: Sequence[Pod], plugins: Tree, port: Callable[[Pod], int]) -> dict[str, str]:
    """By the plugins ``env``, ``svc``, ``mpi`` and ``tensorflow``."""
    by_role = _by_role(pods)
    index, hosts = str(by_role[pod.role].index(pod)), {}
    for role, found in by_role.items():
        hosts[f"VC_{role.replace('-', '_').upper()}_HOSTS"] = ",".join(each.hosts[1] for each in found)
    added = {"VK_TASK_INDEX": index, "VC_TASK_INDEX": index, **hosts}
    if "mpi" in plugins and pod.role == "launcher":
        added["MPI_HOST"] = hosts["VC_WORKER_HOSTS"]
    if "tensorflow" in plugins:
        flags = dict(one.removeprefix("--").split("=", 1) for one in plugins["tensorflow"])
        listed = {"worker", "ps", "chief", flags.get("evaluator", "evaluator")}
        config = _of_tensorflow(pod, pods, port)
        config["cluster"] = {role: hosts for role, hosts in config["cluster"].items() if role in listed}
        added["TF_CONFIG"] = json.dumps(config)
    return added


def _of_mpi(pod: Pod, spec: Tree) -> dict[str, str]:
    assert spec["mpiImplementation"] == "OpenMPI"
    if pod.role == "worker":
        return {"K_MPI_JOB_ROLE": "worker"}
    return {
        "K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_keep_fqdn_hostnames": "true", "NVIDIA_VISIBLE_DEVICES": "",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
        "OMPI_MCA_orte_set_default_slots": str(spec["slotsPerWorker"]), "NVIDIA_DRIVER_CAPABILITIES": "",
    }


def hostfile(pods: Sequence[Pod]) -> str:
    """As the MPI Operator writes it, with one slot a worker here."""
    return "".join(f"{pod.hosts[0]} slots=1\n" for pod in pods if pod.role == "worker")
