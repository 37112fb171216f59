"""Packages that pip installs for a script before it starts: the folder that they go to, and the container that does it.

The root may be read-only and the user not root, so they go to a volume of the pod, by ``--target`` (pip: its dependencies are
not looked at then, nor what the image has). Hashes decide what a file is, whatever else pip is told by the image.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from trainwright.cluster import Cluster
from trainwright.handshake import Variable
from trainwright.plan.model import SecurityPlan
from trainwright.run import Container, Run, ScratchMount, ScriptWorkload, SharedMount
from trainwright.security import Security
from trainwright.units import Bytes, Cpu
from trainwright_trainer.contract.layout import SPEC_DIRECTORY

FOLDER = "/opt/trainwright-packages"
"""Where they are in the pods."""
CONTAINER = "install-packages"
REQUIREMENTS = "requirements.txt"
SOURCE = "run:/workload/packages"
_LARGEST = "20Gi"
"""Of all packages together: a build of torch for CUDA with NVIDIA's libraries takes 7."""


def packages_of(run: Run) -> tuple[str, ...]:
    """Lines for pip; none where the work is no script."""
    return tuple(run.workload.packages) if isinstance(run.workload, ScriptWorkload) else ()


def packages_mount() -> ScratchMount:
    return ScratchMount(scratch=Bytes.parse(_LARGEST))


def packages_variable(run: Run) -> list[Variable]:
    """What makes Python find them; a run that has its own names the folder in it."""
    reason = "where the packages of the run are; what stands there wins over the image's own"
    return [Variable("PYTHONPATH", FOLDER, reason, SOURCE)] if packages_of(run) else []


def packages_container(run: Run, cluster: Cluster, image: str, security: SecurityPlan, has_scratch: bool) -> Container:
    """What installs them, in the image of the work: the same interpreter decides which files fit.

    Args:
        has_scratch: whether the pod has a volume at /tmp, where pip unpacks.
    """
    scratch = {"/tmp": SharedMount(same_as="/tmp")} if has_scratch else {}  # noqa: S108 - paths in the container
    return Container(
        name=CONTAINER, kind="init", image=image,
        command=(
            _interpreter(run), "-m", "pip", "install", "--isolated", "--disable-pip-version-check", "--no-input",
            "--no-cache-dir", "--no-compile", "--only-binary=:all:", "--require-hashes", "--no-deps", "--upgrade",
            f"--index-url={cluster.package_index}", f"--target={FOLDER}", f"--requirement={SPEC_DIRECTORY}/{REQUIREMENTS}",
        ),
        env={"HOME": "/tmp"},  # noqa: S108
        mounts={FOLDER: SharedMount(same_as=FOLDER), SPEC_DIRECTORY: SharedMount(same_as=SPEC_DIRECTORY), **scratch},
        cpu=Cpu.parse(1), memory=Bytes.parse("1Gi"),
        security=Security(read_only_root=True) if security.read_only_root else Security(),
    )  # fmt: skip


def _interpreter(run: Run) -> str:
    """That of the program, where it is started by one."""
    first = run.workload.command[0] if isinstance(run.workload, ScriptWorkload) else ""
    return first if PurePosixPath(first).name.startswith("python") else "python"
