"""Software of this image whose versions must be the same in every pod of a run.

Ranks speak with each other in the words of these packages: collectives, pickled objects, the state of an optimizer. With two
versions of one they hang, crash or train wrongly, and none of them says why. Nothing here imports them.

Supervisors that are connected compare versions before any rank starts. Ranks do so once more, because not all supervisors are
connected, and one that starts mpirun or Ray Train is not in the image of the ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import metadata

from trainwright_trainer.contract.failures import TopologyMismatchError
from trainwright_trainer.rank.place import Place

PACKAGES = (
    "torch", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "deepspeed", "horovod", "tensorflow", "tensorflow-cpu", "xgboost",
    "xgboost-cpu", "ray", "transformers",
)
"""By their names in the package index; NCCL comes as a package of its own with torch's wheels."""
MOST_BYTES = 1024
"""Of what one rank tells all others."""


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


def same_software_everywhere(
    versions: Mapping[str, str], place: Place, broadcast: Callable[[Mapping[str, str]], Mapping[str, str]],
    reduce_sums: Callable[[Sequence[float]], list[float]],
) -> None:
    """Compare every rank's software with rank 0's. All ranks call it together.

    Args:
        versions: Of this rank, from :func:`installed`.
        place: This rank.
        broadcast: Rank 0's value, on every rank.
        reduce_sums: Sums over ranks.

    Raises:
        TopologyMismatchError: On every rank, with one sentence that names the first rank that differs and both versions.
    """
    differs = difference(versions, broadcast(versions))
    flags = [0.0] * place.world_size
    flags[place.rank] = float(differs is not None)
    different = [rank for rank, flag in enumerate(reduce_sums(flags)) if flag]
    if not different:
        return
    speaks = place.rank == different[0] and differs is not None
    words = (differs or "").encode()[:MOST_BYTES] if speaks else b""
    # Of all ranks one has words and the others zeros, so that their sum is the words.
    heard = reduce_sums([*words, *[0] * (MOST_BYTES - len(words))])
    text = bytes(map(int, heard)).rstrip(b"\0").decode(errors="replace")
    more = f" (and {len(different) - 1} more)" if len(different) > 1 else ""
    raise TopologyMismatchError(
        f"rank {different[0]}{more} and rank 0 differ: they have {text}; every pod must run the same image"
    )
