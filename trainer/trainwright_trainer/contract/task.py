"""What is learnt, and which models and data fit together for it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trainwright_trainer.contract.data import (
    BYTE_VOCABULARY,
    DIGITS_CLASSES,
    DIGITS_IMAGE_SIZE,
    UINT16_TOKENS,
    Data,
    Digits,
    HFDataset,
    ImageFolder,
    PythonSource,
    TokenFiles,
)
from trainwright_trainer.contract.model import Bert, Llama, Model, ResNet, ViT

Task = Literal["image-classification", "causal-lm", "masked-lm", "text-classification"]


@dataclass(frozen=True, slots=True)
class _Kind:
    sources: tuple[str, ...]
    architectures: tuple[str, ...]


_KINDS: dict[Task, _Kind] = {
    "image-classification": _Kind(("digits", "image-folder"), ("vit", "resnet", "transformers")),
    "causal-lm": _Kind(("python-stdlib", "tokens", "hf-dataset"), ("llama", "transformers")),
    "masked-lm": _Kind(("python-stdlib", "tokens", "hf-dataset"), ("bert", "transformers")),
    "text-classification": _Kind(("hf-dataset",), ("bert", "transformers")),
}


def disagreements(task: Task, model: Model, data: Data) -> list[str]:
    """What does not fit between task, model and data, in sentences that name the key to change."""
    return [*_parts(task, model, data), *_tokenizer(data)]


def _parts(task: Task, model: Model, data: Data) -> Iterator[str]:
    kind = _KINDS[task]
    if data.source not in kind.sources:
        others = _tasks(lambda other: data.source in other.sources)
        yield f"task {task} cannot read data source {data.source}; use {_or(kind.sources)}, or task {_or(others)}"
    elif model.architecture not in kind.architectures:
        others = _tasks(lambda other: model.architecture in other.architectures)
        reads = "reads images" if isinstance(model, ViT | ResNet) else "is a language model"
        yield (
            f"architecture {model.architecture} {reads} and cannot learn task {task}; use {_or(kind.architectures)}, "
            f"or task {_or(others)}"
        )
    elif isinstance(data, Digits | ImageFolder):
        yield from _images(model, data)
    else:
        yield from _columns(task, data)
        yield from _head(task, model, data)
        yield from _sizes(task, model, data)


def _tasks(fits: Callable[[_Kind], bool]) -> list[str]:
    return [task for task, kind in _KINDS.items() if fits(kind)]


def _or(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _images(model: Model, data: Digits | ImageFolder) -> Iterator[str]:
    if not isinstance(model, ViT | ResNet):
        return
    if isinstance(data, Digits):
        wanted = [
            ("num_channels", 1, "digits are grey images"),
            ("image_size", DIGITS_IMAGE_SIZE, "digits are 8 x 8 pixels"),
            ("num_labels", DIGITS_CLASSES, "digits have 10 classes"),
        ]
    else:
        wanted = [
            ("num_channels", data.channels, f"data.channels is {data.channels}"),
            ("image_size", data.image_size, f"data.image_size is {data.image_size}"),
            ("num_labels", data.classes, f"data.classes is {data.classes}"),
        ]
    for key, value, reason in wanted:
        if getattr(model, key) != value:
            yield f"{reason}: set model.{key} to {value} instead of {getattr(model, key)}"


def _columns(task: Task, data: PythonSource | TokenFiles | HFDataset) -> Iterator[str]:
    if not isinstance(data, HFDataset):
        return
    for key in ("label_column", "classes"):
        found = getattr(data, key)
        if task == "text-classification" and found is None:
            yield f"task text-classification needs data.{key}"
        elif task != "text-classification" and found is not None:
            yield f"task {task} reads no labels; remove data.{key}"
    if task == "causal-lm" and len(data.text_columns) > 1:
        yield "task causal-lm reads one column of text; name one in data.text_columns"


def _head(task: Task, model: Model, data: PythonSource | TokenFiles | HFDataset) -> Iterator[str]:
    if not isinstance(model, Bert):
        return
    if task == "masked-lm" and model.num_labels is not None:
        yield "task masked-lm predicts tokens; remove model.num_labels"
    elif isinstance(data, HFDataset) and data.classes is not None and model.num_labels != data.classes:
        found = "leaving it out" if model.num_labels is None else str(model.num_labels)
        yield f"data.classes is {data.classes}: set model.num_labels to {data.classes} instead of {found}"


def _sizes(task: Task, model: Model, data: PythonSource | TokenFiles | HFDataset) -> Iterator[str]:
    vocabulary = data.vocabulary
    masks_itself = task == "masked-lm" and not isinstance(data, HFDataset)  # a tokenizer for masked-lm has a token for the mask
    if masks_itself and vocabulary is None:
        yield "task masked-lm takes the first id above the data's tokens as its mask; add data.vocabulary"
    if not isinstance(model, Llama | Bert):
        return
    if vocabulary is not None and model.vocab_size < vocabulary:
        yield f"model.vocab_size {model.vocab_size} is below the data's vocabulary of {vocabulary}"
    elif masks_itself and model.vocab_size == vocabulary:
        yield f"task masked-lm needs one token more than the data's {vocabulary} for its mask; raise model.vocab_size"
    if model.max_position_embeddings < data.sequence_length:
        key = "max_length" if isinstance(data, HFDataset) else "sequence_length"
        yield f"model.max_position_embeddings {model.max_position_embeddings} is shorter than data.{key} {data.sequence_length}"


def _tokenizer(data: Data) -> Iterator[str]:
    if isinstance(data, PythonSource) and data.tokenizer == "bytes" and data.vocabulary != BYTE_VOCABULARY:
        yield f"tokenizer bytes has a vocabulary of 256, not {data.vocabulary}; remove vocabulary, or use bpe"
    if isinstance(data, TokenFiles) and data.dtype == "uint16" and (data.vocabulary or 0) > UINT16_TOKENS:
        yield f"dtype uint16 holds {UINT16_TOKENS:,} tokens and data.vocabulary is {data.vocabulary:,}; use uint32"
