"""Exports: what was committed is what ``from_pretrained`` gives, and nothing else ever appears."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tests.trainer.contract.specifications import changed
from tests.trainer.model.recipes import RECIPES, Recipe, bert, classifier, llama
from torch import Tensor, nn
from typer.testing import CliRunner

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, tensor_file
from trainwright_trainer.checkpoint.record import INITIAL_WEIGHTS, TRAINED, Trained
from trainwright_trainer.commands.app import app
from trainwright_trainer.commands.export import run
from trainwright_trainer.commands.export.run import Request, export
from trainwright_trainer.contract import ExitCode, RunSpec
from trainwright_trainer.contract.failures import InvalidRunError, NoCheckpointError
from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.contract.training import Training
from trainwright_trainer.engine import sharded_state, whole_state


def trained(recipe: Recipe) -> dict[str, Any]:
    return {TRAINED: Trained(task=recipe.task, model=recipe.model, data=recipe.data).model_dump(mode="json")}


def commit(
    folder: Path, files: Mapping[str, Mapping[str, Tensor]], step: int, metadata: dict[str, Any], world_size: int = 1
) -> CommitRecord:
    store, attempt = CheckpointStore(folder), f"a{step}"
    draft = store.begin(step, attempt)
    record = CommitRecord(
        identity="run-1", attempt=attempt, step=step, samples_consumed=step, world_size=world_size, metadata=metadata,
        files=tuple(draft.write(name, tensor_file.encode(tensors)) for name, tensors in files.items()),
    )
    store.commit(record)
    return record


def built(recipe: Recipe, seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return recipe.build()


def whole(module: nn.Module) -> dict[str, dict[str, Tensor]]:
    """The weights as engine ddp writes them."""
    return {whole_state.MODEL_FILE: whole_state.weights(module)}


def shards(module: nn.Module, ranks: int) -> dict[str, dict[str, Tensor]]:
    """The weights as engine fsdp2 writes them: each rank its rows."""
    parameters = dict(module.named_parameters())
    files: dict[str, dict[str, Tensor]] = {}
    for rank in range(ranks):
        rows = files[sharded_state.shard_file(sharded_state.WEIGHTS, rank)] = {}
        for name, parameter in parameters.items():
            size = math.ceil(len(parameter) / ranks)
            rows[name] = parameter.detach()[rank * size:(rank + 1) * size]
    files[sharded_state.WHOLE_FILE] = {
        **{f"shape/{name}": torch.tensor(parameter.shape) for name, parameter in parameters.items()},
        **{f"buffer/{name}": buffer for name, buffer in whole_state.persistent_buffers(module)},
    }
    return files


def check(output: Path, module: nn.Module) -> None:
    kind = getattr(transformers, type(module).__name__)
    loaded, report = kind.from_pretrained(output, output_loading_info=True)
    assert not any(report.values())
    for name, value in module.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value), name


@pytest.mark.parametrize("name", RECIPES)
def test_transformers_loads_what_ddp_wrote(name: str, tmp_path: Path) -> None:
    module = built(RECIPES[name])
    commit(tmp_path / "run", whole(module), 3, trained(RECIPES[name]))
    done = export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))
    assert (done.step, done.architecture, done.files) == (3, type(module).__name__, 1)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["config.json", "model.safetensors"]
    check(tmp_path / "out", module)


@pytest.mark.parametrize("name", ["llama, tied", "resnet"])
def test_transformers_loads_what_fsdp2_wrote(name: str, tmp_path: Path) -> None:
    module = built(RECIPES[name])
    commit(tmp_path / "run", shards(module, 2), 3, trained(RECIPES[name]), world_size=2)
    export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))
    check(tmp_path / "out", module)


def test_large_models_take_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SHARD_BYTES", 40_000)
    module = built(llama())
    commit(tmp_path / "run", whole(module), 3, trained(llama()))
    done = export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))
    assert done.files > 2
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == done.size == sum(4 * each.numel() for each in module.parameters())
    check(tmp_path / "out", module)


def test_the_step_that_was_asked_for_or_the_newest(tmp_path: Path) -> None:
    modules = {step: built(llama(), step) for step in (1, 2)}
    for step, module in modules.items():
        commit(tmp_path / "run", whole(module), step, trained(llama()))
    assert export(Request(str(tmp_path / "run"), tmp_path / "new", Path("/none"))).step == 2
    assert export(Request(str(tmp_path / "run"), tmp_path / "old", Path("/none"), step=1)).step == 1
    check(tmp_path / "new", modules[2])
    check(tmp_path / "old", modules[1])
    with pytest.raises(NoCheckpointError, match="no committed checkpoint of step 7"):
        export(Request(str(tmp_path / "run"), tmp_path / "none", Path("/none"), step=7))


def test_damage_is_passed_over_and_left_alone(tmp_path: Path) -> None:
    for step in (1, 2):
        commit(tmp_path / "run", whole(built(llama(), step)), step, trained(llama()))
    [file] = (tmp_path / "run").glob("step-*2.a2/model.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    before = sorted(str(path) for path in (tmp_path / "run").rglob("*"))
    assert export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none"))).step == 1
    with pytest.raises(NoCheckpointError, match=r"no checkpoint that verifies: step-0*2"):
        export(Request(str(tmp_path / "run"), tmp_path / "two", Path("/none"), step=2))
    assert sorted(str(path) for path in (tmp_path / "run").rglob("*")) == before
    assert not (tmp_path / "two").exists()


def test_another_model_leaves_nothing_behind(tmp_path: Path) -> None:
    commit(tmp_path / "run", whole(built(llama())), 3, trained(llama(num_hidden_layers=2)))
    with pytest.raises(InvalidRunError, match=r"step 3 is not of the specification's model: model\.layers\.2\."):
        export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_files_of_an_engine_that_nobody_reads(tmp_path: Path) -> None:
    commit(tmp_path / "run", {"other.safetensors": {"a": torch.zeros(1)}}, 3, trained(llama()))
    with pytest.raises(InvalidRunError, match=r"cannot export the checkpoint's weights \(its files are other\.safetensors"):
        export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))


def test_the_command_reads_the_runs_own_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = changed({"work.model": llama().model.model_dump(mode="json")})
    work = RunSpec.model_validate(content).work
    assert isinstance(work, Training)
    (tmp_path / "run.json").write_text(json.dumps(content))
    monkeypatch.setenv(SPEC_ENV, str(tmp_path / "run.json"))
    commit(tmp_path / "run", whole(built(llama())), 3, {})
    arguments = ["export", str(tmp_path / "run"), str(tmp_path / "out")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"ok: {tmp_path}/out: LlamaForCausalLM of step 3, ")
    again = CliRunner().invoke(app, arguments)
    assert (again.exit_code, "is there already and is not empty" in again.output) == (ExitCode.INVALID_SPEC, True)
    nothing = CliRunner().invoke(app, ["export", str(tmp_path / "empty"), str(tmp_path / "new")])
    assert (nothing.exit_code, "holds no committed checkpoint" in nothing.output) == (ExitCode.NO_CHECKPOINT, True)


def origin(folder: Path, recipe: Recipe, **config: Any) -> Path:
    """A directory of weights as it lies on the Hub, with what goes with them."""
    module: Any = built(recipe)
    module.save_pretrained(folder)
    path = folder / "config.json"
    said = {key: value for key, value in (json.loads(path.read_text()) | config).items() if value is not None}
    path.write_text(json.dumps(said))
    files = {
        "generation_config.json": '{"eos_token_id": [7, 9], "temperature": 0.6}', "tokenizer.json": "{}",
        "tokenizer_config.json": '{"eos_token": "<end>"}', "chat_template.jinja": "{{ messages }}", "tokenizer.model": "pieces",
        "additional_chat_templates/tools.jinja": "{{ tools }}", "README.md": "a card", "pytorch_model.bin": "pickled",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def started_from(recipe: Recipe, weights: Path) -> dict[str, Any]:
    return trained(recipe) | {INITIAL_WEIGHTS: str(weights)}


OLD = {
    "rope_parameters": None, "rope_theta": 10000.0, "eos_token_id": [7, 9], "use_cache": True, "torch_dtype": "bfloat16",
    "dtype": None, "max_position_embeddings": 131072, "a_note": "of theirs", "transformers_version": "4.40.0",
}


def test_what_training_did_not_change_is_kept(tmp_path: Path) -> None:
    weights, module = origin(tmp_path / "weights", llama(), **OLD), built(llama(), 5)
    commit(tmp_path / "run", whole(module), 3, started_from(llama(), weights))
    export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))
    kept = {
        "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "tokenizer.model",
        "additional_chat_templates/tools.jinja",
    }
    found = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == kept | {"config.json", "model.safetensors"}
    for name in kept:
        assert (tmp_path / "out" / name).read_bytes() == (weights / name).read_bytes()
    said, was = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path / "out", weights))
    assert {key: value for key, value in said.items() if key not in ("dtype", "torch_dtype")} == {
        key: value for key, value in was.items() if key not in ("dtype", "torch_dtype")
    }
    assert (said["dtype"], "torch_dtype" in said) == ("float32", False)
    check(tmp_path / "out", module)


def test_a_new_head_has_its_own_words(tmp_path: Path) -> None:
    weights = origin(tmp_path / "weights", bert(), id2label={"0": "old", "1": "older"}, label2id={"old": 0, "older": 1})
    module = built(classifier())
    commit(tmp_path / "run", whole(module), 3, started_from(classifier(), weights))
    export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))
    said = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (said["architectures"], len(said["id2label"])) == (["BertForSequenceClassification"], 3)
    assert not (tmp_path / "out" / "generation_config.json").exists()
    check(tmp_path / "out", module)


def test_an_origin_that_is_gone_or_only_in_the_specification(tmp_path: Path) -> None:
    module, weights = built(llama()), origin(tmp_path / "weights", llama(), **OLD)
    commit(tmp_path / "run", whole(module), 3, started_from(llama(), tmp_path / "gone"))
    export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))
    check(tmp_path / "out", module)
    work = {"work.initial_weights": str(weights), "work.model": llama().model.model_dump(mode="json")}
    commit(tmp_path / "older", whole(module), 3, trained(llama()))
    for identity, kept in (("run-1", True), ("run-2", False)):  # the record's, and one of another run
        spec, output = tmp_path / f"{identity}.json", tmp_path / f"of-{identity}"
        spec.write_text(json.dumps(changed({"api_version": "trainer.trainwright.dev/v1", "identity": identity, **work})))
        export(Request(str(tmp_path / "older"), output, spec))
        assert (json.loads((output / "config.json").read_text())["eos_token_id"] == [7, 9]) is kept
        assert (output / "tokenizer.json").exists() is kept
