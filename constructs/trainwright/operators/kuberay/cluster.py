"""The Ray cluster of a RayJob: its head, its groups of workers, and the pod that hands in the job."""

from __future__ import annotations

import re

from trainwright.handshake import MOST_FURTHER, Role
from trainwright.manifest.labels import pod_annotations, pod_labels
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.containers import pull_policy
from trainwright.manifest.template.pod import pod_template, template_reasons
from trainwright.manifest.template.scheduling import off_lost_nodes, pool_tolerations, stated_affinity
from trainwright.manifest.template.security import container_security, pod_security
from trainwright.plan import Resolution
from trainwright.rendezvous.ray import cluster_of

HEAD, WORKER = "head", "worker"
HEAD_POD = "/spec/rayClusterSpec/headGroupSpec/template"
GROUPS = "/spec/rayClusterSpec/workerGroupSpecs"
SUBMITTER = "/spec/submitterPodTemplate"
RAY_PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}
"""What a cluster needs of its head: port by the name that the operator knows it by."""
METRICS_PORT = 8080
"""Of Ray's agent, in every pod; the operator adds it to the head's Service where no port has its name."""
MOST_GROUPS = MOST_FURTHER + 1

_RAY_IMAGE = re.compile(
    r"(?:.*/)?ray(?:-[a-z]+)?:(?P<version>[0-9]+\.[0-9]+\.[0-9]+)(?:\.[0-9a-f]{6,40})?(?![0-9.])[^@]*(?:@.*)?"
)
"""An image of Ray's own, whose tag starts with Ray's release, and may name the commit of the build behind it:
``rayproject/ray:2.52.0-py312-gpu``, ``rayproject/ray-ml:2.46.0.0e19ea-py311-gpu``."""


def group_at(place: int) -> str:
    """Pointer of the pod template of a worker group."""
    return f"{GROUPS}/{place}/template"


def ray_version(image: str, stated: str | None) -> Why | None:
    """Ray's release, as the run states it or as the tag of an image of Ray's own says; None where neither does."""
    if stated:
        return Why(stated, "run:/topology/version", "as stated: Ray in the image")
    tag = _RAY_IMAGE.fullmatch(image)
    return Why(tag["version"], "run:/image", "the tag of Ray's image") if tag else None


def ray_cluster(resolution: Resolution) -> Tree:
    head, *groups = resolution.binding.roles
    version = ray_version(resolution.image(head)[0], cluster_of(resolution.needs).version)
    return {
        **({"rayVersion": version} if version else {}),
        **_autoscaling(resolution),
        "headGroupSpec": {
            "rayStartParams": {
                **_of_head(resolution, head),
                "dashboard-host": "0.0.0.0",  # noqa: S104 - inside the pod
                **_stated(resolution, head),
            },
            "template": _head(resolution, head),
        },
        **({"workerGroupSpecs": [_group(resolution, role) for role in groups]} if groups else {}),
    }


def _of_head(resolution: Resolution, head: Role) -> Tree:
    """No task is placed on a head without ranks; of one with ranks the operator reads the CPUs from the limits."""
    gpus = str(resolution.gpus_of(head))
    if not head.holds_ranks:
        return {"num-cpus": "0", "num-gpus": gpus}
    return {"num-gpus": Why(gpus, "run:/topology/gpus_per_node", "the head is a node")}


def _stated(resolution: Resolution, role: Role) -> Tree:
    stated = cluster_of(resolution.needs).start_params.get(role.name, {})
    return {name: Why(value, f"run:/topology/start_params/{role.name}/{name}", "as asked") for name, value in stated.items()}


def _head(resolution: Resolution, head: Role) -> Tree:
    """Ports that the head states are all that the operator puts into its Service, so Ray's own are among them
    (common/service.go, getServicePorts).
    """
    template = pod_template(resolution, head, {"restartPolicy": "Never"})
    container = template["spec"]["containers"][0]
    if stated := container.get("ports"):
        missing = RAY_PORTS.items() - {(port.name, port.number) for port in resolution.processes[head.name].ports}
        own = [{"name": name, "containerPort": number, "protocol": "TCP"} for name, number in sorted(missing)]
        container["ports"] = [*stated, *(Why(port, "trainwright", "workers or submitter reach the head by it") for port in own)]
    return template


def _autoscaling(resolution: Resolution) -> Tree:
    """The operator gives the autoscaler's container no rights of its own, which pod security `restricted` asks of each."""
    if not resolution.needs.autoscaled:
        return {"enableInTreeAutoscaling": False}
    rights = container_security(resolution.security_of(resolution.binding.roles[0]))
    amounts = {"cpu": "500m", "memory": "512Mi"}
    options = {"resources": {"requests": amounts, "limits": amounts}, **({"securityContext": rights} if rights else {})}
    asked = Why(True, "run:/topology/autoscaling", "Ray asks for workers while the driver runs, and lets them go")
    return {"enableInTreeAutoscaling": asked, "autoscalerOptions": options}


def _group(resolution: Resolution, role: Role) -> Tree:
    bounds, at = resolution.needs.autoscaled.get(role.name), f"run:/topology/autoscaling/{role.name}"
    least = most = pods = Why(role.pods, role.counted_in, "all of them, no more and no less: ranks wait for each other")
    if bounds:
        pods = Why(role.pods, role.counted_in, "with which the cluster begins")
        least = Why(bounds.least, f"{at}/min_nodes", "as asked")
        most = Why(bounds.most, f"{at}/max_nodes", "as asked")
    return {
        "groupName": role.name,
        "replicas": pods,
        "minReplicas": least,
        "maxReplicas": most,
        "numOfHosts": 1,
        "rayStartParams": {**_offers(resolution, role), **_stated(resolution, role)},
        "template": pod_template(resolution, role, {"restartPolicy": "Never"}),
    }


def group_reasons(place: int) -> dict[str, str]:
    return {
        f"{GROUPS}/{place}/numOfHosts": "one pod a replica",
        f"{GROUPS}/{place}/rayStartParams": "the operator reads CPUs and memory from the limits",
        **template_reasons(group_at(place)),
        group_at(place): "a pod of Ray's workers; the operator adds the command, shared memory and probes",
    }


def _offers(resolution: Resolution, role: Role) -> Tree:
    """The operator knows GPUs by the end of their resource's name, so a slice of one would not count (common/pod.go)."""
    gpus, at = resolution.gpus_of(role), f"run:/roles/{role.name}/gpus" if role.further else "run:/topology/gpus_per_node"
    return {"num-gpus": Why(str(gpus), at, "whatever the resource is called")} if gpus else {}


def submitter(resolution: Resolution) -> Tree:
    """Anywhere in the cluster, since it needs no GPU, and beside the workers too: where every pool is tainted it has no other
    place, and the cluster would hold its GPUs and wait for it.
    """
    run, security = resolution.run, resolution.security_of(None)
    name, pool = resolution.pool_of(resolution.binding.ranks)
    image, stated = resolution.image(resolution.binding.roles[0])
    rights = container_security(security)
    home = Why({"name": "HOME", "value": "/tmp"}, "trainwright", "the root file system is read-only")  # noqa: S108
    secrets = [{"name": name} for name in run.image_pull_secrets]
    amounts = Why({"cpu": "1", "memory": "1Gi"}, "trainwright", "the limits of the operator's own submitter, as requests too")
    annotations, affinity = pod_annotations(run, None), stated_affinity(run, None, {})
    return {
        "metadata": {"labels": pod_labels(run, resolution.plan, None), **({"annotations": annotations} if annotations else {})},
        "spec": {
            "restartPolicy": "Never",
            **({"affinity": affinity} if affinity else {}),
            **pool_tolerations(name, pool, "it may have no place but beside the workers", off_lost_nodes(resolution, pool)),
            "automountServiceAccountToken": Why(False, "trainwright", "it needs no access to the API server"),
            **({"imagePullSecrets": Why(secrets, "run:/image_pull_secrets", "as asked")} if secrets else {}),
            "enableServiceLinks": False,
            "securityContext": pod_security(security),
            "containers": [
                {
                    "name": Why("ray-job-submitter", "trainwright", "the one container"),
                    "image": Why(image, stated, "Ray's command line, of the same release as the head"),
                    **pull_policy(run),
                    **({"env": [home]} if security.read_only_root else {}),
                    "resources": {"requests": amounts, "limits": amounts},
                    **({"securityContext": rights} if rights else {}),
                    **({"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]} if security.read_only_root else {}),  # noqa: S108
                }
            ],
            **({"volumes": [{"name": "tmp", "emptyDir": {}}]} if security.read_only_root else {}),
        },
    }
