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
from tests.trainer.model.recipes import RECIPES, Recipe, llama
from torch import Tensor, nn
from typer.testing import CliRunner

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, tensor_file
from trainwright_trainer.checkpoint.record import TRAINED, Trained
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
