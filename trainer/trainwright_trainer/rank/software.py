"""Software of this image whose versions must be the same in every pod of a run.

Ranks speak with each other in the words of these packages: collectives, pickled objects, the state of an optimizer. With two
versions of one they hang, crash or train wrongly, and none of them says why. Nothing here imports them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import metadata

PACKAGES = (
    "torch", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "deepspeed", "horovod", "tensorflow", "tensorflow-cpu", "xgboost",
    "xgboost-cpu", "ray", "transformers",
)
"""By their names in the package index; NCCL comes as a package of its own with torch's wheels."""


@cache
def installed() -> Mapping[str, str]:
    """Package -> version, of those that are there. A version names the build too, where the package does: ``2.13.0+cu130``."""
    return {name: version for name in PACKAGES if (version := _version(name)) is not None}


def difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str | None:
    """Every package whose versions differ, as the end of a sentence with "they have"; None where there is none.

    A package that only one side has is a difference: the images are not the same.
    """
    names = [*ours, *(name for name in theirs if name not in ours)]
    different = [
        f"{name} {theirs.get(name, 'not at all')} and {ours.get(name, 'not at all')}"
        for name in names if theirs.get(name) != ours.get(name)
    ]
    return ", ".join(different) or None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
