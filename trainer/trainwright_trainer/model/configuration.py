"""Configurations of ``transformers``: which keys of a file from the Hub count here, and which change what a model computes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from transformers import AutoConfig, GenerationConfig, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.model import Model, TransformersModel

_IGNORED = frozenset({
    "transformers_version", "architectures", "dtype", "torch_dtype", "_name_or_path", "return_dict", "attn_implementation",
    "_attn_implementation", "output_attentions", "output_hidden_states", "torchscript", "use_bfloat16", "finetuning_task",
    "task_specific_params", "tokenizer_class", "prefix",
})
"""Keys of files from the Hub that name versions, dtypes and outputs. None of them shapes the network."""
_OF_TEXTS = frozenset(name for name in vars(GenerationConfig()) if not name.startswith("_"))  # type: ignore[no-untyped-call]
"""How texts are written, which older files have here; some architectures read one of them."""
_ELSEWHERE = {
    "auto_map": "names code that comes with weights, which is never run; remove it to train transformers' own model",
    "trust_remote_code": "is for code that comes with weights, which is never run; remove it",
    "quantization_config": "is of quantized weights, which cannot be trained; remove it, and start from F32, F16 or BF16",
    "gradient_checkpointing": "is activation_checkpointing of the workload here; write it there",
    **dict.fromkeys(
        ("backbone", "backbone_config", "backbone_kwargs", "use_pretrained_backbone", "use_timm_backbone"),
        "names another network, which would have to be fetched; remove it",
    ),
}
"""Keys that are refused, unless they are off, with what to write."""
_ONLY = {"position_embedding_type": "absolute", "use_mrope": False, "pruned_heads": {}}
"""Keys that earlier releases of transformers read -> the value that is all that this one computes."""
_OF_POSITIONS = ("rope_theta", "rope_scaling", "partial_rotary_factor", "rotary_emb_base", "rotary_pct", "rope_local_base_freq")
"""What files of earlier releases say in place of ``rope_parameters`` (``RotaryEmbeddingConfigMixin``)."""
_LABELS = ("id2label", "label2id")
_BY_CHANCE = "layerdrop"
"""End of the names of keys by which a layer is left out of a forward pass by chance."""
_CLOSE = 0.85
"""Likeness of a word that nobody knows to a key, from which it is a mistake in a file that was otherwise written by a program."""
_NOT_COMPUTED = frozenset({
    "model_type", "num_labels", "vocab_size", "type_vocab_size", "max_position_embeddings", "n_positions", "n_ctx", "use_cache",
    "tie_word_embeddings", "pretraining_tp", "max_window_layers", "problem_type", "gradient_checkpointing", "quantization_config",
    *_LABELS, *_IGNORED, *_OF_TEXTS, *(name for name in vars(PreTrainedConfig()) if name != "chunk_size_feed_forward"),
})
"""Keys that leave the function alone, or that shapes and ties of the weights decide."""
_NOT_COMPUTED_PARTS = ("dropout", "_pdrop", "drop_path", "layerdrop", "initializer", "classifier_", "summary_", "_token_id")
"""Parts of the names of such keys: of training alone, of first values, of another task's head, of texts."""
_STRETCHED_BY_LENGTH = ("dynamic", "yarn", "longrope")
"""Kinds of rotary positions that depend on ``max_position_embeddings``."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What ``model.config`` of a run comes to."""

    built: Any
    """Of the architecture's own class."""
    ignored: tuple[str, ...]
    """Keys of the run that mean nothing here."""


def read_configuration(model: TransformersModel) -> Configuration:
    """Every key is understood, ignored by name, or refused with what to write.

    Raises :class:`InvalidRunError`.
    """
    if model.model_type not in CONFIG_MAPPING:
        close = did_you_mean(model.model_type, list(CONFIG_MAPPING))
        raise InvalidRunError(f"model_type {model.model_type} is unknown to transformers{close}")
    known = _known(model.model_type)
    pasted = not {"model_type", "architectures", "transformers_version"}.isdisjoint(model.config)
    if (said := model.config.get("model_type", model.model_type)) != model.model_type:
        raise InvalidRunError(f"model.config.model_type is {said}, model.model_type is {model.model_type}; write one in both")
    understood: dict[str, Any] = {}
    ignored: list[str] = []
    for key, value in model.config.items():
        if _counts(model.model_type, key, value, known, pasted):
            understood[key] = value
        else:
            ignored.append(key)
    _agree_on_labels(understood)
    try:
        built = AutoConfig.for_model(model.model_type, **understood)
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidRunError(f"model.config of {model.model_type}: {first_line(error)}") from error
    except Exception as error:  # huggingface_hub's strict dataclasses raise a class of their own that derives from Exception
        raise InvalidRunError(f"model.config of {model.model_type}: {' '.join(str(error).split())}") from error
    _refuse_chance(built)
    return Configuration(built, tuple(ignored))


def ignored_keys(model: Model) -> tuple[str, ...]:
    """Of its configuration, where a run gives one. Raises :class:`InvalidRunError`."""
    return read_configuration(model).ignored if isinstance(model, TransformersModel) else ()


def changed_function(theirs: Mapping[str, Any], ours: object) -> list[str]:
    """In which settings a ``config.json`` describes another function of the same weights, as sentences.

    Both are read by the architecture's own class, which knows what earlier releases called a setting, and what it is where
    nothing is said. Raises :class:`InvalidRunError` where the class cannot read the file's.
    """
    if not theirs or not isinstance(ours, PreTrainedConfig):
        return []
    if theirs.get("model_type", ours.model_type) != ours.model_type:
        return [f"model_type is {theirs['model_type']} there and {ours.model_type} in this run"]
    try:
        loaded = type(ours).from_dict(dict(theirs))
    except Exception as error:  # as above
        raise InvalidRunError(f"initial_weights: config.json of {ours.model_type}: {' '.join(str(error).split())}") from error
    read = vars(type(ours)()).keys() | vars(ours).keys()  # what a class does not read, it keeps and writes out again
    there, here = ({key: value for key, value in each.to_dict().items() if key in read} for each in (loaded, ours))
    found = list(_unequal(there, here, _counted_lengths(here)))
    beyond = {key: theirs[key] for key in _ONLY if key in theirs and key not in read}
    found += [(key, value, _ONLY[key]) for key, value in beyond.items() if value not in (_ONLY[key], None)]
    return [f"{key} is {value} there and {mine} in this run" for key, value, mine in found]


def _known(model_type: str) -> frozenset[str]:
    kind = CONFIG_MAPPING[model_type]
    default = kind()
    names = {name for name in vars(default) if not name.startswith("_")} | set(kind.attribute_map) | {"num_labels", *_LABELS}
    if hasattr(default, "rope_parameters"):
        names |= set(_OF_POSITIONS)
    return frozenset(names)


def _counts(model_type: str, key: str, value: Any, known: frozenset[str], pasted: bool) -> bool:
    """Whether a key means something here. Raises :class:`InvalidRunError` for one that must not stand there."""
    if key in _ELSEWHERE and value:
        raise InvalidRunError(f"model.config.{key} {_ELSEWHERE[key]}")
    if key in _ONLY and key not in known and value not in (_ONLY[key], None):
        raise InvalidRunError(f"model.config.{key} is {value!r}, and this release of transformers computes {_ONLY[key]!r} alone")
    if key == "model_type" or key in _IGNORED or key in _ELSEWHERE:
        return False
    if key in known:
        return True
    if key in _OF_TEXTS or key in _ONLY or (pasted and not difflib.get_close_matches(key, known, cutoff=_CLOSE)):
        return False  # written by a program that knew it; transformers keeps such a key, and reads it nowhere
    raise InvalidRunError(f"model.config.{key} is not a key of model_type {model_type}{did_you_mean(key, sorted(known))}")


def _agree_on_labels(config: dict[str, Any]) -> None:
    names, count = config.get("id2label"), config.get("num_labels")
    if names and count is not None and len(names) != count:
        raise InvalidRunError(f"model.config.num_labels is {count}, and id2label has {len(names)} names; remove id2label")


def _refuse_chance(config: PreTrainedConfig) -> None:
    for key, value in config.to_dict().items():
        if key.endswith(_BY_CHANCE) and value:
            raise InvalidRunError(
                f"model.config.{key} is {value}: each rank would leave out other layers, and wait for ever for gradients "
                f"that others do not have; write {key}: 0.0, and use dropout"
            )


def _counted_lengths(config: Mapping[str, Any]) -> frozenset[str]:
    """Keys that are left alone elsewhere, and decide rotary positions here."""
    rope = config.get("rope_parameters")
    kind = rope.get("rope_type") if isinstance(rope, dict) else None
    return frozenset({"max_position_embeddings"} if kind in _STRETCHED_BY_LENGTH else ())


def _unequal(
    there: Mapping[str, Any], here: Mapping[str, Any], counted: frozenset[str], within: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    for key in sorted(there.keys() | here.keys(), key=str):
        theirs, ours = there.get(key), here.get(key)
        name = str(key)
        left_alone = name in _NOT_COMPUTED or any(part in name for part in _NOT_COMPUTED_PARTS)
        if theirs == ours or (left_alone and name not in counted):
            continue
        if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
            yield from _unequal(theirs, ours, counted, f"{within}{name}.")
        else:
            yield f"{within}{name}", theirs, ours


def did_you_mean(word: str, known: list[str]) -> str:
    """The end of a sentence about a word that nobody knows."""
    close = difflib.get_close_matches(word, known, n=3)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def first_line(error: BaseException) -> str:
    """Of an error's message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
