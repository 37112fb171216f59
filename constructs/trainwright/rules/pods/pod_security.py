"""The pod security standards that the API server enforces on a namespace.

Source: kubernetes.io, Concepts, Security, Pod Security Standards; the levels `baseline` and `restricted`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainwright.findings.locate import at
from trainwright.manifest.pods import containers_of

Tree = dict[str, Any]
LevelViolation = tuple[str, str]
"""Pointer into the pod's ``spec``, and what the level refuses there."""

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
    for pointer, container in containers_of(pod):
        yield from _container_baseline(pointer, container)
    if level == "restricted":
        yield from _pod_restricted(pod, _restricted_volumes(kubernetes))
        for pointer, container in containers_of(pod):
            yield from _container_restricted(pointer, container, _context(pod))


def level_of(pod: Tree, kubernetes: str) -> tuple[str, list[str]]:
    """The strictest level that allows a pod, and all that `restricted` refuses of it."""
    problems = list(dict.fromkeys(problem for _, problem in violations(pod, "restricted", kubernetes)))
    if not problems:
        return "restricted", problems
    return "privileged" if any(violations(pod, "baseline", kubernetes)) else "baseline", problems


def _context(owner: Tree) -> Tree:
    context: Tree = owner.get("securityContext") or {}
    return context


def _pod_baseline(pod: Tree) -> Iterator[LevelViolation]:
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield f"/{field}", field
    for number, volume in enumerate(pod.get("volumes") or []):
        if "hostPath" in volume:
            yield f"/volumes/{number}/hostPath", f"hostPath in volume {volume['name']}"
    for number, sysctl in enumerate(_context(pod).get("sysctls") or []):
        if sysctl["name"] not in SAFE_SYSCTLS:
            yield f"/securityContext/sysctls/{number}", f"sysctl {sysctl['name']}"
    for field, problem in _profiles(_context(pod)):
        yield f"/securityContext/{field}", f"{problem} in the pod"


def _container_baseline(pointer: str, container: Tree) -> Iterator[LevelViolation]:
    context = _context(container)
    for field, problem in (*_privileges(context), *_profiles(context)):
        yield f"{pointer}/securityContext/{field}", f"{problem} in container {container['name']}"
    for field, problem in _reach(container):
        yield f"{pointer}/{field}", f"{problem} in container {container['name']}"


def _privileges(context: Tree) -> Iterator[LevelViolation]:
    if context.get("privileged"):
        yield "privileged", "privileged"
    for number, capability in enumerate((context.get("capabilities") or {}).get("add") or []):
        if capability not in BASELINE_CAPABILITIES:
            yield f"capabilities/add/{number}", f"capability {capability}"
    if context.get("procMount") not in (None, "Default"):
        yield "procMount", f"procMount {context['procMount']}"


def _reach(container: Tree) -> Iterator[LevelViolation]:
    """Ways from a container to its node, and from the kubelet to other hosts."""
    for number, port in enumerate(container.get("ports") or []):
        if port.get("hostPort"):
            yield f"ports/{number}/hostPort", "hostPort"
    for field in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle/postStart", "lifecycle/preStop"):
        handler = at(container, f"/{field}") or {}
        if any((handler.get(action) or {}).get("host") for action in ("httpGet", "tcpSocket")):
            yield field, "the host of a probe or hook"


def _profiles(context: Tree) -> Iterator[LevelViolation]:
    if (context.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield "seccompProfile", "seccomp profile Unconfined"
    if (context.get("appArmorProfile") or {}).get("type") == "Unconfined":
        yield "appArmorProfile", "AppArmor profile Unconfined"
    linux = context.get("seLinuxOptions") or {}
    if linux.get("type", "") not in SELINUX_TYPES or linux.get("user") or linux.get("role"):
        yield "seLinuxOptions", "SELinux options"
    if (context.get("windowsOptions") or {}).get("hostProcess"):
        yield "windowsOptions", "hostProcess"


def _restricted_volumes(kubernetes: str) -> frozenset[str]:
    release = tuple(map(int, kubernetes.split(".")))
    return RESTRICTED_VOLUMES | {"image"} if release >= IMAGES_ARE_ALLOWED else RESTRICTED_VOLUMES


def _pod_restricted(pod: Tree, allowed: frozenset[str]) -> Iterator[LevelViolation]:
    for number, volume in enumerate(pod.get("volumes") or []):
        for kind in sorted(volume.keys() - {"name"} - allowed - {"hostPath"}):
            yield f"/volumes/{number}/{kind}", f"{kind} in volume {volume['name']}"
    if _context(pod).get("runAsUser") == 0:
        yield "/securityContext/runAsUser", "user 0"


def _container_restricted(pointer: str, container: Tree, pod: Tree) -> Iterator[LevelViolation]:
    name, context, above = container["name"], _context(container), f"{pointer}/securityContext"
    capabilities = context.get("capabilities") or {}
    profile = (context.get("seccompProfile") or pod.get("seccompProfile") or {}).get("type")
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{above}/allowPrivilegeEscalation", f"container {name} without allowPrivilegeEscalation: false"
    if context.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield f"{above}/runAsNonRoot", f"container {name} without runAsNonRoot: true"
    if profile not in ("RuntimeDefault", "Localhost"):
        yield f"{above}/seccompProfile", f"container {name} without a seccomp profile"
    if "ALL" not in (capabilities.get("drop") or []):
        yield f"{above}/capabilities/drop", f"container {name} without capabilities: {{drop: [ALL]}}"
    if context.get("runAsUser") == 0:
        yield f"{above}/runAsUser", f"user 0 in container {name}"
    for number, capability in enumerate(capabilities.get("add") or []):
        if capability in BASELINE_CAPABILITIES - RESTRICTED_CAPABILITIES:
            yield f"{above}/capabilities/add/{number}", f"capability {capability} in container {name}"
