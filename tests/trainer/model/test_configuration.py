"""A ``config.json`` as it lies on the Hub is a model: each key counts, is ignored by name, or is refused with what to write."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.trainer.contract.specifications import BASE
from tests.trainer.model.recipes import MODEL, REVIEWS, TEXT
from torch import nn

from trainwright_trainer.commands.plan.plan import model_size
from trainwright_trainer.contract.data import ImageFolder
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.model import TransformersModel
from trainwright_trainer.contract.training import Training
from trainwright_trainer.model.build import build_model
from trainwright_trainer.model.configuration import read_configuration

SMALL = {
    "vocab_size": 512, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
GPT = {"vocab_size": 512, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 1024}
BYTES: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 1}
# The keys and their values are those of the files on the Hub; sizes are smaller, and ids are in the smaller vocabularies.
HUB: dict[str, dict[str, Any]] = {
    "Llama-3.1-8B": {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0,
        "eos_token_id": [1, 2], "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 131072,
        "mlp_bias": False, "model_type": "llama", "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192, "rope_type": "llama3"},
        "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.42.3",
        "use_cache": True, **SMALL,
    },
    "Qwen2.5-0.5B": {
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu", "initializer_range": 0.02,
        "max_position_embeddings": 32768, "max_window_layers": 24, "model_type": "qwen2", "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.40.1", "use_cache": True, "use_mrope": False, "use_sliding_window": False, **SMALL, **BYTES,
    },
    "Qwen3-0.6B": {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "head_dim": 8,
        "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 40960, "max_window_layers": 28,
        "model_type": "qwen3", "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": True,
        "use_sliding_window": False, **SMALL, **BYTES,
    },
    "Mistral-7B": {
        "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu", "initializer_range": 0.02,
        "max_position_embeddings": 32768, "model_type": "mistral", "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
        "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.42.0.dev0",
        "use_cache": True, **SMALL, **BYTES,
    },
    "gemma-2-2b": {
        "architectures": ["Gemma2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0,
        "cache_implementation": "hybrid", "final_logit_softcapping": 30.0, "head_dim": 8, "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh", "initializer_range": 0.02, "max_position_embeddings": 8192,
        "model_type": "gemma2", "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
        "sliding_window": 4096, "torch_dtype": "float32", "transformers_version": "4.42.4", "use_cache": True, **SMALL, **BYTES,
    },
    "gemma-3-1b": {
        "architectures": ["Gemma3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": None,
        "cache_implementation": "hybrid", "final_logit_softcapping": None, "head_dim": 8,
        "hidden_activation": "gelu_pytorch_tanh", "initializer_range": 0.02, "max_position_embeddings": 32768,
        "model_type": "gemma3_text", "pad_token_id": 0,
        "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": None,
        "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16",
        "transformers_version": "4.50.0.dev0", "use_cache": True, **SMALL, **BYTES,
    },
    "SmolLM2-135M": {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu",
        "initializer_range": 0.041666666666666664, "is_llama_config": True, "max_position_embeddings": 8192, "mlp_bias": False,
        "model_type": "llama", "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": False, "rope_scaling": None,
        "rope_theta": 100000, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.40.1",
        "use_cache": True, **SMALL, **BYTES,
    },
    "pythia-70m": {
        "architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "initializer_range": 0.02, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048, "model_type": "gpt_neox", "rotary_emb_base": 10000, "rotary_pct": 0.25,
        "tie_word_embeddings": False, "torch_dtype": "float16", "transformers_version": "4.24.0", "use_cache": True,
        "use_parallel_residual": True, **{key: value for key, value in SMALL.items() if key != "num_key_value_heads"}, **BYTES,
    },
    "gpt2": {
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "resid_pdrop": 0.1,
        "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True, "summary_type": "cls_index",
        "summary_use_proj": True, "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, **GPT,
        **BYTES,
    },
    "opt-125m": {
        "_name_or_path": "facebook/opt-125m", "activation_dropout": 0.0, "activation_function": "relu",
        "architectures": ["OPTForCausalLM"], "attention_dropout": 0.0, "do_layer_norm_before": True, "dropout": 0.1,
        "ffn_dim": 48, "hidden_size": 32, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
        "model_type": "opt", "num_attention_heads": 4, "num_hidden_layers": 2, "pad_token_id": 1, "prefix": "</s>",
        "torch_dtype": "float16", "transformers_version": "4.21.0.dev0", "use_cache": True, "vocab_size": 512,
        "word_embed_proj_dim": 32, **BYTES,
    },
}
IMAGES: dict[str, dict[str, Any]] = {
    "vit": {
        "_name_or_path": "google/vit", "architectures": ["ViTForImageClassification"], "attention_probs_dropout_prob": 0.0,
        "encoder_stride": 16, "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "hidden_size": 32,
        "id2label": {"0": "cat", "1": "dog", "2": "bird"}, "image_size": 32, "initializer_range": 0.02, "intermediate_size": 48,
        "label2id": {"cat": 0, "dog": 1, "bird": 2}, "layer_norm_eps": 1e-12, "model_type": "vit", "num_attention_heads": 4,
        "num_channels": 3, "num_hidden_layers": 2, "patch_size": 16, "qkv_bias": True, "transformers_version": "4.13.0.dev0",
    },
    "resnet": {
        "architectures": ["ResNetForImageClassification"], "depths": [1, 1], "downsample_in_first_stage": False,
        "embedding_size": 16, "hidden_act": "relu", "hidden_sizes": [16, 32], "id2label": {"0": "a", "1": "b", "2": "c"},
        "label2id": {"a": 0, "b": 1, "c": 2}, "layer_type": "basic", "model_type": "resnet", "num_channels": 3,
        "torch_dtype": "float32", "transformers_version": "4.18.0.dev0",
    },
}
BERT: dict[str, Any] = {
    "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 48,
    "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 4,
    "num_hidden_layers": 2, "pad_token_id": 0, "position_embedding_type": "absolute", "transformers_version": "4.6.0.dev0",
    "type_vocab_size": 2, "use_cache": True, "vocab_size": 512,
}


def model(config: dict[str, Any], model_type: str | None = None) -> TransformersModel:
    keys = {"architecture": "transformers", "model_type": model_type or config["model_type"], "config": config}
    read = MODEL.validate_python(keys)
    assert isinstance(read, TransformersModel)
    return read


def config_of(module: nn.Module) -> Any:
    return module.config


@pytest.mark.parametrize("name", HUB)
def test_a_decoder_from_the_hub(name: str) -> None:
    config = HUB[name]
    built = config_of(build_model(model(config), "causal-lm", TEXT))
    rope = getattr(built, "rope_parameters", None) or {}
    found = rope.get("full_attention", rope).get("rope_theta")
    assert found == config.get("rope_theta", config.get("rotary_emb_base"))
    for key in ("rms_norm_eps", "layer_norm_eps", "hidden_act", "activation_function", "head_dim", "final_logit_softcapping"):
        if key in config and hasattr(built, key):
            assert getattr(built, key) == config[key], key


def test_masked_and_images_from_the_hub() -> None:
    assert config_of(build_model(model(BERT), "masked-lm", TEXT)).layer_norm_eps == 1e-12
    folder = ImageFolder(source="image-folder", path="/data", image_size=32, classes=3)
    for config in IMAGES.values():
        assert config_of(build_model(model(config), "image-classification", folder)).num_labels == 3


def test_labels_of_texts() -> None:
    config = BERT | {"id2label": {"0": "bad", "1": "fair", "2": "good"}, "label2id": {"bad": 0, "fair": 1, "good": 2}}
    assert config_of(build_model(model(config), "text-classification", REVIEWS)).num_labels == 3


def test_what_is_ignored_is_named() -> None:
    assert read_configuration(model(HUB["Qwen2.5-0.5B"])).ignored == (
        "architectures", "model_type", "torch_dtype", "transformers_version", "use_mrope"
    )
    assert "is_llama_config" in read_configuration(model(HUB["SmolLM2-135M"])).ignored
    assert "n_ctx" in read_configuration(model(HUB["gpt2"])).ignored
    assert read_configuration(model({"n_layer": 1}, "gpt2")).ignored == ()


def test_the_plan_names_what_is_ignored() -> None:
    training = Training.model_validate(BASE["work"] | {
        "task": "causal-lm", "model": {"architecture": "transformers", "model_type": "gpt2", "config": HUB["gpt2"]},
        "data": TEXT.model_dump(),
    })
    assert "model.config.n_ctx is ignored" in model_size(training)[0].how


@pytest.mark.parametrize(("config", "model_type", "message"), [
    (HUB["gpt2"], "gpt_neox", r"config\.model_type is gpt2, model\.model_type is gpt_neox; write one in both"),
    (HUB["Mistral-7B"] | {"auto_map": {"AutoModel": "x.py"}}, None, r"auto_map names code that comes with weights.*; remove it"),
    (HUB["Mistral-7B"] | {"trust_remote_code": True}, None, r"trust_remote_code is for code .*; remove it"),
    (HUB["Llama-3.1-8B"] | {"quantization_config": {"quant_method": "gptq"}}, None, r"quantization_config is of quantized"),
    (BERT | {"gradient_checkpointing": True}, None, r"gradient_checkpointing is activation_checkpointing of the workload here"),
    (BERT | {"position_embedding_type": "relative_key"}, None, r"position_embedding_type is 'relative_key'.* 'absolute' alone"),
    (IMAGES["vit"] | {"num_labels": 4}, None, r"num_labels is 4, and id2label has 3 names; remove id2label"),
    (HUB["Llama-3.1-8B"] | {"num_hiden_layers": 3}, None, r"num_hiden_layers is not a key .*did you mean num_hidden_layers"),
    ({"n_layer": 1, "is_llama_config": True}, "gpt2", r"is_llama_config is not a key of model_type gpt2"),
    (HUB["opt-125m"] | {"layerdrop": 0.1}, None, r"layerdrop is 0\.1: .*write layerdrop: 0\.0"),
    ({"encoder_layerdrop": 0.0, "decoder_layerdrop": 0.2}, "bart", r"decoder_layerdrop is 0\.2: .*write decoder_layerdrop: 0\.0"),
])
def test_refusals(config: dict[str, Any], model_type: str | None, message: str) -> None:
    with pytest.raises(InvalidRunError, match=message) as raised:
        read_configuration(model(config, model_type))
    assert "\n" not in str(raised.value)


def test_a_loss_that_nobody_adds_is_refused_before() -> None:
    with pytest.raises(ValidationError, match="output_router_logits"):
        model({"model_type": "mixtral", "output_router_logits": True})
