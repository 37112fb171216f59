"""Model FLOPs: the operations that training asks for, by formula, and what share of a device's speed they come to (MFU)."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright_trainer.contract.data import HFDataset, PythonSource, TokenFiles
from trainwright_trainer.contract.model import Bert, Llama, ViT
from trainwright_trainer.contract.training import Training

FORMULA = "6 x (N - E) + 12 x layers x hidden x length"
"""For each token: see :func:`model_flops`."""
_TERA = 1e12
_HALF_PEAKS = {
    "NVIDIA A100-SXM4-40GB": 312.0,
    "NVIDIA A100-SXM4-80GB": 312.0,
    "NVIDIA A100-PCIE-40GB": 312.0,
    "NVIDIA A100 80GB PCIe": 312.0,
    "NVIDIA H100 80GB HBM3": 989.0,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA H200": 989.0,
}
"""Name of a GPU as its driver gives it -> dense products in bf16 or fp16, 10^12 operations a second (NVIDIA's data sheets, which
print twice that for some of them, with sparsity)."""


@dataclass(frozen=True, slots=True)
class ModelFlops:
    """Of a forward and a backward pass, without what is computed twice."""

    each: int
    """Floating point operations for one unit."""
    unit: str
    """``token`` or ``sample``."""
    formula: str


def model_flops(training: Training) -> ModelFlops | None:
    """None where there is no formula for the architecture.

    ``6 (N - E) + 12 layers x hidden x length`` for each token: two operations a weight forward and four backward, and the two
    products of attention, without a discount for a causal mask (Chowdhery et al. 2022, PaLM, arXiv:2204.02311, appendix B). E are
    the weights of tables that are looked up only; a table that is the head too is a matrix product, and counts.
    """
    model, data = training.model, training.data
    if isinstance(model, ViT):
        length = model.sequence_length
        token = _token(model.parameters - model.hidden_size * (length + 1), model.num_hidden_layers, model.hidden_size, length)
        return ModelFlops(token * length, "sample", f"length x ({FORMULA})")
    if not isinstance(data, TokenFiles | PythonSource | HFDataset):
        return None
    length = data.sequence_length
    if isinstance(model, Llama):
        return ModelFlops(llama_token_flops(model, length), "token", FORMULA)
    if isinstance(model, Bert):
        rows = model.max_position_embeddings + model.type_vocab_size + (0 if model.num_labels is None else model.vocab_size)
        weights = model.parameters - rows * model.hidden_size
        return ModelFlops(_token(weights, model.num_hidden_layers, model.hidden_size, length), "token", FORMULA)
    return None


def llama_token_flops(model: Llama, length: int) -> int:
    """Floating point operations that training on one token of a sequence of ``length`` asks for."""
    table = 0 if model.tie_word_embeddings else model.vocab_size * model.hidden_size
    return _token(model.parameters - table, model.num_hidden_layers, model.hidden_size, length)


def known_peak(device: str, precision: str) -> float | None:
    """Operations a second of one device; None where no data sheet was looked up, or training in fp32 would not be held to it."""
    peak = _HALF_PEAKS.get(device) if precision in ("bf16", "fp16") else None
    return None if peak is None else peak * _TERA


def _token(weights: int, layers: int, hidden: int, length: int) -> int:
    return 6 * weights + 12 * layers * hidden * length
