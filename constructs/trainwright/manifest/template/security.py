"""Who a pod's processes are, and what they may do, as Kubernetes writes it."""

from __future__ import annotations

from typing import Any

from trainwright.manifest.provenance import Tree, Why
from trainwright.plan.model import SecurityPlan

RESTRICTED_ASKS = "as the `restricted` pod security standard asks"
CONSTANTS = {
    "user": "the user of our images",
    "group": "the group of our images",
    "fs_group": "the group of our images, so that they can write to volumes",
    "read_only_root": "our programs write to mounts and /tmp alone",
}
"""Field of the plan -> why it is as it is where nobody states it."""


def pod_security(security: SecurityPlan) -> Tree:
    """The user of all containers, and no system calls but the usual."""
    once = Why("OnRootMismatch", "trainwright", "files get the group only where the top folder has another one: mounts are fast")
    fs_group: Tree = {"fsGroup": _value(security, "fs_group"), "fsGroupChangePolicy": once}
    return {
        **({"runAsNonRoot": _non_root(security)} if security.non_root else {}),
        **({} if security.user is None else {"runAsUser": _value(security, "user")}),
        **({} if security.group is None else {"runAsGroup": _value(security, "group")}),
        **({} if security.fs_group is None else fs_group),
        "seccompProfile": restricted({"type": "RuntimeDefault"}),
    }


def container_security(security: SecurityPlan) -> Tree:
    """What a container may do; without a key, what the container runtime and the image say."""
    capabilities: Tree = {"drop": restricted(["ALL"])} if security.hardened else {}
    if security.capabilities:
        source = security.sources["capabilities"]
        capabilities["add"] = [Why(name, source, "as asked") for name in security.capabilities]
    return {
        **({"privileged": _why(security, "privileged", True)} if security.privileged else {}),
        **({"allowPrivilegeEscalation": restricted(False)} if security.hardened else {}),
        **({"readOnlyRootFilesystem": _why(security, "read_only_root", True)} if security.read_only_root else {}),
        **({"capabilities": capabilities} if capabilities else {}),
    }


def restricted(value: Any) -> Why:
    """A value that nobody states and the strictest standard demands."""
    return Why(value, "trainwright", RESTRICTED_ASKS)


def _non_root(security: SecurityPlan) -> Why:
    """As stated; or since a user is, who is not root."""
    if "root" not in security.sources and "user" in security.sources:
        return Why(True, security.sources["user"], "the user is not root")
    return Why(True, security.sources.get("root", "trainwright"), "as asked" if "root" in security.sources else RESTRICTED_ASKS)


def _value(security: SecurityPlan, field: str) -> Any:
    """Groups that nobody states follow the user."""
    value, sources = getattr(security, field), security.sources
    if field not in sources and "user" in sources:
        return Why(value, sources["user"], "that of the user")
    return _why(security, field, value)


def _why(security: SecurityPlan, field: str, value: Any) -> Why:
    if field in security.sources:
        return Why(value, security.sources[field], "as asked")
    return Why(value, "trainwright", CONSTANTS[field])
