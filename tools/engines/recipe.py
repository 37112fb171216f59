"""What is built here because no wheel of it exists: from which sdist, with which changes, and by which programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
SDISTS = FOLDER.parent.parent / "requirements" / "engines" / "sdists"


@dataclass(frozen=True)
class Recipe:
    """How one engine's wheel is made; all of it goes into the digest that names the wheel in the cache."""

    name: str
    environment: dict[str, str]
    """Variables that the engine's setup.py reads."""
    programs: dict[str, str]
    """Program -> the Debian package that has it."""
    versions: tuple[tuple[str, ...], ...]
    """Commands whose output the wheel depends on."""
    patches: tuple[Path, ...] = field(default=())
    """Applied in the sdist's folder with ``patch -p1``."""

    @property
    def sdist(self) -> Path:
        """The requirement that pins version and digest of the sdist."""
        return SDISTS / f"{self.name}.txt"


# Both setup scripts compile for the processor that they run on.
_COMPILER = (("c++", "--version"), ("c++", "-march=native", "-Q", "--help=target"))

DEEPSPEED = Recipe(
    name="deepspeed",
    # An operator that is not in the wheel is compiled when a rank first needs it, for minutes and behind a lock file. A killed
    # rank leaves that file behind, and the next one waits forever (torch/utils/file_baton.py). These three are what a rank
    # without a GPU asks for: the collectives in shared memory always, the optimizers where the configuration names them.
    environment={
        "DS_ACCELERATOR": "cpu",
        "DS_BUILD_OPS": "0",
        "DS_BUILD_SHM_COMM": "1",
        "DS_BUILD_CPU_ADAM": "1",
        "DS_BUILD_FUSED_ADAM": "1",
        "DS_ENABLE_NINJA": "1",  # all processors; ninja is among DeepSpeed's own dependencies
        "CFLAGS": "-g0",  # no debug information, which Python's own flags may ask for; the patch takes out DeepSpeed's flag
    },
    programs={"c++": "g++", "patch": "patch"},
    versions=_COMPILER,
    patches=(FOLDER / "deepspeed-no-debug.patch",),
)

HOROVOD = Recipe(
    name="horovod",
    environment={
        "HOROVOD_WITH_PYTORCH": "1",
        "HOROVOD_WITHOUT_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITH_MPI": "1",
        "HOROVOD_WITH_GLOO": "1",
        "HOROVOD_CPU_OPERATIONS": "MPI",
    },
    programs={
        "c++": "g++", "make": "make", "cmake": "cmake", "patch": "patch", "mpicxx": "libopenmpi-dev", "mpirun": "openmpi-bin",
    },
    versions=(*_COMPILER, ("mpicxx", "--showme:version")),
    patches=(FOLDER / "horovod-cxx17.patch",),
)

RECIPES = {recipe.name: recipe for recipe in (DEEPSPEED, HOROVOD)}
