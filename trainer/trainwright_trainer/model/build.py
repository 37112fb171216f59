"""From a run's ``model`` to a module of ``transformers``."""

from __future__ import annotations

from typing import Any, cast

from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

from trainwright_trainer.contract.data import DIGITS_CLASSES, DIGITS_IMAGE_SIZE, Data, Digits, HFDataset, ImageFolder
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.model import Bert, Llama, Model, ResNet, TransformersModel, ViT
from trainwright_trainer.contract.training import TaskName
from trainwright_trainer.model.configuration import first_line, read_configuration
from trainwright_trainer.task.causal_lm import answer_with_sums

_ATTENTION = "sdpa"
LLAMA_NORM_EPS = 1e-6
"""What ``transformers`` 5 takes where a configuration does not say."""
_FACTORIES: dict[TaskName, Any] = {
    "image-classification": AutoModelForImageClassification,
    "causal-lm": AutoModelForCausalLM,
    "masked-lm": AutoModelForMaskedLM,
    "text-classification": AutoModelForSequenceClassification,
}


def build_model(model: Model, task: TaskName, data: Data, padding: int | None = None) -> nn.Module:
    """A freshly initialised module in fp32, from torch's current random state.

    A causal language model also answers with the sums that its task asks for (:func:`answer_with_sums`).

    Args:
        model: The run's.
        task: The run's; it decides the head.
        data: The run's.
        padding: Token that fills up short samples, where the data is at hand.

    Raises:
        InvalidRunError: The configuration is not one that ``transformers`` can build, or does not fit the data.
    """
    module = _module(model, task, data, padding)
    if task == "causal-lm":
        answer_with_sums(module)
    return module


def _module(model: Model, task: TaskName, data: Data, padding: int | None) -> nn.Module:
    match model:
        case Llama():
            return _llama(model)
        case Bert():
            return _bert(model)
        case ViT():
            return _vit(model)
        case ResNet():
            return _resnet(model)
        case TransformersModel():
            return _any(model, task, data, padding)


def _llama(model: Llama) -> nn.Module:
    return LlamaForCausalLM(LlamaConfig(  # type: ignore[call-arg]  # the base class takes the rest as **kwargs
        vocab_size=model.vocab_size,
        hidden_size=model.hidden_size,
        intermediate_size=model.intermediate_size,
        num_hidden_layers=model.num_hidden_layers,
        num_attention_heads=model.num_attention_heads,
        num_key_value_heads=model.key_value_heads,
        max_position_embeddings=model.max_position_embeddings,
        rms_norm_eps=model.rms_norm_eps or LLAMA_NORM_EPS,
        rope_parameters=_rope(model),
        tie_word_embeddings=model.tie_word_embeddings,
        use_cache=False,
        attn_implementation=_ATTENTION,
    ))


def _rope(model: Llama) -> dict[str, Any]:
    if model.rope_scaling is None:
        return {"rope_type": "default", "rope_theta": model.rope_theta}
    return {"rope_type": "llama3", "rope_theta": model.rope_theta, **model.rope_scaling.model_dump()}


def _bert(model: Bert) -> nn.Module:
    settings: dict[str, Any] = {} if model.num_labels is None else {"num_labels": model.num_labels}
    config = BertConfig(  # type: ignore[call-arg]
        vocab_size=model.vocab_size,
        hidden_size=model.hidden_size,
        intermediate_size=model.intermediate_size,
        num_hidden_layers=model.num_hidden_layers,
        num_attention_heads=model.num_attention_heads,
        max_position_embeddings=model.max_position_embeddings,
        type_vocab_size=model.type_vocab_size,
        hidden_dropout_prob=model.dropout,
        attention_probs_dropout_prob=model.dropout,
        attn_implementation=_ATTENTION,
        **settings,
    )
    return BertForMaskedLM(config) if model.num_labels is None else BertForSequenceClassification(config)


def _vit(model: ViT) -> nn.Module:
    return ViTForImageClassification(ViTConfig(  # type: ignore[call-arg]
        image_size=model.image_size,
        patch_size=model.patch_size,
        num_channels=model.num_channels,
        hidden_size=model.hidden_size,
        intermediate_size=model.intermediate_size,
        num_hidden_layers=model.num_hidden_layers,
        num_attention_heads=model.num_attention_heads,
        hidden_dropout_prob=model.dropout,
        attention_probs_dropout_prob=model.dropout,
        num_labels=model.num_labels,
        attn_implementation=_ATTENTION,
    ))


def _resnet(model: ResNet) -> nn.Module:
    return ResNetForImageClassification(ResNetConfig(  # type: ignore[call-arg]
        num_channels=model.num_channels,
        embedding_size=model.embedding_size,
        hidden_sizes=list(model.hidden_sizes),
        depths=list(model.depths),
        layer_type=model.layer_type,
        num_labels=model.num_labels,
    ))


def _any(model: TransformersModel, task: TaskName, data: Data, padding: int | None) -> nn.Module:
    config = read_configuration(model).built
    _fit(model.model_type, config, task, data)
    try:
        module = _FACTORIES[task].from_config(config, trust_remote_code=False)
    except (ValueError, TypeError, ImportError, OSError, AttributeError) as error:
        raise InvalidRunError(f"model_type {model.model_type} cannot be built for task {task}: {first_line(error)}") from error
    if task == "text-classification" and hasattr(module, "score"):
        _agree_on_padding(model.model_type, config.get_text_config().pad_token_id, padding)
    counted = sum(parameter.numel() for parameter in module.parameters())
    if model.parameters is not None and model.parameters != counted:
        raise InvalidRunError(f"model.parameters is {model.parameters}, and the module has {counted}")
    return cast("nn.Module", module)


def _agree_on_padding(model_type: str, stated: int | None, padding: int | None) -> None:
    """Decoders classify by the last token that is no padding (GenericForSequenceClassification), and have to know which is."""
    known = "" if padding is None else f": {padding}"
    if stated is None:
        raise InvalidRunError(
            f"model_type {model_type} needs the tokenizer's padding for text-classification: add pad_token_id{known} to "
            "model.config"
        )
    if padding not in (None, stated):
        raise InvalidRunError(
            f"model.config.pad_token_id is {stated}, and the data's tokenizer pads with {padding}: {model_type} would take "
            f"padding for the end of a text; write pad_token_id{known}"
        )


def _fit(model_type: str, config: Any, task: TaskName, data: Data) -> None:
    """Refuse what would fail, or train silently wrong, in the first forward pass."""
    wanted: dict[str, tuple[str, int]]
    if isinstance(data, Digits):
        exact = {"num_labels": DIGITS_CLASSES, "num_channels": 1, "image_size": DIGITS_IMAGE_SIZE}
        wanted = {key: ("exactly", value) for key, value in exact.items()}
    elif isinstance(data, ImageFolder):
        exact = {"num_labels": data.classes, "num_channels": data.channels, "image_size": data.image_size}
        wanted = {key: ("exactly", value) for key, value in exact.items()}
    else:
        masks_itself = task == "masked-lm" and not isinstance(data, HFDataset)
        least = {"vocab_size": (data.vocabulary or 1) + masks_itself, "max_position_embeddings": data.sequence_length}
        wanted = {key: ("at least", value) for key, value in least.items()}
        if isinstance(data, HFDataset) and data.classes is not None:
            wanted["num_labels"] = ("exactly", data.classes)
    for key, (relation, value) in wanted.items():
        found = getattr(config, key, None)
        if isinstance(found, int) and (found != value if relation == "exactly" else found < value):
            raise InvalidRunError(f"model.config.{key} of {model_type} is {found}; {data.source} needs {relation} {value}")
