"""Weights to start from: what fits is read, what does not is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.trainer.model.recipes import RECIPES, REVIEWS, SIZES, Recipe, bert, classifier, llama, recipe, transformers
from torch import Tensor, nn

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.model.initialise import initialise, materialise, skeleton
from trainwright_trainer.model.weights import Origin

FILE = "model.safetensors"


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[Recipe], Path]:
    """A directory with a model's weights, as ``save_pretrained`` writes it."""

    def save(source: Recipe) -> Path:
        torch.manual_seed(7)
        module: Any = source.build()
        module.save_pretrained(tmp_path / "weights")
        return tmp_path / "weights"

    return save


def started(source: Recipe, weights: Path) -> tuple[nn.Module, Origin]:
    module = skeleton(source.build)
    materialise(module, torch.device("cpu"))
    origin = initialise(module, seed=1, weights=weights)
    assert origin is not None
    return module, origin


def change(weights: Path, edit: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    save_file(edit(load_file(weights / FILE)), weights / FILE, {"format": "pt"})


@pytest.mark.parametrize("name", RECIPES)
def test_what_was_saved_is_what_starts(name: str, saved: Callable[[Recipe], Path]) -> None:
    weights = saved(RECIPES[name])
    torch.manual_seed(7)
    module, origin = started(RECIPES[name], weights)
    assert (origin.fresh, origin.unused) == ((), ())
    for key, value in RECIPES[name].build().state_dict().items():
        assert torch.equal(module.state_dict()[key], value), key


def test_several_files(tmp_path: Path) -> None:
    torch.manual_seed(7)
    module: Any = llama().build()
    module.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    ours, _ = started(llama(), tmp_path)
    assert all(torch.equal(ours.get_parameter(name), value) for name, value in module.named_parameters())


def test_half_precision_is_widened(saved: Callable[[Recipe], Path]) -> None:
    weights = saved(llama())
    change(weights, lambda tensors: {name: tensor.bfloat16() for name, tensor in tensors.items()})
    module, _ = started(llama(), weights)
    assert torch.equal(module.get_parameter("lm_head.weight"), load_file(weights / FILE)["lm_head.weight"].float())


def test_a_masked_model_becomes_a_classifier(saved: Callable[[Recipe], Path]) -> None:
    weights = saved(bert())
    module, origin = started(classifier(), weights)
    assert origin.fresh == ("bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias")
    assert all(name.startswith("cls.") for name in origin.unused)
    assert origin.unused
    assert float(module.get_parameter("classifier.weight").detach().std()) == pytest.approx(0.02, rel=0.3)
    assert module.get_parameter("bert.encoder.layer.0.output.dense.weight").equal(
        load_file(weights / FILE)["bert.encoder.layer.0.output.dense.weight"]
    )


def test_a_model_without_a_head_and_a_head_for_other_classes(saved: Callable[[Recipe], Path]) -> None:
    weights = saved(classifier())
    change(weights, lambda tensors: {
        name.removeprefix("bert."): tensor for name, tensor in tensors.items() if not name.startswith("classifier")
    })
    _, origin = started(classifier(), weights)
    assert origin.fresh == ("classifier.weight", "classifier.bias")
    resnet = RECIPES["resnet"]
    weights = saved(recipe(resnet.task, resnet.data, **(resnet.model.model_dump() | {"num_labels": 4})))
    _, origin = started(resnet, weights)
    assert origin.fresh == ("classifier.1.weight", "classifier.1.bias")


def test_a_decoder_becomes_a_classifier(saved: Callable[[Recipe], Path]) -> None:
    keys = {key: value for key, value in llama().model.model_dump().items() if key != "architecture" and value is not None}
    config = {key: value for key, value in keys.items() if not key.startswith("rope")} | {"num_labels": 3, "pad_token_id": 0}
    target = recipe("text-classification", REVIEWS, architecture="transformers", model_type="llama", config=config)
    _, origin = started(target, saved(llama()))
    assert origin.fresh == ("score.weight",)
    assert origin.unused == ("lm_head.weight",)


def test_names_of_old_files(saved: Callable[[Recipe], Path]) -> None:
    weights = saved(bert())
    change(weights, lambda tensors: {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    })
    _, origin = started(bert(), weights)
    assert origin.fresh == ()


def describe(weights: Path, **keys: Any) -> None:
    """Write keys of ``config.json``; None takes one away."""
    path = weights / "config.json"
    content = json.loads(path.read_text()) | keys
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def of_qwen(**keys: Any) -> Recipe:
    return transformers("qwen2", **(SIZES | {"num_key_value_heads": 2} | keys))


OLD = {"rope_parameters": None}
LLAMA_3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}


@pytest.mark.parametrize(("here", "said", "message"), [
    (llama(), OLD | {"rope_theta": 500000.0}, r"rope_theta is 500000\.0 there and 10000\.0 in this run; write the model"),
    (of_qwen(), OLD | {"rope_theta": 1000000.0}, r"rope_theta is 1000000\.0 there and 10000\.0 in this run"),
    (llama(rope_theta=5e5), OLD | {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **LLAMA_3}}, "rope_parameters"),
    (llama(), OLD | {"rope_theta": 1e4, "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_parameters"),
    (llama(), {"rms_norm_eps": 1e-5}, "rms_norm_eps is 1e-05 there and 1e-06 in this run"),
    (llama(), {"hidden_act": "gelu"}, "hidden_act is gelu there and silu in this run"),
    (of_qwen(), {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0, "layer_types": None}, "layer_types"),
    (RECIPES["gpt2"], {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx is True there"),
    (RECIPES["gpt2"], {"activation_function": "relu"}, "activation_function is relu there"),
    (bert(), {"layer_norm_eps": 1e-5}, "layer_norm_eps is 1e-05 there"),
    (bert(), {"is_decoder": True}, "is_decoder is True there"),
    (bert(), {"position_embedding_type": "relative_key"}, "position_embedding_type is relative_key there and absolute"),
    (RECIPES["vit"], {"hidden_act": "relu"}, "hidden_act is relu there"),
    (RECIPES["resnet"], {"hidden_act": "gelu"}, "hidden_act is gelu there"),
    (RECIPES["resnet"], {"downsample_in_first_stage": True}, "downsample_in_first_stage is True there"),
])
def test_another_function_of_the_same_weights(
    here: Recipe, said: dict[str, Any], message: str, saved: Callable[[Recipe], Path]
) -> None:
    weights = saved(here)
    describe(weights, **said)
    with pytest.raises(InvalidRunError, match=message):
        started(here, weights)


@pytest.mark.parametrize(("here", "said"), [
    (llama(rope_theta=5e5), OLD | {"rope_theta": 500000.0}),
    (of_qwen(rope_theta=1e6), OLD | {"rope_theta": 1000000}),
    (llama(rope_theta=5e5, rope_scaling=LLAMA_3),
     OLD | {"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", **LLAMA_3}}),
    (llama(), {"attention_dropout": 0.1, "initializer_range": 0.5, "use_cache": True, "eos_token_id": [7, 9], "pad_token_id": 3,
               "torch_dtype": "bfloat16", "transformers_version": "4.40.0", "max_position_embeddings": 131072}),
    (bert(), {"hidden_dropout_prob": 0.5, "classifier_dropout": 0.1, "position_embedding_type": "absolute", "of_theirs": 5}),
    (RECIPES["gpt2"], {"summary_type": "mean", "task_specific_params": {"text-generation": {"max_length": 50}}}),
    (RECIPES["vit"], {"id2label": {"0": "nought"}, "label2id": {"nought": 0}}),
])
def test_the_same_function_in_other_words(here: Recipe, said: dict[str, Any], saved: Callable[[Recipe], Path]) -> None:
    weights = saved(here)
    describe(weights, **said)
    _, origin = started(here, weights)
    assert origin.fresh == ()


def lacking(name: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda tensors: {key: tensor for key, tensor in tensors.items() if key != name}


REFUSED: dict[str, tuple[Recipe, Recipe, Callable[[dict[str, Tensor]], dict[str, Tensor]] | None, str]] = {
    "other width": (
        llama(intermediate_size=64), llama(), None,
        r"is another model than the run's: model\.layers\.0\.mlp\.gate_proj\.weight is \(64, 32\) there and \(48, 32\) in this "
        r"run; .*; and 6 more$",
    ),
    "fewer layers": (
        llama(num_hidden_layers=2), llama(), None, r"model\.layers\.2\.self_attn\.q_proj\.weight is absent there",
    ),
    "more layers": (
        llama(num_hidden_layers=4), llama(), None, r"model\.layers\.3\.\S+ is there and not in this run",
    ),
    "no head": (llama(), llama(), lacking("lm_head.weight"), r"lm_head\.weight is absent there and \(257, 32\) in this run$"),
    "other vocabulary": (llama(vocab_size=300), llama(), None, r"model\.embed_tokens\.weight is \(300, 32\) there"),
    "untied": (llama(), llama(tie_word_embeddings=True), None, r"and this run's model ties them"),
    "another model": (RECIPES["vit"], llama(), None, r"model_type is vit there and llama in this run"),
    "other heads of the same width": (
        llama(num_attention_heads=4), llama(num_attention_heads=8), None, r"num_attention_heads is 4 there and 8 in this run",
    ),
    "quantized": (
        llama(), llama(), lambda tensors: tensors | {"lm_head.weight": torch.zeros(257, 32, dtype=torch.int8)},
        r"lm_head\.weight has dtype I8, so the weights are quantized",
    ),
}


@pytest.mark.parametrize(("there", "here", "edit", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit(
    there: Recipe, here: Recipe, edit: Callable[[dict[str, Tensor]], dict[str, Tensor]] | None, message: str,
    saved: Callable[[Recipe], Path],
) -> None:
    weights = saved(there)
    if edit:
        change(weights, edit)
    with pytest.raises(InvalidRunError, match=message) as raised:
        started(here, weights)
    assert "\n" not in str(raised.value)


def cut(folder: Path) -> None:
    (folder / FILE).write_bytes((folder / FILE).read_bytes()[:-100])


def pickle(folder: Path) -> None:
    (folder / FILE).rename(folder / "pytorch_model.bin")


def wander(folder: Path) -> None:
    (folder / FILE).unlink()
    (folder / f"{FILE}.index.json").write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))


def lose(folder: Path) -> None:
    (folder / FILE).unlink()
    (folder / f"{FILE}.index.json").write_text(json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}}))


def garble(folder: Path) -> None:
    (folder / FILE).unlink()
    (folder / f"{FILE}.index.json").write_text("[]")


@pytest.mark.parametrize(("damage", "message"), [
    (cut, "cannot be read, it is missing, cut or damaged"),
    (pickle, "holds pytorch_model.bin and no safetensors"),
    (wander, "names '../elsewhere.safetensors', which is not a file beside it"),
    (lose, "model-00001-of-00002.safetensors cannot"),
    (garble, "is not an index of safetensors"),
])
def test_directories_that_are_none(damage: Callable[[Path], None], message: str, saved: Callable[[Recipe], Path]) -> None:
    weights = saved(llama())
    damage(weights)
    with pytest.raises(InvalidRunError, match=message):
        started(llama(), weights)


def test_no_directory() -> None:
    with pytest.raises(InvalidRunError, match="is not a directory of this pod"):
        started(llama(), Path("/nowhere"))


