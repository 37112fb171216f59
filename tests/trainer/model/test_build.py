from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from trainwright_trainer.contract.data import Data, Digits, HFDataset, ImageFolder, PythonSource
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.contract.model import Bert, Llama, LlamaRopeScaling, Model, ResNet, ViT
from trainwright_trainer.contract.training import TaskName
from trainwright_trainer.model.build import build_model

DIGITS = Digits(source="digits")
SOURCE = PythonSource(source="python-stdlib", sequence_length=32)
MODEL: TypeAdapter[Model] = TypeAdapter(Model)

LLAMA: dict[str, Any] = {
    "vocab_size": 256, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
}
LLAMAS: list[dict[str, Any]] = [
    LLAMA,
    LLAMA | {"vocab_size": 300, "num_hidden_layers": 3, "num_key_value_heads": 2},
    LLAMA | {"hidden_size": 64, "num_hidden_layers": 1, "tie_word_embeddings": True},
]
BERT_LARGE = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
BERTS: list[dict[str, Any]] = [
    LLAMA,
    LLAMA | {"type_vocab_size": 1, "max_position_embeddings": 64, "num_labels": 3},
    {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
    BERT_LARGE,
    BERT_LARGE | {"num_labels": 2},
]
VITS: list[dict[str, Any]] = [
    {"image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
     "num_attention_heads": 2, "num_labels": 10},
    {"image_size": 224, "patch_size": 16, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 1,
     "num_attention_heads": 3, "num_labels": 1000, "dropout": 0.2},
]
RESNET: dict[str, Any] = {"num_labels": 10, "num_channels": 1, "embedding_size": 16, "layer_type": "basic"}
RESNETS: list[dict[str, Any]] = [
    {"num_labels": 1000},
    RESNET | {"hidden_sizes": [16, 32, 64], "depths": [2, 1, 2]},
    RESNET | {"hidden_sizes": [16, 32], "depths": [1, 1]},
    {"num_labels": 5, "embedding_size": 8, "hidden_sizes": [32, 32], "depths": [1, 2]},
]


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("keys", LLAMAS)
def test_llama_has_the_parameters_that_the_contract_says(keys: dict[str, Any]) -> None:
    model = Llama(architecture="llama", **keys)
    assert count(build_model(model, "causal-lm", SOURCE)) == model.parameters


@pytest.mark.parametrize("keys", BERTS)
def test_bert_has_the_parameters_that_the_contract_says(keys: dict[str, Any]) -> None:
    model = Bert(architecture="bert", **keys)
    with torch.device("meta"):  # shapes without memory
        module = build_model(model, "masked-lm" if model.num_labels is None else "text-classification", SOURCE)
    assert count(module) == model.parameters


@pytest.mark.parametrize("keys", VITS)
def test_vit_has_the_parameters_that_the_contract_says(keys: dict[str, Any]) -> None:
    model = ViT(architecture="vit", **keys)
    assert count(build_model(model, "image-classification", DIGITS)) == model.parameters


@pytest.mark.parametrize("keys", RESNETS)
def test_resnet_has_the_parameters_that_the_contract_says(keys: dict[str, Any]) -> None:
    model = ResNet(architecture="resnet", **keys)
    assert count(build_model(model, "image-classification", DIGITS)) == model.parameters


def test_what_the_run_says_reaches_the_configuration() -> None:
    vit = build_model(ViT(architecture="vit", **VITS[1]), "image-classification", DIGITS)
    config: Any = vit.config
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.2
    assert config._attn_implementation == "sdpa"
    llama: Any = build_model(Llama(architecture="llama", rope_theta=5e5, **LLAMAS[0]), "causal-lm", SOURCE)
    assert llama.config.rope_parameters["rope_theta"] == 5e5
    assert llama.model.rotary_emb.inv_freq[-1] == pytest.approx(5e5 ** -(6 / 8))
    assert next(iter(llama.parameters())).dtype == torch.float32


def test_llama_3_1_keeps_its_norm_and_its_stretched_frequencies() -> None:
    scaling = LlamaRopeScaling(factor=8, original_max_position_embeddings=32)
    model = Llama(architecture="llama", rope_theta=5e5, rms_norm_eps=1e-5, rope_scaling=scaling, **LLAMA)
    built: Any = build_model(model, "causal-lm", SOURCE)
    plain: Any = build_model(model.model_copy(update={"rope_scaling": None}), "causal-lm", SOURCE)
    assert built.model.norm.variance_epsilon == 1e-5
    assert built.model.rotary_emb.inv_freq[-1] == pytest.approx(plain.model.rotary_emb.inv_freq[-1] / 8)
    assert built.model.rotary_emb.inv_freq[0] == plain.model.rotary_emb.inv_freq[0]


def test_llama_without_them_is_what_it_was() -> None:
    llama: Any = build_model(Llama(architecture="llama", **LLAMA), "causal-lm", SOURCE)
    assert llama.config.rms_norm_eps == 1e-6
    assert llama.config.rope_parameters == {"rope_type": "default", "rope_theta": 10000.0}


def transformers(model_type: str, task: TaskName = "causal-lm", data: Data = SOURCE, **config: Any) -> torch.nn.Module:
    parsed = MODEL.validate_python({"architecture": "transformers", "model_type": model_type, "config": config})
    return build_model(parsed, task, data)


def test_any_architecture_by_its_own_keys_or_their_aliases() -> None:
    small: dict[str, Any] = {"n_head": 2, "n_positions": 64, "vocab_size": 256}
    own = transformers("gpt2", n_embd=32, n_layer=2, **small)
    assert count(own) == count(transformers("gpt2", hidden_size=32, num_hidden_layers=2, **small))


@pytest.mark.parametrize(
    ("model_type", "config", "message"),
    [
        ("gpt22", {}, r"model_type gpt22 is unknown to transformers; did you mean gpt2"),
        ("gpt2", {"n_layers": 2}, r"model.config.n_layers is not a key of model_type gpt2; did you mean n_layer"),
        ("gpt2", {"n_layer": "two"}, r"model.config of gpt2: .*n_layer"),
        ("gpt2", {"auto_map": {"AutoModel": "evil.py"}}, r"auto_map names code that comes with weights"),
        ("gpt2", {"vocab_size": 100}, r"model.config.vocab_size of gpt2 is 100; python-stdlib needs at least 256"),
        ("gpt2", {"n_positions": 16}, r"model.config.max_position_embeddings of gpt2 is 16; python-stdlib needs at least 32"),
        ("vit", {}, r"model_type vit cannot be built for task causal-lm"),
    ],
)
def test_refusals(model_type: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRunError, match=message) as raised:
        transformers(model_type, **config)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_images_of_another_shape() -> None:
    with pytest.raises(InvalidRunError, match=r"model\.config\.num_labels of vit is 2; digits needs exactly 10"):
        transformers("vit", "image-classification", DIGITS, image_size=8, num_channels=1)


def test_images_of_the_runs_own_shape() -> None:
    folder = ImageFolder(source="image-folder", path="/data", image_size=32, classes=7)
    with pytest.raises(InvalidRunError, match=r"model\.config\.num_labels of vit is 2; image-folder needs exactly 7"):
        transformers("vit", "image-classification", folder, image_size=32)


@pytest.mark.parametrize(
    ("task", "head"), [("masked-lm", "BertForMaskedLM"), ("text-classification", "BertForSequenceClassification")]
)
def test_the_task_decides_the_head(task: TaskName, head: str) -> None:
    data = HFDataset(source="hf-dataset", path="/data", tokenizer="/tokenizer", max_length=64)
    built = transformers("bert", task, data, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    assert type(built).__name__ == head


def test_what_a_task_on_text_needs_of_a_configuration() -> None:
    reviews = HFDataset(
        source="hf-dataset", path="/data", tokenizer="/tokenizer", max_length=64, label_column="label", classes=3
    )
    with pytest.raises(InvalidRunError, match=r"model\.config\.num_labels of bert is 2; hf-dataset needs exactly 3"):
        transformers("bert", "text-classification", reviews)
    with pytest.raises(InvalidRunError, match=r"gpt2 needs the tokenizer's padding .*: add pad_token_id to model\.config"):
        transformers("gpt2", "text-classification", reviews, num_labels=3, n_embd=16, n_layer=1, n_head=2)
    with pytest.raises(InvalidRunError, match=r"vocab_size of bert is 256; python-stdlib needs at least 257"):  # one for the mask
        transformers("bert", "masked-lm", SOURCE, vocab_size=256)


def test_a_decoder_and_the_data_agree_on_padding() -> None:
    reviews = HFDataset(
        source="hf-dataset", path="/data", tokenizer="/tokenizer", max_length=64, label_column="label", classes=3
    )
    small = {"num_labels": 3, "n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 50}

    def decoder(**config: Any) -> torch.nn.Module:
        model = MODEL.validate_python({"architecture": "transformers", "model_type": "gpt2", "config": small | config})
        return build_model(model, "text-classification", reviews, padding=3).eval()

    with pytest.raises(InvalidRunError, match=r"the data's tokenizer pads with 3: .*; write pad_token_id: 3$"):
        decoder(pad_token_id=0)
    with pytest.raises(InvalidRunError, match=r"add pad_token_id: 3 to model\.config"):
        decoder()
    model = decoder(pad_token_id=3)
    short, long = [7, 8, 9], [10, 11, 12, 13, 14]
    padded = torch.tensor([[*short, 3, 3], long])
    attention = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    together = model(input_ids=padded, attention_mask=attention).logits
    alone = [model(input_ids=torch.tensor([text])).logits[0] for text in (short, long)]
    torch.testing.assert_close(together, torch.stack(alone))


def test_wrong_parameter_count() -> None:
    config = {"n_layer": 1, "n_embd": 24}
    model = MODEL.validate_python({"architecture": "transformers", "model_type": "gpt2", "parameters": 5, "config": config})
    with pytest.raises(InvalidRunError, match=r"model.parameters is 5, and the module has"):
        build_model(model, "causal-lm", SOURCE)
