"""What the API server writes into pods and Services when it stores them: defaults, and its built-in admission plugins.

kubernetes, pkg/apis/core/v1/defaults.go, plugin/pkg/admission/{serviceaccount,priority,defaulttolerationseconds}. A field that is
there stays. Functions change the mapping that they are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Tree = dict[str, Any]

EVERY_POD: Mapping[str, Any] = {
    "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {},
    "terminationGracePeriodSeconds": 30, "enableServiceLinks": True,
}  # fmt: skip
EVERY_CONTAINER: Mapping[str, Any] = {
    "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
}  # fmt: skip
EVERY_PROBE: Mapping[str, int] = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
FILE_SOURCES = ("configMap", "secret", "downwardAPI", "projected")
LOST_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
LOST_NODE_SECONDS = 300
"""For as long a pod stays bound to a node that is lost, unless it says so itself."""


def fill(owner: Tree, values: Mapping[str, Any]) -> None:
    """Fields that are not there get a value of their own."""
    for key, value in values.items():
        owner.setdefault(key, dict(value) if isinstance(value, Mapping) else value)


def fill_in_pod(spec: Tree) -> None:
    """The defaults of a pod's spec, which a template in a kind of Kubernetes gets too."""
    fill(spec, EVERY_POD)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        _fill_in_container(container, host_network=bool(spec.get("hostNetwork")))
    for volume in spec.get("volumes", ()):
        for source in FILE_SOURCES:
            if source in volume:
                volume[source].setdefault("defaultMode", 0o644)


def _fill_in_container(container: Tree, *, host_network: bool) -> None:
    fill(container, EVERY_CONTAINER)
    image = container.get("image", "").rpartition("/")[2]
    moves = "@" not in image and image.partition(":")[2] in ("", "latest")
    container.setdefault("imagePullPolicy", "Always" if moves else "IfNotPresent")
    if limits := container["resources"].get("limits"):
        fill(container["resources"].setdefault("requests", {}), limits)
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if host_network:
            port.setdefault("hostPort", port["containerPort"])
    for variable in container.get("env", ()):
        if variable.get("value") == "":  # what is empty is not written
            del variable["value"]
        if "fieldRef" in variable.get("valueFrom", {}):
            variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")
    for probe in _probes(container):
        fill(probe, EVERY_PROBE)
        if "httpGet" in probe:
            fill(probe["httpGet"], {"path": "/", "scheme": "HTTP"})


def _probes(container: Tree) -> Iterator[Tree]:
    yield from (container[name] for name in ("startupProbe", "readinessProbe", "livenessProbe") if name in container)


def admit_pod(spec: Tree, priorities: Mapping[str, int]) -> None:
    """What only a pod itself gets, and no template.

    A pod that does not turn it off gets a volume with a token of its ServiceAccount too, under a random name: that is left out.

    Args:
        spec: of the pod.
        priorities: of each PriorityClass. A class that is not there has priority 0 here, and would be refused.
    """
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("priority", priorities.get(spec.get("priorityClassName", ""), 0))
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    for taint in LOST_NODE:
        if not any(one.get("key") in (taint, None) and one.get("effect", "NoExecute") == "NoExecute" for one in tolerations):
            seconds = {"tolerationSeconds": LOST_NODE_SECONDS}
            tolerations.append({"key": taint, "operator": "Exists", "effect": "NoExecute", **seconds})


def fill_in_service(spec: Tree) -> None:
    """The defaults of a Service, in a cluster with IPv4 addresses alone; an address that it gets is left out."""
    fill(spec, {
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    })  # fmt: skip
    if spec.get("clusterIP") == "None":
        spec.setdefault("clusterIPs", ["None"])
    for port in spec.get("ports", ()):
        fill(port, {"protocol": "TCP", "targetPort": port["port"]})
