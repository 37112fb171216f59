"""Who a pod's processes are, and what they may do, as Kubernetes writes it."""

from __future__ import annotations

from typing import Any

from trainwright.manifest.provenance import Tree, Why
from trainwright.plan.model import SecurityPlan


def pod_security(security: SecurityPlan) -> Tree:
    """The user of all containers, and no system calls but the usual."""
    fs_group: Tree = {"fsGroup": _value(security, "fs_group"), "fsGroupChangePolicy": "OnRootMismatch"}
    return {
        **({"runAsNonRoot": _why(security, "root", True)} if security.non_root else {}),
        **({} if security.user is None else {"runAsUser": _value(security, "user")}),
        **({} if security.group is None else {"runAsGroup": _value(security, "group")}),
        **({} if security.fs_group is None else fs_group),
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(security: SecurityPlan) -> Tree:
    """What a container may do; without a key, what the container runtime and the image say."""
    capabilities: Tree = {"drop": ["ALL"]} if security.hardened else {}
    if security.capabilities:
        source = security.sources["capabilities"]
        capabilities["add"] = [Why(name, source, "as asked") for name in security.capabilities]
    return {
        **({"privileged": _why(security, "privileged", True)} if security.privileged else {}),
        **({"allowPrivilegeEscalation": False} if security.hardened else {}),
        **({"readOnlyRootFilesystem": _why(security, "read_only_root", True)} if security.read_only_root else {}),
        **({"capabilities": capabilities} if capabilities else {}),
    }


def _value(security: SecurityPlan, field: str) -> Any:
    """Groups that nobody states follow the user."""
    value, sources = getattr(security, field), security.sources
    if field not in sources and "user" in sources:
        return Why(value, sources["user"], "that of the user")
    return _why(security, field, value)


def _why(security: SecurityPlan, field: str, value: Any) -> Any:
    """A constant of the template, whose reason is there, or what is stated somewhere."""
    return Why(value, security.sources[field], "as asked") if field in security.sources else value
