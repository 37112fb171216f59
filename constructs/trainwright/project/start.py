"""Where training starts in a run that replaces another: one judgement for `synth` and `diff`, from the facts of both records."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple

from trainwright.model import Fact
from trainwright.report.values import Facts
from trainwright.run.model import LINEAGE_OF_MODEL


class Start(StrEnum):
    """What becomes of what the old run has trained."""

    NOT_SAID = "nobody says who saves"
    NEVER = "it says that it never resumes"
    UNKNOWN = "nothing is known of the old run"
    FOUND = "it looks where the old run's checkpoints are"
    ELSEWHERE = "its lineage is the same, and it looks elsewhere"
    OTHER = "its lineage is another one, which may be an earlier one of the run"


def start_of(before: Facts, after: Facts) -> Start:
    """By what a record says of its checkpoints, of its mounts, and of the address of its object store."""
    if saved_by(after) == "unknown":
        return Start.NOT_SAID
    if after.get("checkpoints.resume") == "never" and saved_by(after) != "own":
        return Start.NEVER
    if not before:
        return Start.UNKNOWN
    if place_of(before) == place_of(after):
        return Start.FOUND
    same = before.get("checkpoints.lineage") == after.get("checkpoints.lineage")
    return Start.ELSEWHERE if same else Start.OTHER


def saved_by(facts: Facts) -> str:
    """Who saves, as the plan said; a record of an older release does not say it of a program that is not ours."""
    return str(facts.get("checkpoints.by") or ("trainer" if facts.get("workload") in LINEAGE_OF_MODEL else "unknown"))


def stays(facts: Facts) -> str:
    """What a run leaves behind that is gone."""
    return "no claim is removed" if saved_by(facts) == "unknown" else "its checkpoints stay"


def anew(facts: Facts) -> str:
    """What a run does where it finds no checkpoint."""
    return "ends at once" if facts.get("checkpoints.resume") == "required" else "starts at step 0"


class Place(NamedTuple):
    """A directory of checkpoints, so that two of them are equal where they are one and the same."""

    cluster: str
    namespace: str
    volume: str
    """The claim; or the addresses of the object store, as far as the run states them."""
    folder: str
    """In the volume, wherever that is mounted; or the whole address in the store."""

    def __str__(self) -> str:
        on_claim = "" if self.folder.startswith(STORE) else f" of claim {self.volume}"
        return f"{self.folder}{on_claim} on {self.cluster}, namespace {self.namespace}"


CLAIM = ".claim"
"""End of the keys of facts that name a claim."""
STORE = "s3://"
ENDPOINT = "env.AWS_ENDPOINT_URL"
"""How facts begin by which a run names a store of its own: the variable, that of S3 alone, and references below them."""


def place_of(facts: Facts, key: str = "checkpoints") -> Place:
    """Where a run keeps its checkpoints, or what another fact names. A mount that moves leads to the same files, and one with
    another sub path does not.
    """
    directory = str(facts.get(key, ""))
    if directory.startswith(STORE):
        stated = {key: value for key, value in facts.items() if key.startswith(ENDPOINT)}
        volume, folder = ", ".join(f"{key} {value}" for key, value in sorted(stated.items())), directory
    else:
        volume, folder = _in_claim(facts, directory)
    return Place(str(facts.get("cluster", "")), str(facts.get("namespace", "")), volume, folder)


def claims_of(facts: Facts) -> dict[str, Fact]:
    """Path of each mount of a claim -> the claim."""
    claims = {key: claim for key, claim in facts.items() if key.startswith("mounts.") and key.endswith(CLAIM)}
    return {key.removeprefix("mounts.").removesuffix(CLAIM): claim for key, claim in claims.items()}


def _in_claim(facts: Facts, directory: str) -> tuple[str, str]:
    """The claim that is mounted nearest above a directory, and the directory in it."""
    claims = claims_of(facts)
    mounts = [path for path in claims if PurePosixPath(directory).is_relative_to(path)]
    if not mounts:  # in no claim, or a path that is too long for a fact
        return str(facts.get("checkpoints.claim", "")), directory
    mount = max(mounts, key=len)
    folder = PurePosixPath(str(facts.get(f"mounts.{mount}.sub_path", ""))) / PurePosixPath(directory).relative_to(mount)
    return str(claims[mount]), str(folder)
