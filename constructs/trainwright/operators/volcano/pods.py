"""The pods of a Volcano Job, its PodGroup, and what its plugins bring (volcano at v1.15).

pkg/controllers/job/{job_controller_util,job_controller_actions}.go and plugins/{svc,ssh,env,distributed-framework}. The plugins
``ray`` and ``hcclrank`` are left out.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from trainwright.manifest.gang import SCHEDULERS
from trainwright.objects.requests import requested
from trainwright.operators.operator import Around, Awaited, Made, Pod, Size, Tree, child, uid
from trainwright.operators.volcano.defaults import defaults
from trainwright.operators.volcano.options import read_options

GANG = SCHEDULERS["volcano"]
FROM_JOB = ("volcano.sh/preemptable", "volcano.sh/cooldown-time")
"""What pods take from the Job's labels; from its annotations they take more."""
ANNOTATIONS_FROM_JOB = (*FROM_JOB, "volcano.sh/revocable-zone", "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
TENSORFLOW_ROLES = ("ps", "worker", "chief", "evaluator")


def pods(manifest: Mapping[str, Any], around: Around) -> Made:
    """Plugins in one order; Volcano itself takes them as they come out of a map, so that variables may stand in another."""
    job = defaults(manifest)
    spec = job["spec"]
    made = [_pod(job, task, index) for task in spec["tasks"] for index in range(task["replicas"])]
    objects = [_pod_group(job)]
    for name, plugin in PLUGINS.items():
        if name in spec.get("plugins", {}):
            options, _ = read_options(name, spec["plugins"][name])
            for pod in made:
                plugin(job, pod, options)
            objects += OBJECTS[name](job, options) if name in OBJECTS else []
    return Made(made, objects)


def resized(manifest: Mapping[str, Any], around: Around, size: Size) -> Tree:
    """A chief or master holds ranks too."""
    job: Tree = copy.deepcopy(dict(manifest))
    spec = job["spec"]
    first = sum(task.get("name") in ("chief", "master") for task in spec["tasks"])
    for task in spec["tasks"]:
        size.fewer(task, "replicas", "minAvailable", taken=first if task.get("name") == "worker" else 0)
    total = sum(task.get("replicas", 1) for task in spec["tasks"])
    for field in {"minAvailable", "minSuccess"} & spec.keys():
        spec[field] = min(spec[field], total)
    return job


def _host(job: Tree, task: Tree, index: int) -> str:
    own = task["template"]["spec"]
    return f"{own.get('hostname', _name(job, task, index))}.{own.get('subdomain', job['metadata']['name'])}"


def _hosts(job: Tree, task: Tree) -> list[str]:
    """With a host name of the template, that one alone."""
    count = 1 if "hostname" in task["template"]["spec"] else task["replicas"]
    return [_host(job, task, index) for index in range(count)]


def _name(job: Tree, task: Tree, index: int) -> str:
    return f"{job['metadata']['name']}-{task['name']}-{index}"


def _pod(job: Tree, task: Tree, index: int) -> Pod:
    of_job, spec = job["metadata"], copy.deepcopy(task["template"]["spec"])
    own, name = task["template"].get("metadata", {}), of_job["name"]
    spec["schedulerName"] = spec.get("schedulerName", job["spec"]["schedulerName"])
    if "priorityClassName" in job["spec"]:
        spec.setdefault("priorityClassName", job["spec"]["priorityClassName"])
    for volume in job["spec"].get("volumes", []):
        claim = volume.get("volumeClaimName", f"{name}-volume")  # the ends of these names are random
        named = f"{name}-{claim}"
        spec.setdefault("volumes", []).append({"name": named, "persistentVolumeClaim": {"claimName": claim}})
        for container in spec["containers"]:
            container.setdefault("volumeMounts", []).append({"name": named, "mountPath": volume["mountPath"]})
    both = {"task-index": str(index), "task-spec": task["name"], "job-name": name, "queue-name": job["spec"]["queue"]}
    told = {f"volcano.sh/{key}": value for key, value in both.items()}
    size = (task.get("partitionPolicy") or {}).get("partitionSize")
    annotations, labels = of_job.get("annotations", {}), of_job.get("labels", {})
    metadata = {
        "labels": {
            **own.get("labels", {}), **told, "volcano.sh/job-namespace": of_job.get("namespace", "default"),
            **{key: labels[key] for key in FROM_JOB if key in labels},
            **({"volcano.sh/partition-id": str(index // size)} if size else {}),
        },
        "annotations": {
            **own.get("annotations", {}), **told, "volcano.sh/job-version": "0",
            "volcano.sh/job-retry-count": "0", "volcano.sh/template-uid": f"{name}-{task['name']}",
            **{key: annotations[key] for key in ANNOTATIONS_FROM_JOB if key in annotations},
        },
    }  # fmt: skip
    GANG.join(metadata, f"{name}-{uid(job)}")
    pod = child(job, "Pod", _name(job, task, index), metadata=metadata, spec=spec)
    host = _host(job, task, index) if "svc" in job["spec"].get("plugins", {}) else pod["metadata"]["name"]
    awaited = (task.get("dependsOn") or {}).get("name", ())
    return Pod(task["name"], index, host, pod, tuple(Awaited(name, "Ready") for name in awaited))


def _containers(pod: Pod, *lists: str) -> list[Tree]:
    return [container for field in lists or ("containers", "initContainers") for container in pod.spec.get(field, [])]


def _add(container: Tree, field: str, *entries: Tree) -> None:
    container.setdefault(field, []).extend(copy.deepcopy(entries))


def _mount(pod: Pod, volume: Tree, **mount: str) -> None:
    _add(pod.spec, "volumes", volume)
    for container in _containers(pod):
        _add(container, "volumeMounts", {"name": volume["name"], **mount})


def _variable(task: Tree) -> str:
    return str(task["name"]).replace("-", "_")


def _svc(job: Tree, pod: Pod, options: Mapping[str, str]) -> None:
    """A host name for each pod, and the names of all in variables and files."""
    name = f"{job['metadata']['name']}-svc"
    pod.spec.setdefault("hostname", pod.manifest["metadata"]["name"])
    pod.spec.setdefault("subdomain", job["metadata"]["name"])
    keys = [f"VC_{_variable(task).upper()}_{what}" for task in job["spec"]["tasks"] for what in ("HOSTS", "NUM")]
    if options.get("inject-hosts-env") != "false":
        for container in _containers(pod):
            _add(container, "env", *({"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}} for key in keys))
    _mount(pod, {"name": name, "configMap": {"name": name}}, mountPath="/etc/volcano")


def _of_svc(job: Tree, options: Mapping[str, str]) -> list[Tree]:
    name, namespace = job["metadata"]["name"], job["metadata"].get("namespace", "default")
    chosen = {"volcano.sh/job-name": name, "volcano.sh/job-namespace": namespace}
    data: dict[str, str] = {}
    for task in job["spec"]["tasks"]:
        hosts, key = _hosts(job, task), _variable(task)
        data[f"{key}.host"] = "\n".join(hosts)
        data |= {f"VC_{key.upper()}_HOSTS": ",".join(hosts), f"VC_{key.upper()}_NUM": str(len(hosts))}
    early = options.get("publish-not-ready-addresses") == "true"
    service: Tree = {"clusterIP": "None", "selector": chosen, "publishNotReadyAddresses": early}
    made = [child(job, "Service", name, spec=service), child(job, "ConfigMap", f"{name}-svc", data=data)]
    if options.get("disable-network-policy") == "true":
        return made
    return [*made, child(job, "NetworkPolicy", name, "networking.k8s.io/v1", spec={
        "podSelector": {"matchLabels": chosen},
        "ingress": [{"from": [{"podSelector": {"matchLabels": chosen}}]}],
        "policyTypes": ["Ingress"],
    })]  # fmt: skip


_KEYS = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


def _ssh(job: Tree, pod: Pod, options: Mapping[str, str]) -> None:
    name, path = f"{job['metadata']['name']}-ssh", options.get("ssh-key-file-path", "/root/.ssh")
    secret = {
        "secretName": name,
        "items": [{"key": key, "path": f".ssh/{key}"} for key in _KEYS],
        "defaultMode": 0o600 if path == "/root/.ssh" else 0o644,
    }
    _mount(pod, {"name": name, "secret": secret}, mountPath=path, subPath=".ssh")


def _of_ssh(job: Tree, options: Mapping[str, str]) -> list[Tree]:
    return [child(job, "Secret", f"{job['metadata']['name']}-ssh", data=dict.fromkeys(_KEYS, ""))]


def _env(job: Tree, pod: Pod, options: Mapping[str, str]) -> None:
    for container in _containers(pod):
        _add(container, "env", *({"name": name, "value": str(pod.index)} for name in ("VK_TASK_INDEX", "VC_TASK_INDEX")))


def _task(job: Tree, name: str) -> Tree | None:
    return next((task for task in job["spec"]["tasks"] if task["name"] == name), None)


def _open(containers: list[Tree], port: int, name: str) -> None:
    for container in containers:
        if all(one["containerPort"] != port for one in container.get("ports", [])):
            _add(container, "ports", {"name": name, "containerPort": port})


def _mpi(job: Tree, pod: Pod, options: Mapping[str, str]) -> None:
    """An open port for sshd, and the workers by name for the master, where there are some."""
    workers = _task(job, options.get("worker", "worker"))
    is_master = pod.role == options.get("master", "master")
    if is_master and workers is None:
        return
    _open(_containers(pod), int(options.get("port", "22")), "mpijob-port")
    if is_master and workers is not None:
        for container in _containers(pod):
            _add(container, "env", {"name": "MPI_HOST", "value": ",".join(_hosts(job, workers))})


def _tensorflow(job: Tree, pod: Pod, options: Mapping[str, str]) -> None:
    """TF_CONFIG, without tasks that have no role there: one of them is told its own name as its type."""
    tasks, port = job["spec"]["tasks"], options.get("port", "2222")
    names = {options.get(role, role): role for role in TENSORFLOW_ROLES}
    if len(tasks) == 1 and tasks[0]["replicas"] == 1:
        return
    hosts = {names[task["name"]]: [f"{host}:{port}" for host in _hosts(job, task)] for task in tasks if task["name"] in names}
    config = {
        "cluster": {role: hosts[role] for role in TENSORFLOW_ROLES if role in hosts},
        "task": {"type": names.get(pod.role, pod.role), "index": pod.index},
    }
    for container in _containers(pod, "containers"):
        _add(container, "env", {"name": "TF_CONFIG", "value": json.dumps(config, separators=(",", ":"))})


def _pytorch(job: Tree, pod: Pod, options: Mapping[str, str]) -> None:
    """Without its init container, which is off unless it is asked for."""
    master, port = _task(job, options.get("master", "master")), int(options.get("port", "23456"))
    if master is None:
        return
    ranks = {options.get("master", "master"): 0, options.get("worker", "worker"): pod.index + 1}
    told = {
        "MASTER_ADDR": _host(job, master, 0), "MASTER_PORT": str(port),
        "WORLD_SIZE": str(sum(task["replicas"] for task in job["spec"]["tasks"] if task["name"] in ranks)),
        **({"RANK": str(ranks[pod.role])} if pod.role in ranks else {}),
    }  # fmt: skip
    _open(_containers(pod, "containers"), port, "pytorchjob-port")
    for container in _containers(pod, "containers"):
        _add(container, "env", *({"name": name, "value": value} for name, value in told.items()))


PLUGINS = {"svc": _svc, "ssh": _ssh, "env": _env, "mpi": _mpi, "tensorflow": _tensorflow, "pytorch": _pytorch}
"""Plugin -> what it writes into a pod."""
OBJECTS = {"svc": _of_svc, "ssh": _of_ssh}
"""Plugin -> what it makes beside the pods."""


def _pod_group(job: Tree) -> Tree:
    """Resources as a quota counts them (pkg/controllers/util, GetPodQuotaUsage)."""
    spec, of_job = job["spec"], job["metadata"]
    members = {task["name"]: task["minAvailable"] for task in spec["tasks"]}
    metadata = {field: of_job[field] for field in ("labels", "annotations") if of_job.get(field)}
    return child(job, "PodGroup", f"{of_job['name']}-{uid(job)}", GANG.api_version, metadata=metadata, spec={
        "minMember": spec["minAvailable"],
        "minTaskMember": members,
        "minResources": _quota(job),
        "queue": spec["queue"],
        **{field: spec[field] for field in ("priorityClassName", "networkTopology") if field in spec},
    })  # fmt: skip


def _quota(job: Tree) -> dict[str, str]:
    """Of the pods that must start: of each task its own minimum, then more of them in the order of tasks."""
    tasks, left = job["spec"]["tasks"], job["spec"]["minAvailable"]
    counts = {task["name"]: 0 for task in tasks}
    for field in ("minAvailable", "replicas"):
        for task in tasks:
            more = max(min(task[field] - counts[task["name"]], left), 0)
            counts[task["name"]] += more
            left -= more
    counted = [(counts[task["name"]], task["template"]["spec"]) for task in tasks]
    asked, limits, pods_of = requested(counted), requested(counted, "limits"), str(sum(counts.values()))
    return {
        "pods": pods_of, "count/pods": pods_of, **asked,
        **{f"requests.{name}": amount for name, amount in asked.items()},
        **{f"limits.{name}": limits[name] for name in ("cpu", "memory", "ephemeral-storage") if name in limits},
    }  # fmt: skip
