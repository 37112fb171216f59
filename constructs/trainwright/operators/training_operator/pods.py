"""The pods of a PyTorchJob, TFJob or XGBoostJob, each with a Service of its name (kubeflow/training-operator at v1.9.4).

pkg/controller.v1/common/{pod,service}.go, pkg/controller.v1/{pytorch,tensorflow,xgboost}, and control/podgroup_control.go.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from trainwright.manifest.gang import SCHEDULERS
from trainwright.objects.requests import requested
from trainwright.operators.operator import Around, Made, Pod, Size, Tree, child
from trainwright.operators.training_operator.pytorch_job import INIT
from trainwright.operators.training_operator.releases import FLAG, TRAINING_OPERATOR

LABEL = "training.kubeflow.org/"
LEADERS = ("master", "chief")
NEVER = {"ExitCode": "Never"}
"""What pods are told of a restart policy that the operator itself follows."""


class Replica(NamedTuple):
    """One pod to be."""

    role: str
    number: int
    """Among those of its role."""
    name: str
    rank: int
    """Its place in the order of roles; a master comes first."""
    template: Tree
    """A copy, with the operator's default port."""


class Kind(NamedTuple):
    """What one kind has of its own."""

    specs: str
    """Field with the roles."""
    container: str
    port: int
    """Of that container, under its own name, where it states none."""
    variables: Callable[[Mapping[str, Any], list[Replica], Replica], list[tuple[str, str]]]
    all_containers: bool = True
    """Whether more than that container gets them."""
    controller: str = ""

    @property
    def port_name(self) -> str:
        return f"{self.controller.removesuffix('-controller')}-port"


def pods(manifest: Mapping[str, Any], around: Around) -> Made:
    """Of a TFJob on the host's network the operator chooses ports that nobody knows before: they are left as they are."""
    kind, specs = KINDS[manifest["kind"]], manifest["spec"][KINDS[manifest["kind"]].specs]
    replicas = list(_replicas(manifest, kind, specs))
    made, objects = [], []
    for one in replicas:
        labels = {
            f"{LABEL}operator-name": kind.controller, f"{LABEL}job-name": manifest["metadata"]["name"],
            f"{LABEL}replica-type": one.role, f"{LABEL}replica-index": str(one.number),
        }  # fmt: skip
        master = {f"{LABEL}job-role": "master"} if one is _master(replicas) else {}
        spec = one.template["spec"]
        for container in spec["containers"]:
            if kind.all_containers or container["name"] == kind.container:
                container.setdefault("env", []).extend(
                    {"name": name, "value": value} for name, value in kind.variables(manifest, replicas, one)
                )
        policy = next(role.get("restartPolicy") for name, role in specs.items() if name.lower() == one.role)
        if policy:
            spec["restartPolicy"] = NEVER.get(policy, policy)
        if manifest["kind"] == "PyTorchJob" and one.role == "worker" and replicas[0].role == "master":
            spec["initContainers"] = [*spec.get("initContainers", []), _waiting(replicas[0].name, around)]
        own = one.template.get("metadata", {})
        metadata = {**own, "labels": {**own.get("labels", {}), **labels, **master}}
        pod = child(manifest, "Pod", one.name, metadata=metadata, spec=spec)
        _group(pod, one.role, manifest, around)
        made.append(Pod(one.role, one.number, one.name, pod))
        ports = [{"name": port["name"], "port": port["containerPort"]} for port in _trains(kind, one).get("ports", ())]
        service = {"clusterIP": "None", "selector": labels, "ports": ports}
        objects.append(child(manifest, "Service", one.name, metadata={"labels": labels}, spec=service))
    return Made(made, [*objects, *_pod_group(manifest, replicas, around)])


def resized(manifest: Mapping[str, Any], around: Around, size: Size) -> Tree:
    """A master or chief holds ranks too."""
    job: Tree = copy.deepcopy(dict(manifest))
    specs = job["spec"][KINDS[job["kind"]].specs]
    first = sum(name.lower() in LEADERS for name in specs)
    for name, role in specs.items():
        size.fewer(role, "replicas", taken=first if name.lower() == "worker" else 0)
    size.fewer(job["spec"].get("elasticPolicy") or {}, "minReplicas", "maxReplicas")
    if size.processes and "nprocPerNode" in job["spec"]:
        job["spec"]["nprocPerNode"] = str(size.processes)
    return job


def _replicas(manifest: Mapping[str, Any], kind: Kind, specs: Mapping[str, Any]) -> Iterator[Replica]:
    rank = 0
    for name in sorted(specs, key=lambda role: (role.lower() not in LEADERS, role.lower())):
        for index in range(specs[name].get("replicas", 1)):
            template = copy.deepcopy(specs[name]["template"])
            one = Replica(name.lower(), index, f"{manifest['metadata']['name']}-{name.lower()}-{index}", rank, template)
            ports = _trains(kind, one).setdefault("ports", [])
            if all(port.get("name") != kind.port_name for port in ports):
                ports.append({"name": kind.port_name, "containerPort": kind.port})
            yield one
            rank += 1


def _trains(kind: Kind, replica: Replica) -> Tree:
    """The container that trains; without one the webhook refuses the job."""
    containers: list[Tree] = [one for one in replica.template["spec"]["containers"] if one["name"] == kind.container]
    if not containers:
        raise ValueError(f"{replica.role} has no container named {kind.container}, which its controller looks for")
    return containers[0]


def _master(replicas: list[Replica]) -> Replica:
    """A role of that name or the chief; else the first worker."""
    first = [one for one in replicas if one.role in LEADERS]
    return (first or [one for one in replicas if one.role == "worker"])[0]


def _port(kind: str, replica: Replica) -> str:
    named = {port.get("name"): port["containerPort"] for port in _trains(KINDS[kind], replica)["ports"]}
    return str(named[KINDS[kind].port_name])


def _of_pytorch(manifest: Mapping[str, Any], replicas: list[Replica], one: Replica) -> list[tuple[str, str]]:
    spec, first = manifest["spec"], replicas[0]
    elastic, each = spec.get("elasticPolicy"), str(spec.get("nprocPerNode", "auto"))
    variables = [("PYTHONUNBUFFERED", "1")]
    if first.role == "master":
        address, port = first.name, _port("PyTorchJob", first)
        world = len(replicas) * (int(each) if each.isdigit() else 1)
        variables += [
            ("MASTER_PORT", port), ("PET_MASTER_PORT", port), ("MASTER_ADDR", address), ("PET_MASTER_ADDR", address),
            ("WORLD_SIZE", str(world)), ("RANK", str(one.rank)), ("PET_NODE_RANK", str(one.rank)),
        ]  # fmt: skip
    variables.append(("PET_NPROC_PER_NODE", each))
    if not elastic:
        return [*variables, ("PET_NNODES", str(len(replicas)))]
    workers = [replica for replica in replicas if replica.role == "worker"]
    host, port = elastic.get("rdzvHost", workers[0].name), elastic.get("rdzvPort") or _port("PyTorchJob", workers[0])
    least, most = (elastic.get(field, len(replicas)) for field in ("minReplicas", "maxReplicas"))
    settings = ",".join(f"{entry['key']}={entry['value']}" for entry in elastic.get("rdzvConf", ()))
    optional = {
        "PET_RDZV_ID": elastic.get("rdzvId"), "PET_MAX_RESTARTS": elastic.get("maxRestarts"), "PET_RDZV_CONF": settings or None,
    }  # fmt: skip
    return [
        *variables,
        ("PET_RDZV_ENDPOINT", f"{host}:{port}"),
        ("PET_RDZV_BACKEND", elastic.get("rdzvBackend", "c10d")),
        ("PET_NNODES", f"{least}:{most}"),
        *((name, str(value)) for name, value in optional.items() if value is not None),
        *([("PET_STANDALONE", "")] if elastic.get("standalone") else []),
    ]


def _of_tensorflow(manifest: Mapping[str, Any], replicas: list[Replica], one: Replica) -> list[tuple[str, str]]:
    """Evaluators are told of the others, and not the others of them."""
    namespace, cluster = manifest["metadata"].get("namespace", "default"), dict[str, list[str]]()
    for replica in replicas:
        if replica.role != "evaluator":
            cluster.setdefault(replica.role, []).append(f"{replica.name}.{namespace}.svc:{_port('TFJob', replica)}")
    task = {"type": one.role, "index": one.number}
    config = {"cluster": dict(sorted(cluster.items())), "task": task, "environment": "cloud"}
    return [("TF_CONFIG", json.dumps(config, separators=(",", ":")))] if len(replicas) > 1 else []


def _of_xgboost(manifest: Mapping[str, Any], replicas: list[Replica], one: Replica) -> list[tuple[str, str]]:
    first, workers = replicas[0], [replica for replica in replicas if replica.role == "worker"]
    variables = [
        ("MASTER_PORT", _port("XGBoostJob", first)), ("MASTER_ADDR", first.name), ("WORLD_SIZE", str(len(replicas))),
        ("RANK", str(one.rank)), ("PYTHONUNBUFFERED", "1"),
    ]  # fmt: skip
    if len(replicas) == 1:
        return variables
    names = ",".join(worker.name for worker in workers)
    return [*variables, ("WORKER_PORT", _port("XGBoostJob", workers[0])), ("WORKER_ADDRS", names)]


KINDS: Mapping[str, Kind] = {
    "PyTorchJob": Kind("pytorchReplicaSpecs", "pytorch", 23456, _of_pytorch, controller="pytorchjob-controller"),
    "TFJob": Kind("tfReplicaSpecs", "tensorflow", 2222, _of_tensorflow, all_containers=False, controller="tfjob-controller"),
    "XGBoostJob": Kind("xgbReplicaSpecs", "xgboost", 9999, _of_xgboost, controller="xgboostjob-controller"),
}


def _waiting(master: str, around: Around) -> Tree:
    """The container by which workers wait for their master's name (pkg/config/config.go, its template)."""
    found = f"if nslookup {master}; then err=0 && break; fi"
    command = f"err=1;for i in $(seq 100); do {found};echo waiting for master; sleep 2; done; exit $err"
    return {
        "name": INIT.name,
        "image": INIT.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
        "resources": {"limits": {"cpu": "100m", "memory": "20Mi"}, "requests": {"cpu": "50m", "memory": "10Mi"}},
        **around.init_container,
    }


def _group(pod: Tree, role: str, manifest: Mapping[str, Any], around: Around) -> None:
    """The group and the scheduler of every pod; a scheduler in the template stays."""
    flag = around.gangs.get(TRAINING_OPERATOR.name)
    if not flag or (gang := FLAG.groups_for(flag)) is None:
        return
    pod["spec"]["schedulerName"] = FLAG.scheduler(flag, pod["spec"].get("schedulerName"))
    SCHEDULERS[gang].join(pod["metadata"], manifest["metadata"]["name"])
    if gang == "volcano":
        pod["metadata"]["annotations"]["volcano.sh/task-spec"] = role


def _pod_group(manifest: Mapping[str, Any], replicas: list[Replica], around: Around) -> list[Tree]:
    gang, name = FLAG.groups_for(around.gangs.get(TRAINING_OPERATOR.name)), manifest["metadata"]["name"]
    if not gang:
        return []
    policy = manifest["spec"].get("runPolicy", {}).get("schedulingPolicy", {})
    least = policy.get("minAvailable", len(replicas))
    asked = policy.get("minResources") or requested((1, one.template["spec"]) for one in replicas[:least])
    spec = {"minMember": least, "minResources": asked}
    if gang != "volcano":
        spec |= {"scheduleTimeoutSeconds": policy["scheduleTimeoutSeconds"]} if "scheduleTimeoutSeconds" in policy else {}
    else:
        spec |= {"queue": policy["queue"]} if policy.get("queue") else {}
        spec |= {"priorityClassName": policy["priorityClass"]} if policy.get("priorityClass") else {}
    return [child(manifest, "PodGroup", name, SCHEDULERS[gang].api_version, spec=spec)]
