"""Memory of one rank under data parallelism: an interval with its parts.

Model states follow Rajbhandari et al. 2020 (ZeRO, arXiv:1910.02054, section 3.1), with fp32 parameters as autocast keeps them: 4
bytes of weights, 4 of gradients and 8 of Adam moments for each parameter (4 with SGD momentum). Under DDP each rank holds all.
In bf16 autocast also keeps, from the forward pass to the end of the backward pass, a copy of each weight that enters a matrix
product or a convolution: 2 bytes for each parameter but those of an embedding table, which is only looked up.

Activations count the tensors that one layer keeps for the backward pass, after Korthikanti et al. 2022 (arXiv:2205.05198, section
4) with the attention matrix left out, since fused attention recomputes it. The lower bound keeps each in the compute precision;
the upper bound doubles that, for what autocast keeps in fp32 (residuals and norms) and for allocator slack.
"""

from __future__ import annotations

from trainwright.plan.model import MemoryPart
from trainwright.run import TrainerWorkload
from trainwright.units import GIB
from trainwright_trainer.contract.data import PythonSource
from trainwright_trainer.contract.model import Llama, ResNet, TransformersModel, ViT
from trainwright_trainer.contract.training import AdamW, Optimizer

FRAMEWORK_GPU = (GIB * 8 // 10, GIB * 25 // 10)
"""CUDA context, cuBLAS workspace and NCCL buffers: an assumption, not a measurement."""
FRAMEWORK_CPU = (GIB * 3 // 10, GIB * 9 // 10)
"""Python, torch and transformers as a process: an assumption from a few runs."""


def optimizer_bytes(optimizer: Optimizer) -> int:
    """Bytes of optimizer state for each parameter."""
    if isinstance(optimizer, AdamW):
        return 8
    return 4 if optimizer.momentum else 0


def memory_parts(work: TrainerWorkload, micro: int, device: str) -> tuple[MemoryPart, ...] | None:
    """Parts of one rank's memory in bytes, or None where the model's size is not known."""
    parameters = work.model.parameters
    if parameters is None:
        return None
    state = optimizer_bytes(work.optimizer)
    low, high, formula = _activations(work, micro)
    framework = FRAMEWORK_GPU if device == "cuda" else FRAMEWORK_CPU
    return (
        MemoryPart(name="weights", low=4 * parameters, high=4 * parameters, formula=f"4 bytes x {parameters:,} parameters"),
        MemoryPart(name="gradients", low=4 * parameters, high=4 * parameters, formula=f"4 bytes x {parameters:,} parameters"),
        MemoryPart(
            name="optimizer",
            low=state * parameters,
            high=state * parameters,
            formula=f"{state} bytes x {parameters:,} parameters",
        ),
        *_copies(work, parameters),
        MemoryPart(name="activations", low=low, high=high, formula=formula),
        MemoryPart(name="framework", low=framework[0], high=framework[1], formula="context, libraries and buffers (assumed)"),
    )


def _copies(work: TrainerWorkload, parameters: int) -> tuple[MemoryPart, ...]:
    if work.precision != "bf16":
        return ()
    model, looked_up = work.model, 0
    if isinstance(model, Llama) and not model.tie_word_embeddings:
        looked_up = model.vocab_size * model.hidden_size
    high = 2 * (parameters - looked_up)
    low = 0 if isinstance(model, TransformersModel) else high
    return (MemoryPart(name="bf16 copies", low=low, high=high, formula=f"2 bytes x {parameters - looked_up:,} parameters"),)


def _activations(work: TrainerWorkload, micro: int) -> tuple[int, int, str]:
    size = 2 if work.precision == "bf16" else 4
    model = work.model
    if isinstance(model, Llama):
        sequence = work.data.sequence_length if isinstance(work.data, PythonSource) else model.max_position_embeddings
        key_value = model.key_value_heads * (model.hidden_size // model.num_attention_heads)
        layer = 6 * model.hidden_size + 2 * key_value + 4 * model.intermediate_size
        tokens = micro * sequence
        low = tokens * size * (model.num_hidden_layers * layer + 2 * model.vocab_size)
        return (
            low,
            2 * low + tokens * 4 * model.vocab_size,
            f"{size} bytes x {tokens:,} tokens x ({model.num_hidden_layers} layers x {layer:,} + "
            f"2 x {model.vocab_size:,} logits), doubled above",
        )
    if isinstance(model, ViT):
        tokens = micro * model.sequence_length
        layer = 8 * model.hidden_size + 2 * model.intermediate_size
        low = tokens * size * model.num_hidden_layers * layer
        return low, 2 * low, f"{size} bytes x {tokens:,} tokens x {model.num_hidden_layers} layers x {layer:,}, doubled above"
    if isinstance(model, ResNet):
        elements = _resnet_elements(model)
        low = micro * size * elements
        return low, 2 * low, f"{size} bytes x {micro} images x {elements:,} elements kept, doubled above"
    assert isinstance(model, TransformersModel)  # noqa: S101 - exhaustive
    return 0, 8 * (model.parameters or 0), "unknown architecture: between nothing and twice the weights"


def _resnet_elements(model: ResNet) -> int:
    """Outputs of every convolution and of its batch norm, for one image."""
    side = max(1, model.image_size // 2)
    total = 2 * side * side * model.embedding_size
    side = max(1, side // 2)
    for stage, (width, depth) in enumerate(zip(model.hidden_sizes, model.depths, strict=True)):
        side = max(1, side // 2) if stage else side
        block = width + 2 * (width // 4) if model.layer_type == "bottleneck" else 2 * width
        total += 2 * depth * side * side * block
    return total
