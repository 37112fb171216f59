"""Takes a snapshot with the user's own kubectl: what a namespace, its nodes and its queues say, and what could not be had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from trainwright.live.case import LivePod, carriers
from trainwright.live.kubectl import Kubectl, KubectlError, Reason
from trainwright.live.snapshot import POD, Object, Snapshot, of_list
from trainwright.manifest.kinds import GroupKind
from trainwright.objects.fields import items, text
from trainwright.operators.operator import FOLDERS
from trainwright_trainer.contract.layout import HTTP_PORT

_NAMESPACED = (
    "pods", "events", "configmaps", "services", "persistentvolumeclaims", "serviceaccounts", "resourcequotas",
    "networkpolicies.networking.k8s.io", "workloads.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io",
    "podgroups.scheduling.volcano.sh", "podgroups.scheduling.x-k8s.io", "trainingruntimes.trainer.kubeflow.org",
)  # fmt: skip
_OF_CLUSTER = (
    "nodes", "namespaces", "priorityclasses.scheduling.k8s.io", "storageclasses.storage.k8s.io", "clusterqueues.kueue.x-k8s.io",
    "resourceflavors.kueue.x-k8s.io", "queues.scheduling.volcano.sh", "clustertrainingruntimes.trainer.kubeflow.org",
)  # fmt: skip
TAIL, MOST_LOGS = 200, 40
"""Lines of a log, and logs, those of pods that failed first."""


def collect(kubectl: Kubectl, namespaces: Sequence[str]) -> dict[str, Any]:
    """The list that a file of ``trainwright collect`` holds.

    Values of Secrets and of ConfigMaps are not in it.

    Raises:
        KubectlError: where the cluster cannot be reached at all.
    """
    served, unanswered = kubectl.served()
    lacks = {kind: why for group, why in unanswered.items() for kind in _of_group(group)}
    found = [one for name in _served(_OF_CLUSTER, served) for one in _get(kubectl, lacks, name)]
    for namespace in namespaces:
        here = Kubectl(kubectl.context, namespace)
        for name in (*_served(_NAMESPACED, served), *_carriers(served)):
            found += _get(here, lacks, name)
        found += _secrets(here, lacks, namespace)
    found = list({text(one, "/metadata/uid") or id(one): one for one in found}.values())
    found += _elsewhere(kubectl, lacks, namespaces)
    logs, metrics = _logs(kubectl, found, lacks), _metrics(kubectl, found)
    collected = {"taken": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "lacks": lacks, "logs": logs, "metrics": metrics}
    return {"apiVersion": "v1", "kind": "List", "collected": collected, "items": [_bare(one) for one in found]}


def take(kubectl: Kubectl, namespaces: Sequence[str]) -> Snapshot:
    """The same, to be read at once."""
    return of_list(collect(kubectl, namespaces))


def _served(wanted: Sequence[str], served: set[str]) -> Iterator[str]:
    """Kinds that the cluster does not have are none that it lacks: there are no objects of them."""
    yield from (name for name in wanted if name in served)


def _carriers(served: set[str]) -> Iterator[str]:
    yield from _served([_resource(kind) for kind in FOLDERS], served)


def _resource(kind: GroupKind) -> str:
    """What kubectl calls the objects of a kind that carries runs."""
    return f"{kind.kind.lower()}s.{kind.group}"


def _of_group(group: str) -> list[str]:
    """The kinds that are asked for of a group of the API; its own name where they are none."""
    return [kind for name, kind in _KINDS.items() if name.partition(".")[2] == group] or [group]


def _get(kubectl: Kubectl, lacks: dict[str, str], name: str) -> list[Object]:
    try:
        return list(kubectl.get(name))
    except KubectlError as error:
        if error.reason not in _OF_ONE_KIND:
            raise
        lacks[_KINDS.get(name, name)] = str(error)
        return []


_OF_ONE_KIND = (Reason.FORBIDDEN, Reason.UNSERVED, Reason.NOT_FOUND, Reason.UNASKED, Reason.OTHER)
"""Failures with which the cluster answers all the same, and other kinds can be read."""
_KINDS = {
    **{_resource(kind): str(kind) for kind in FOLDERS},
    "localqueues.kueue.x-k8s.io": "LocalQueue", "clusterqueues.kueue.x-k8s.io": "ClusterQueue",
    "pods": "Pod", "events": "Event", "configmaps": "ConfigMap", "services": "Service", "nodes": "Node",
    "namespaces": "Namespace",
    "persistentvolumeclaims": "PersistentVolumeClaim", "networkpolicies.networking.k8s.io": "NetworkPolicy",
    "serviceaccounts": "ServiceAccount", "workloads.kueue.x-k8s.io": "Workload", "jobs.batch": "Job",
}  # fmt: skip
"""Of what the absence of an object would prove something."""


def _secrets(kubectl: Kubectl, lacks: dict[str, str], namespace: str) -> list[Object]:
    """Their names: the table that kubectl prints by default is made by the API server, which sends no value for it."""
    try:
        rows = [line.split() for line in kubectl.run("get", "secrets", "--no-headers", "--ignore-not-found").splitlines()]
    except KubectlError as error:
        lacks["Secret"] = str(error)
        return []
    return [
        {"apiVersion": "v1", "kind": "Secret", "type": row[1], "metadata": {"name": row[0], "namespace": namespace}}
        for row in rows if len(row) > 1
    ]  # fmt: skip


def _elsewhere(kubectl: Kubectl, lacks: dict[str, str], namespaces: Sequence[str]) -> list[Object]:
    """What pods of other namespaces take of the nodes, and nothing else of them."""
    try:
        pods = kubectl.get("pods", "--all-namespaces", "--field-selector=status.phase!=Succeeded,status.phase!=Failed")
    except KubectlError as error:
        lacks["pods of other namespaces"] = str(error)
        return []
    return [
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {key: pod["metadata"][key] for key in ("name", "namespace", "uid")},
            "spec": {
                "nodeName": text(pod, "/spec/nodeName"), "priority": pod["spec"].get("priority", 0),
                "containers": [
                    {"name": c["name"], "resources": c.get("resources", {})} for _, c in items(pod, "/spec/containers")
                ],
            },
            "status": {"phase": text(pod, "/status/phase")},
        }
        for pod in pods if pod["metadata"]["namespace"] not in namespaces
    ]  # fmt: skip


def _bare(one: Object) -> Object:
    """Without what is nobody's business: data of ConfigMaps, and what kubectl remembers of an object."""
    annotations = {
        key: value for key, value in (one["metadata"].get("annotations") or {}).items()
        if key != "kubectl.kubernetes.io/last-applied-configuration"
    }  # fmt: skip
    metadata = {key: value for key, value in one["metadata"].items() if key not in ("managedFields", "annotations")}
    hidden = ("data", "binaryData", "stringData") if one["kind"] in ("ConfigMap", "Secret") else ()
    rest = {key: value for key, value in one.items() if key not in (*hidden, "metadata")}
    return {**rest, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def _logs(kubectl: Kubectl, found: Sequence[Object], lacks: dict[str, str]) -> dict[str, str]:
    """The last lines of containers of our runs that have run; of one that was started again, of the time before."""
    snapshot = Snapshot(found)
    pods = [LivePod(child) for one in carriers(snapshot) for child in snapshot.below(one) if GroupKind.of(child) == POD]
    logs: dict[str, str] = {}
    for pod in sorted(pods, key=lambda pod: pod.phase != "Failed")[:MOST_LOGS]:
        for _, container in pod.containers():
            state = container.get("state") or {}
            again = bool(container.get("restartCount")) and "terminated" not in state  # whose log is that of its last time
            if not again and "waiting" in state:
                continue
            where = Kubectl(kubectl.context, str(pod.manifest["metadata"]["namespace"]))
            name = text(container, "/name")
            try:
                words = ("logs", pod.name, f"--container={name}", f"--tail={TAIL}", *(["--previous"] if again else []))
                logs[f"{pod.name}/{name}"] = where.run(*words)
            except KubectlError as error:
                lacks[f"log of {pod.name}/{name}"] = str(error)
    if len(pods) > MOST_LOGS:
        lacks["logs"] = f"of {len(pods) - MOST_LOGS} pods: the logs of {MOST_LOGS} are here, those that failed first"
    return logs


def _metrics(kubectl: Kubectl, found: Sequence[Object]) -> dict[str, str]:
    """What the first pod of each run serves, through the API server; a run that serves nothing has none."""
    snapshot = Snapshot(found)
    metrics: dict[str, str] = {}
    for one in carriers(snapshot):
        pods = [LivePod(child) for child in snapshot.below(one) if GroupKind.of(child) == POD]
        up = [pod for pod in pods if text(pod.condition("Ready"), "/status") == "True"]  # one that is told to end saves first
        for pod in sorted(up, key=lambda pod: (pod.role, int(pod.index or 0)))[:1]:
            path = f"/api/v1/namespaces/{pod.manifest['metadata']['namespace']}/pods/{pod.name}:{HTTP_PORT}/proxy/metrics"
            try:
                lines = kubectl.run("get", f"--raw={path}").splitlines()
            except KubectlError:
                continue
            metrics[pod.name] = "\n".join(line for line in lines if line.startswith("trainwright_"))
    return metrics


