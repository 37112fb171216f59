"""What brings the supervisor into a pod whose image has none: a volume of its image, or an init container that copies it."""

from __future__ import annotations

from trainwright.handshake import Role
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.security import container_security
from trainwright.plan import Resolution
from trainwright.plan.security import OWN
from trainwright.units import Cpu
from trainwright_trainer.contract.layout import BRING_MODULE, BROUGHT_FOLDER, IMAGE_FOLDER, brought_python

BRING_CONTAINER = "bring-supervisor"
_IMAGE = "cluster:/supervisor/image", "the image that has nothing but the supervisor and its Python"
_PLACE = Why(BROUGHT_FOLDER, "trainwright", "where the supervisor starts from")
VOLUME = "supervisor"
"""Its volume, or that with a number behind it where a claim is called so."""
FOLDER_SIZE = "256Mi"
"""Of the emptyDir: the folder has a third of it, and a file system takes whole blocks."""


def bring_containers(resolution: Resolution, role: Role, volume: str) -> list[Why]:
    """The init container that copies the folder; none where it is mounted, or where nothing is brought."""
    brought = resolution.brings(role)
    if brought is None or brought.mounted:
        return []
    command = [*brought_python(IMAGE_FOLDER), "-m", BRING_MODULE, BROUGHT_FOLDER]
    amounts = {"cpu": str(_cpu(resolution, role)), "memory": "128Mi"}
    return [
        Why({
            "name": BRING_CONTAINER,
            "image": Why(brought.image, *_IMAGE),
            "command": Why(command, "trainwright", "its own Python copies it: no program of the run's image has a part in it"),
            "resources": Why({"requests": dict(amounts), "limits": dict(amounts)}, "trainwright", "the pod has more anyway"),
            "terminationMessagePolicy": Why("FallbackToLogsOnError", "trainwright", "the log says what is missing"),
            "securityContext": container_security(OWN),
            "volumeMounts": [{"name": volume, "mountPath": _PLACE}],
        }, "trainwright", "brings the supervisor into an image that need not have it"),
    ]


def _cpu(resolution: Resolution, role: Role) -> Cpu:
    """One, for it copies thousands of files: with a tenth of that it takes ten seconds. But not more than the work itself, since
    a pod asks for the most that any of its containers needs at a time.
    """
    asked = [Cpu.parse(one.request) for one in resolution.amounts[role.name] if one.name == "cpu"]
    return min([Cpu.parse(1), *asked], key=lambda cpu: cpu.millicores)


def bring_volume(resolution: Resolution, role: Role, volume: str) -> list[Tree]:
    """The volume of that folder."""
    brought = resolution.brings(role)
    if brought is None:
        return []
    if brought.mounted:
        reference = Why(brought.image, *_IMAGE)
        return [{"name": volume, "image": Why({"reference": reference}, "trainwright", "the kubelet mounts it, read-only")}]
    return [{"name": volume, "emptyDir": {"sizeLimit": Why(FOLDER_SIZE, "trainwright", "the supervisor is copied there")}}]


def bring_mount(resolution: Resolution, role: Role, volume: str) -> list[Tree]:
    """Where the container that is supervised has it."""
    if resolution.brings(role) is None:
        return []
    return [{"name": volume, "mountPath": _PLACE, "readOnly": True}]
