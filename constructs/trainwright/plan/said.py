"""What a specification says of its run: the way back of ``plan/specification.py``.

A specification holds what follows from a run, so not all comes back as it was written: of a learning rate that was scaled there
is the peak alone, and what only the plan reads, as the size of a script's model, is in no object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from trainwright.model import changed_fields, default_of
from trainwright.plan.specification import taken
from trainwright.run import BoostingWorkload, Checkpoints, Run, TrainerWorkload
from trainwright.run.lifecycle import Preflight, Watchdog
from trainwright.topology import ElasticNodes, ZeRO
from trainwright.topology.zero import DeepSpeed, Offload
from trainwright.units import Duration
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract import training as contract
from trainwright_trainer.contract.base import Contract
from trainwright_trainer.contract.boosting import Boosting, BoostingSettings
from trainwright_trainer.contract.engine import FSDP2Settings
from trainwright_trainer.contract.layout import RESUME_ENV
from trainwright_trainer.contract.spec import ElasticRendezvous, Script

Data = dict[str, Any]

_KINDS = {"ddp": "ddp", "fsdp2": "zero3", "horovod": "horovod", "tensorflow": "multi-worker-mirrored"}
"""Engine -> the topology that has it; DeepSpeed's configuration says its stage."""


def said(spec: RunSpec, deepspeed: Mapping[str, Any]) -> Data:
    """The fields of a run that its specification follows from. ``deepspeed`` is DeepSpeed's configuration, where there is one."""
    life, work, world = spec.lifecycle, spec.work, spec.world
    data: Data = {"topology": _elastic(spec), **_unusual(peer_wait=life.peer_wait_seconds, peer_lost=life.peer_lost_seconds)}
    for name, model in (("watchdog", Watchdog), ("preflight", Preflight)):
        data[name] = _with_units(getattr(life, name), model)
    data["recovery"] = "in-place" if life.recovery else "whole-job"
    if life.recovery:
        data |= {"restarts": life.recovery.restarts, **_unusual(recovery_wait=life.recovery.wait_seconds)}
    if world.device == "cpu" and world.processes_per_node > 1:
        data["topology"]["processes_per_node"] = world.processes_per_node
    if isinstance(work, Script):
        data |= _of_script(spec, work)
    elif isinstance(work, Boosting):
        data["workload"] = _changed(BoostingWorkload(**taken(work, BoostingSettings)))
        data["checkpoints"] = _saved(spec, work.checkpoints)
        data["topology"]["kind"] = "xgboost"
    else:
        data["topology"] |= _engine(spec, work, deepspeed)
        data |= _of_training(spec, work)
    return {key: value for key, value in data.items() if value}


def said_by_variables(env: Mapping[str, Any], kind: str) -> Data:
    """What a workload states and its pods know by a variable alone: the way back of ``plan/environment.py``."""
    stated = {"resume_from": env[RESUME_ENV]} if RESUME_ENV in env else {}
    if kind == "trainer":
        if folder := env.get("TORCHINDUCTOR_CACHE_DIR"):
            stated["compile_cache"] = str(folder).removesuffix("/inductor")
        if env.get("PYTORCH_ALLOC_CONF") == "expandable_segments:True":
            stated["expandable_segments"] = True
    return stated


def _time(seconds: float) -> str:
    return Duration(round(seconds)).canonical


def _unusual(**seconds: float) -> Data:
    """Times that are not the default of a run."""
    times = {name: _time(value) for name, value in seconds.items()}
    return {name: time for name, time in times.items() if time != default_of(Run, name).canonical}


def _with_units(settings: Contract | None, model: type[BaseModel]) -> Data:
    """By the names of the run's own model, whose times have units."""
    said: Data = {}
    for name, value in (changed_fields(settings) if settings else {}).items():
        plain = name.removesuffix("_seconds")
        said[plain if plain in model.model_fields else name] = _time(value) if plain != name else value
    return said


def _changed(part: BaseModel) -> Data:
    """What a model has beside its defaults, and the fields that tell it from others."""
    changed, written = changed_fields(part), part.model_dump(mode="json")
    tags = {name for name, info in type(part).model_fields.items() if _is_tag(info.annotation)}
    return {
        name: _changed(value) if isinstance(value := getattr(part, name), BaseModel) else written[name]
        for name in type(part).model_fields
        if name in changed or name in tags
    }


def _is_tag(annotation: Any) -> bool:
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


def _elastic(spec: RunSpec) -> Data:
    meets = spec.world.rendezvous
    if not isinstance(meets, ElasticRendezvous):
        return {}
    moves = isinstance(spec.work, contract.Training) and spec.work.batch.keep == "micro"
    nodes = ElasticNodes(
        min_nodes=meets.min_nodes, max_nodes=meets.max_nodes, last_call=Duration(meets.last_call_seconds),
        batch="move" if moves else "keep",
    )  # fmt: skip
    return {"elastic": _changed(nodes)}


def _of_script(spec: RunSpec, work: Script) -> Data:
    stated: Data = {"kind": "script", "command": list(work.command)}
    if work.protocol:
        stated["protocol"] = True
    if work.config is not None:
        stated["config"] = work.config
    where = place_of(work.state_directory, spec.run, spec.identity) if work.state_directory else {}
    keeps = {"by": "script", **_changed(work.checkpoints)} if work.checkpoints else {}
    return {"workload": stated, "checkpoints": {**keeps, **where}}


def place_of(directory: str, run: str, identity: str) -> Data:
    """What a run says of where its checkpoints go, of the directory that the plan made of it."""
    above, _, key = directory.rpartition("/")
    root = above.removesuffix(f"/{run}")
    stated: Data = {"store" if "://" in root else "mount": root}
    if stated.get("mount") == Checkpoints.model_fields["mount"].default:
        del stated["mount"]
    return stated if identity == f"{run}-{key}" else {**stated, "lineage": key}


def _saved(spec: RunSpec, settings: contract.Checkpoints) -> Data:
    """Of our trainer, whose lineage follows from what it trains."""
    every = Duration(round(settings.every_seconds)) if settings.every_seconds else None
    stated = _changed(Checkpoints(**taken(settings, contract.CheckpointSettings), every=every))
    key = settings.directory.rpartition("/")[2]
    return {**stated, **place_of(settings.directory, spec.run, f"{spec.run}-{key}")}


def _of_training(spec: RunSpec, work: contract.Training) -> Data:
    parts = ((work, contract.TrainingSettings), (work.duration, contract.Duration), (work.learning_rate, contract.RateShape))
    stated = {name: value for part, shared in parts for name, value in taken(part, shared).items()}
    rate, samples = work.learning_rate, work.batch.samples(spec.world.replicas)
    learning: Data = {"base": rate.peak}
    if rate.scaling:
        learning |= {"base_batch": samples, "scaling": rate.scaling}
    if rate.warmup_samples:
        learning["warmup_steps"] = rate.warmup_samples // samples
    return {
        "batch": {"micro": work.batch.micro, "accumulation": work.batch.accumulation},
        "learning_rate": learning,
        "workload": _changed(TrainerWorkload(**stated)),
        "checkpoints": _saved(spec, work.checkpoints),
    }


def _engine(spec: RunSpec, work: contract.Training, deepspeed: Mapping[str, Any]) -> Data:
    """Kind and settings of the topology."""
    if work.engine == "deepspeed":
        return _deepspeed(deepspeed)
    if spec.world.rendezvous.kind == "ray-head":
        return {"kind": "ray"}
    stated: Data = {"kind": _KINDS[work.engine]}
    if work.ddp:
        stated["ddp"] = _changed(work.ddp)
    if work.fsdp2:
        settings = _changed(FSDP2Settings(**taken(work.fsdp2, FSDP2Settings)))
        offload = {"offload": {"optimizer": "cpu", "weights": "cpu"}} if work.fsdp2.offload_weights else {}
        stated |= {"engine": "fsdp2", **({"fsdp2": settings} if settings else {}), **offload}
    return stated


def _deepspeed(config: Mapping[str, Any]) -> Data:
    zero = config["zero_optimization"]
    settings = {name: zero[name] for name in DeepSpeed.model_fields if name in zero}
    kept = config["data_types"]["grad_accum_dtype"]
    moved = {"optimizer": zero.get("offload_optimizer"), "weights": zero.get("offload_param")}
    offload = Offload(**{name: one["device"] for name, one in moved.items() if one})
    topology = ZeRO(
        kind=f"zero{zero['stage']}", engine="deepspeed", nodes=1, gpus_per_node=1, offload=offload,
        deepspeed=DeepSpeed(**settings, grad_accum_dtype=kept),
    )  # fmt: skip
    return {name: value for name, value in _changed(topology).items() if name in ("kind", "engine", "offload", "deepspeed")}
