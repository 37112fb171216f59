"""Who a pod's processes are, and what they may do: what the `restricted` pod security standard asks."""

from __future__ import annotations

from trainwright.manifest.provenance import Tree

USER_ID = 1000
"""User, group and file system group of every pod; the trainer's images use the same."""


def pod_security() -> Tree:
    """A user who is not root, and no system calls but the usual: what the `restricted` standard asks of a pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Tree:
    """What the `restricted` standard asks of a container, and a read-only root file system."""
    return {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
