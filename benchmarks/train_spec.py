"""The runs that are measured, as the specification that our trainer and every peer read: one file with all settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trainwright_trainer.commands.local import free_ports
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.data import PythonSource
from trainwright_trainer.contract.model import Llama
from trainwright_trainer.data.load import load

VOCABULARY = 4096
"""Of the tokenizer; a model may know more."""
NODE_INDEX_ENV = "BENCHMARK_NODE_INDEX"
HELD_OUT_BATCHES = 4
"""Of each rank, for the loss that all sides are compared by."""

TINY = Llama(
    architecture="llama", vocab_size=VOCABULARY, hidden_size=256, intermediate_size=704, num_hidden_layers=8,
    num_attention_heads=8, max_position_embeddings=256,
)
"""8.5 million parameters."""
SMALL = Llama(
    architecture="llama", vocab_size=VOCABULARY, hidden_size=512, intermediate_size=1408, num_hidden_layers=8,
    num_attention_heads=8, max_position_embeddings=128,
)
"""30 million parameters: a checkpoint of 360 MB."""
BILLION = Llama(
    architecture="llama", vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,
    num_attention_heads=32, num_key_value_heads=4, max_position_embeddings=2048,
)
"""1.1 billion parameters, the shape of TinyLlama (Zhang et al. 2024, arXiv:2401.02385, table 2)."""
MINUTE = Llama(
    architecture="llama", vocab_size=VOCABULARY, hidden_size=64, intermediate_size=176, num_hidden_layers=2,
    num_attention_heads=4, max_position_embeddings=64,
)
"""For trying a benchmark out."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is trained, and how much of it is measured."""

    model: Llama
    sequence_length: int
    micro: int
    accumulation: int
    steps: int
    warm_up_steps: int
    """Not measured; a multiple of ``log_every_steps``."""
    log_every_steps: int
    processes: int = 2
    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False

    @property
    def step_tokens(self) -> int:
        """Tokens of one optimizer step, over all ranks."""
        return self.micro * self.accumulation * self.processes * self.sequence_length

    def specification(self, tokens: Path, folder: Path, **work: Any) -> RunSpec:
        """A run of one pod, with its checkpoints below ``folder`` and fresh ports. ``work`` replaces keys of the run's work."""
        rendezvous, control, http = free_ports(3)
        return RunSpec.model_validate({
            "run": "benchmark",
            "identity": f"benchmark-{folder.name}",
            "world": {
                "nodes": 1, "processes_per_node": self.processes, "device": self.device, "node_index_env": NODE_INDEX_ENV,
                "rendezvous": {"kind": "static", "host": "127.0.0.1", "port": rendezvous}, "control_port": control,
            },
            "lifecycle": {"grace_seconds": 120, "preflight": {"when": "never"}},
            "http_port": http,
            "work": self._work(tokens, folder) | work,
        })

    def _work(self, tokens: Path, folder: Path) -> dict[str, Any]:
        warm_up_samples = self.warm_up_steps * self.micro * self.accumulation * self.processes
        return {
            "kind": "trainer",
            "engine": "ddp",
            "task": "causal-lm",
            "model": self.model.model_dump(),
            "data": {
                "source": "tokens", "path": str(tokens), "sequence_length": self.sequence_length, "vocabulary": VOCABULARY,
            },
            "batch": {"micro": self.micro, "accumulation": self.accumulation},
            "optimizer": {"kind": "adamw", "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1},
            "learning_rate": {"peak": 1e-3, "schedule": "cosine", "warmup_samples": warm_up_samples},
            "clip_norm": 1.0,
            "precision": self.precision,
            "compile": self.compile,
            "duration": {"steps": self.steps},
            "seed": 17,
            "evaluation": {"max_batches": HELD_OUT_BATCHES},
            "checkpoints": {"directory": str(folder / "checkpoints")},
            "log_every_steps": self.log_every_steps,
        }


def write_tokens(path: Path, files: int | None = None) -> None:
    """The Python standard library as one stream of tokens, by our own data package. ``files``: only the first so many."""
    source = PythonSource(source="python-stdlib", sequence_length=64, tokenizer="bpe", vocabulary=VOCABULARY, files=files)
    train = load(source, seed=0).train
    columns = train.columns  # type: ignore[attr-defined]  # this source keeps its splits in memory
    np.ascontiguousarray(columns["inputs"], dtype="<u2").tofile(path)
