"""The pod security standards that the API server enforces on a namespace.

Source: kubernetes.io, Concepts, Security, Pod Security Standards; the levels `baseline` and `restricted`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainwright.manifest.pods import containers_of

Tree = dict[str, Any]
LevelViolation = tuple[str, str | None, str]
"""Field of the pod's ``spec``, the item in it by name, and what the level refuses."""

BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
RESTRICTED_CAPABILITIES = frozenset({"NET_BIND_SERVICE"})
RESTRICTED_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
IMAGES_ARE_ALLOWED = (1, 33)
"""Release from which `restricted` allows volumes of images (kubernetes#130394), of which the page above says nothing."""
SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_wmem",
    }
)
SELINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})


def violations(pod: Tree, level: str, kubernetes: str) -> Iterator[LevelViolation]:
    """What a pod's ``spec`` holds that a level refuses in a version of Kubernetes; ``privileged`` refuses nothing."""
    if level == "privileged":
        return
    yield from _pod_baseline(pod)
    for field, container in containers_of(pod):
        yield from _container_baseline(field, container)
    if level == "restricted":
        yield from _pod_restricted(pod, _restricted_volumes(kubernetes))
        for field, container in containers_of(pod):
            yield from _container_restricted(field, container, _context(pod))


def level_of(pod: Tree, kubernetes: str) -> tuple[str, list[str]]:
    """The strictest level that allows a pod, and all that `restricted` refuses of it."""
    problems = list(dict.fromkeys(problem for _, _, problem in violations(pod, "restricted", kubernetes)))
    allowed = (level for level in ("restricted", "baseline") if next(violations(pod, level, kubernetes), None) is None)
    return next(allowed, "privileged"), problems


def _context(owner: Tree) -> Tree:
    context: Tree = owner.get("securityContext") or {}
    return context


def _pod_baseline(pod: Tree) -> Iterator[LevelViolation]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field, None, field
    for volume in pod.get("volumes") or []:
        if "hostPath" in volume:
            yield "volumes", volume["name"], f"hostPath in volume {volume['name']}"
    for sysctl in _context(pod).get("sysctls") or []:
        if sysctl["name"] not in SAFE_SYSCTLS:
            yield "securityContext", None, f"sysctl {sysctl['name']}"
    for problem in _profiles(_context(pod)):
        yield "securityContext", None, f"{problem} in the pod"


def _container_baseline(field: str, container: Tree) -> Iterator[LevelViolation]:
    name, context = container["name"], _context(container)
    for problem in (*_privileges(context), *_profiles(context), *_reach(container)):
        yield field, name, f"{problem} in container {name}"


def _privileges(context: Tree) -> Iterator[str]:
    if context.get("privileged"):
        yield "privileged"
    for capability in (context.get("capabilities") or {}).get("add") or []:
        if capability not in BASELINE_CAPABILITIES:
            yield f"capability {capability}"
    if context.get("procMount") not in (None, "Default"):
        yield f"procMount {context['procMount']}"


def _reach(container: Tree) -> Iterator[str]:
    """Ways from a container to its node, and from the kubelet to other hosts."""
    if any(port.get("hostPort") for port in container.get("ports") or []):
        yield "hostPort"
    handlers = [container.get(f"{kind}Probe") for kind in ("liveness", "readiness", "startup")]
    hooks = [(container.get("lifecycle") or {}).get(hook) for hook in ("postStart", "preStop")]  # beside them is stopSignal
    for handler in (*handlers, *hooks):
        if any(((handler or {}).get(action) or {}).get("host") for action in ("httpGet", "tcpSocket")):
            yield "the host of a probe or hook"


def _profiles(context: Tree) -> Iterator[str]:
    if (context.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield "seccomp profile Unconfined"
    if (context.get("appArmorProfile") or {}).get("type") == "Unconfined":
        yield "AppArmor profile Unconfined"
    linux = context.get("seLinuxOptions") or {}
    if linux.get("type", "") not in SELINUX_TYPES or linux.get("user") or linux.get("role"):
        yield "SELinux options"
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield "hostProcess"


def _restricted_volumes(kubernetes: str) -> frozenset[str]:
    release = tuple(map(int, kubernetes.split(".")))
    return RESTRICTED_VOLUMES | {"image"} if release >= IMAGES_ARE_ALLOWED else RESTRICTED_VOLUMES


def _pod_restricted(pod: Tree, allowed: frozenset[str]) -> Iterator[LevelViolation]:
    for volume in pod.get("volumes") or []:
        for kind in sorted(volume.keys() - {"name"} - allowed - {"hostPath"}):
            yield "volumes", volume["name"], f"{kind} in volume {volume['name']}"
    if _context(pod).get("runAsUser") == 0:
        yield "securityContext", None, "user 0"


def _container_restricted(field: str, container: Tree, pod: Tree) -> Iterator[LevelViolation]:
    name, context = container["name"], _context(container)
    capabilities = context.get("capabilities") or {}
    missing = {
        "allowPrivilegeEscalation: false": context.get("allowPrivilegeEscalation") is False,
        "runAsNonRoot: true": context.get("runAsNonRoot", pod.get("runAsNonRoot")) is True,
        "a seccomp profile": (context.get("seccompProfile") or pod.get("seccompProfile") or {}).get("type")
        in ("RuntimeDefault", "Localhost"),
        "capabilities: {drop: [ALL]}": "ALL" in (capabilities.get("drop") or []),
    }
    for wanted, there in missing.items():
        if not there:
            yield field, name, f"container {name} without {wanted}"
    if context.get("runAsUser") == 0:
        yield field, name, f"user 0 in container {name}"
    for capability in capabilities.get("add") or []:
        if capability in BASELINE_CAPABILITIES - RESTRICTED_CAPABILITIES:
            yield field, name, f"capability {capability} in container {name}"
