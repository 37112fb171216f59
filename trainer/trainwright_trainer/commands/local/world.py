"""From a run's specification to 'this run, here': one pod on the loopback interface that holds all of its ranks."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright_trainer.commands.local.ports import LOOPBACK, free_ports
from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.engine import ENGINE_RENDEZVOUS
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.layout import BIND_ENV, CHECKPOINT_ENV, DEEPSPEED_FILE, SPEC_FILE
from trainwright_trainer.contract.spec import Preflight, RunSpec, Script
from trainwright_trainer.contract.training import Duration, Evaluation, Training
from trainwright_trainer.data.batch import Passes, refit


def read_deepspeed_config(config: str, source: Path) -> dict[str, Any] | None:
    """The file's object. None where it is in neither place.

    Args:
        config: Where the specification says that it is.
        source: Where the specification was read from.

    Raises:
        InvalidRunError: It is there, and cannot be read or holds no object.
    """
    named = Path(config)
    for path in (named, source.absolute().with_name(named.name)):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InvalidRunError(f"deepspeed.config {path} cannot be read: {error.strerror}; give access to it") from error
        except ValueError as error:
            raise InvalidRunError(f"deepspeed.config {path} is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise InvalidRunError(
                f"deepspeed.config {path} holds a {type(document).__name__}; it must be a JSON object with DeepSpeed's keys"
            )
        return document
    return None


NODE_INDEX_ENV = "TRAINWRIGHT_LOCAL_NODE"
_TF_CONFIG = "TF_CONFIG"
_WITNESSED = ("ddp", "fsdp2", "deepspeed")
"""Engines whose loop tells a witness of its steps, and that one pod can play."""


@dataclass(frozen=True, slots=True)
class LocalRun:
    """A specification that lies in a folder of this machine, ready for its supervisor."""

    spec: RunSpec
    path: Path
    """Of the specification."""

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Of its one pod."""
        kept = {name: value for name, value in inherited.items() if name != _TF_CONFIG}
        # gloo would look the host's name up, which a laptop or a container may not be able to.
        interface = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
        # A program which is not ours learns its directory as it does in a cluster.
        work = self.spec.work
        directory = {CHECKPOINT_ENV: work.state_directory} if isinstance(work, Script) and work.state_directory else {}
        return {**interface, **kept, **directory, NODE_INDEX_ENV: "0", BIND_ENV: LOOPBACK}


def local_run(
    spec: RunSpec, source: Path, folder: Path, processes: int | None = None, http_port: int | None = None
) -> LocalRun:
    """Write a run's specification for this machine into ``folder``.

    Its ranks are those of the run, or ``processes`` of them: a step then sees the same samples, by another micro batch or
    accumulation. Ports are free ones.

    Args:
        spec: The run, as its pods would read it, or with other settings of its work.
        source: Where it was read from; files beside it stand for those beside the pods' specification.
        folder: Exists; whatever is written goes there.
        processes: Default: ranks of the run.
        http_port: Of ``/metrics``, such as :func:`ports.own_port` gives. Default: a free one as well.

    Raises:
        InvalidRunError: This run, or this number of ranks, cannot be played by one pod. The message says what can be done.
    """
    size = processes or spec.world.size
    document = spec.model_dump(mode="json")
    # Nobody may have claimed the port that was given, so it may be among those that are free.
    port, control_port, metrics_port = [free for free in free_ports(4) if free != http_port][:3]
    document |= {"world": _world(spec, size, port, control_port), "http_port": http_port or metrics_port}
    work = spec.work
    if isinstance(work, Training):
        document["work"] |= _training(spec, work, size, source, folder)
    elif isinstance(work, Boosting) and size > 1:
        raise InvalidRunError(
            f"work xgboost has one process a pod, which uses all of its cores, and the run has {size}; add --processes 1"
        )
    local = RunSpec.model_validate(document)
    path = folder / SPEC_FILE
    path.write_text(local.model_dump_json(exclude_none=True), encoding="utf-8")
    return LocalRun(local, path)


def with_directory(spec: RunSpec, directory: str) -> RunSpec:
    """The run with its checkpoints, ledger and COMPLETE marker in another directory, a path or an address."""
    work = spec.work
    if isinstance(work, Training | Boosting):
        checkpoints = work.checkpoints.model_copy(update={"directory": directory})
        return spec.model_copy(update={"work": work.model_copy(update={"checkpoints": checkpoints})})
    return spec.model_copy(update={"work": work.model_copy(update={"state_directory": directory})})


def _world(spec: RunSpec, size: int, port: int, control_port: int) -> dict[str, Any]:
    kind = _rendezvous(spec)
    meeting: dict[str, Any] = {"kind": kind} if kind == "tf-config" else {"kind": kind, "host": LOOPBACK, "port": port}
    return {
        "nodes": 1,
        "processes_per_node": size,
        "replicas_per_process": spec.world.replicas_per_process,
        "device": spec.world.device,
        "node_index_env": NODE_INDEX_ENV,
        "rendezvous": meeting,
        "control_port": control_port,
    }


def _rendezvous(spec: RunSpec) -> str:
    """How the ranks meet here. Where they can, at a port: whatever an operator would have brought along is not there."""
    work = spec.work
    if isinstance(work, Boosting):
        return "dmlc-tracker"
    if not isinstance(work, Training) or "static" in ENGINE_RENDEZVOUS[work.engine]:
        return "static"
    if work.engine == "tensorflow":
        return "tf-config"
    raise InvalidRunError(
        f"engine {work.engine} meets through MPI, and a pod of this kind starts no mpirun; run it as its pods do: "
        "`trainwright-trainer supervise -- mpirun -np RANKS python -m trainwright_trainer.rank`"
    )


def _training(spec: RunSpec, work: Training, size: int, source: Path, folder: Path) -> dict[str, Any]:
    if work.engine == "tensorflow" and size > 1:
        raise InvalidRunError(f"engine tensorflow has one process a pod, and the run has {size}; add --processes 1")
    each = spec.world.replicas_per_process or 1
    samples = work.batch.samples(spec.world.replicas)
    passes = refit(samples, size * each, work.batch.micro)
    changed: dict[str, Any] = {
        # No rank comes or goes here, so there is nothing to keep.
        "batch": {"micro": passes.micro, "accumulation": passes.accumulation},
        "learning_rate": {**work.learning_rate.model_dump(mode="json"), "scaling": None},
    }
    if work.fsdp2 is not None and work.fsdp2.shard_degree is not None:
        # What divides both where the ranks are others; of one alone, all that are here share.
        degree = math.gcd(work.fsdp2.shard_degree, size)
        changed["fsdp2"] = {**work.fsdp2.model_dump(mode="json"), "shard_degree": degree if degree > 1 else None}
    if work.deepspeed is not None:
        config = _deepspeed(work.deepspeed.config, source, folder, samples, passes)
        changed["deepspeed"] = {"config": str(config)}
    return changed


def _deepspeed(config: str, source: Path, folder: Path, samples: int, passes: Passes) -> Path:
    """DeepSpeed's configuration with the batch of this world: it multiplies by the ranks itself, and refuses another product."""
    document = read_deepspeed_config(config, source)
    if document is None:
        raise InvalidRunError(f"deepspeed.config {config} is not on this machine, and not beside {source}; put it there")
    document |= {
        "train_batch_size": samples,
        "train_micro_batch_size_per_gpu": passes.micro,
        "gradient_accumulation_steps": passes.accumulation,
    }
    local = folder.absolute() / DEEPSPEED_FILE
    local.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return local


def witnessed_training(spec: RunSpec, command: str) -> Training:
    """The work of a run whose steps can be told. Raises :class:`InvalidRunError` for any other, in the name of ``command``."""
    work = spec.work
    if not isinstance(work, Training):
        raise InvalidRunError(f"{command} needs a run of work trainer, and this run's work is {work.kind}")
    if work.engine not in _WITNESSED:
        raise InvalidRunError(
            f"{command} starts ranks of {', '.join(_WITNESSED[:-1])} and {_WITNESSED[-1]} on this machine, and this run's engine "
            f"is {work.engine}"
        )
    return work


def short_run(spec: RunSpec, training: Training, steps: int, directory: str, every_steps: int | None = None) -> RunSpec:
    """The run with another length and checkpoints of its own, a single batch of evaluation, and no sinks or preflight.

    Args:
        training: Its work.
        directory: For its checkpoints, ledger and marker.
        every_steps: Between two saves; None saves at the end only.
    """
    checkpoints = training.checkpoints.model_copy(
        update={"directory": directory, "every_steps": every_steps, "every_seconds": None, "resume": "auto"}
    )
    work = training.model_copy(update={
        "duration": Duration(steps=steps), "checkpoints": checkpoints, "evaluation": Evaluation(max_batches=1), "metrics": (),
    })
    lifecycle = spec.lifecycle.model_copy(update={"preflight": Preflight(when="never")})
    return spec.model_copy(update={"work": work, "lifecycle": lifecycle})
