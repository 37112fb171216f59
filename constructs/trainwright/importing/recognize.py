"""Which topology a command starts, from the launchers in it and from what else it says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainwright.command.launchers import TORCH_LAUNCHERS, Fact, Launch, launches
from trainwright.command.reading import read
from trainwright.objects.fields import mapping
from trainwright.operators.said import Said

_FSDP = re.compile(r"fsdp|sharding[_-]strategy[= ]full", re.IGNORECASE)
_STAGE = re.compile(r"""["']?(?:zero_)?stage["']?\s*[:= ]\s*([123])|\bzero[-_]?([123])\b""", re.IGNORECASE)
_DEEPSPEED = re.compile(r"deepspeed|zero_optimization", re.IGNORECASE)
_HOROVOD = re.compile(r"horovod|\bhvd\b", re.IGNORECASE)
_JAX = re.compile(r"\bjax\b|JAX_(COORDINATOR|PROCESS|NUM)|maxtext", re.IGNORECASE)
_MEETS = re.compile(
    r"MASTER_ADDR|MASTER_PORT|WORLD_SIZE|init_process_group|torch\.distributed|rdzv|\bRANK\b|DistributedDataParallel|lightning"
)
"""What a program says that talks to others."""


def topologies(
    said: Said, words: Sequence[str], texts: Sequence[str], env: Mapping[str, Any], nodes: int
) -> Iterator[dict[str, Any]]:
    """What of a topology its kind decides, the likeliest first; the others are for where that one does not compile."""
    text = "\n".join([*words, *texts, *env, *(value for value in env.values() if isinstance(value, str))])
    started = launches(read(tuple(words))) if words else ()
    found = [launch.name for launch in started]
    likely = _kind(said, started, text, nodes)
    for kind in dict.fromkeys((likely, *said.kinds)):
        if kind in said.kinds and (kind == likely or kind not in ("zero1", "zero2", "zero3")):
            yield {"kind": kind, **_engine(kind, found, text)}


def _kind(said: Said, started: Sequence[Launch], text: str, nodes: int) -> str:
    first, found = said.kinds[0], [launch.name for launch in started]
    if "horovod" in said.kinds:
        return "horovod" if "horovodrun" in found or _HOROVOD.search(text) else "mpi"
    if "ddp" not in said.kinds:
        return first
    found_by_name = any("subdomain" in mapping(one.template, "/spec") for one in said.parts)
    if torch := [launch for launch in started if launch.name in TORCH_LAUNCHERS]:
        apart = first == "independent" and nodes > 1 and not found_by_name and not _TOLD.search(text)
        return first if apart and not any(launch.counts_pods for launch in torch) else _sharded(found, text)
    if "jax" in said.kinds and _JAX.search(text):
        return "jax"
    if first == "independent" and (nodes == 1 or found_by_name or _MEETS.search(text)):
        return "ddp"
    return first


_TOLD = re.compile(r"PET_NNODES|PET_RDZV|MASTER_ADDR")
"""Variables by which launchers of several pods meet."""


def _sharded(found: Sequence[str], text: str) -> str:
    """ZeRO of DeepSpeed where its stage is stated, and FSDP, which shards all; a launcher alone says neither."""
    stage = _STAGE.search(text)
    if stage and ("deepspeed" in found or "deepspeed" in text.lower()):
        return f"zero{stage[1] or stage[2]}"
    return "zero3" if _FSDP.search(text) and "deepspeed" not in found else "ddp"


def _engine(kind: str, found: Sequence[str], text: str) -> dict[str, str]:
    if not kind.startswith("zero"):
        return {}
    return {"engine": "deepspeed" if kind != "zero3" or "deepspeed" in found or _DEEPSPEED.search(text) else "fsdp2"}


def processes_each(words: Sequence[str]) -> int | None:
    """Ranks in a pod, as a launcher of torch is told."""
    for launch in launches(read(tuple(words))) if words else ():
        for value in launch.values(launch.launcher.options(Fact.EACH)):
            if value.isdigit():
                return int(value)
    return None
