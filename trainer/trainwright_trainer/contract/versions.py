"""Which trainer version knows which field and which value, so that an older image gets a specification it can read."""

from __future__ import annotations

KNOWN_VERSIONS = ("0.1.0", "0.2.0")
"""Trainer releases that this contract can address, oldest first; the last is the one that this tree works towards."""

RELEASED = ("0.1.0",)
"""Those that an image can have; a later one is in development."""

FIELD_SINCE: dict[str, str] = {
    "world.replicas_per_process": "0.2.0",
    "world.control_secret": "0.2.0",
    "lifecycle.watchdog": "0.2.0",
    "work.metrics": "0.2.0",
    "lifecycle.preflight": "0.2.0",
    "work.deepspeed": "0.2.0",
    "work.fsdp2": "0.2.0",
    "work.initial_weights": "0.2.0",
    "work.skip_non_finite": "0.2.0",
    "work.skip_unreadable": "0.2.0",
    "work.checkpoints.save": "0.2.0",
    "work.checkpoints.failed_saves": "0.2.0",
    "work.gradient_reduction": "0.2.0",
    "work.activation_checkpointing": "0.2.0",
    "work.compile": "0.2.0",
    "work.batch.keep": "0.2.0",
    "work.batch.effective": "0.2.0",
    "work.learning_rate.scaling": "0.2.0",
    "work.learning_rate.decay_fraction": "0.2.0",
    "work.model.rope_scaling": "0.2.0",
    "work.model.rms_norm_eps": "0.2.0",
}
"""Dotted path of a field in ``RunSpec`` -> the first release that reads it. A field not listed is as old as the contract."""

VALUE_SINCE: dict[tuple[str, str], str] = {
    ("world.rendezvous.kind", "c10d"): "0.2.0",
    ("world.rendezvous.kind", "mpi-hostfile"): "0.2.0",
    ("world.rendezvous.kind", "tf-config"): "0.2.0",
    ("world.rendezvous.kind", "dmlc-tracker"): "0.2.0",
    ("world.rendezvous.kind", "ray-head"): "0.2.0",
    ("work.kind", "xgboost"): "0.2.0",
    ("work.engine", "fsdp2"): "0.2.0",
    ("work.engine", "deepspeed"): "0.2.0",
    ("work.engine", "horovod"): "0.2.0",
    ("work.engine", "tensorflow"): "0.2.0",
    ("work.task", "masked-lm"): "0.2.0",
    ("work.task", "text-classification"): "0.2.0",
    ("work.model.architecture", "bert"): "0.2.0",
    ("work.data.source", "tokens"): "0.2.0",
    ("work.data.source", "image-folder"): "0.2.0",
    ("work.data.source", "hf-dataset"): "0.2.0",
    ("work.precision", "fp16"): "0.2.0",
    ("work.learning_rate.schedule", "wsd"): "0.2.0",
}
"""Dotted path and value there -> the first release that knows the value. A value not listed is as old as its field."""

OBJECT_STORE_SINCE = "0.2.0"
"""The first release that keeps checkpoints at an address such as ``s3://bucket/prefix``."""


def short_name(path: str) -> str:
    """A path in the words of messages: ``work.engine`` is "engine", ``world.rendezvous.kind`` is "rendezvous"."""
    *_, parent, last = path.split(".")
    return {"kind": parent, "source": f"{parent} {last}"}.get(last, last)
