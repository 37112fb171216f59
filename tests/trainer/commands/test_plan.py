"""What a specification will do, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion
from tests.trainer.commands.program import shown
from tests.trainer.contract.specifications import BOOSTING, C10D, ELASTIC_BATCH, SCRIPT, TRACKER, changed
from typer.testing import CliRunner, Result

from trainwright_trainer.commands.app import app
from trainwright_trainer.data.token_files import TokenRecord, record_path

TOKENS = {"source": "tokens", "path": "/none/tokens", "sequence_length": 64, "vocabulary": 256}
DEEPSPEED = {
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "data_types": {"grad_accum_dtype": "fp32"},
}
RUNS: dict[str, dict[str, Any]] = {
    "digits": {
        "work.task": "image-classification", "work.data": {"source": "digits"}, "work.duration": {"epochs": 3},
        "work.model": {
            "architecture": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1, "num_hidden_layers": 2, "hidden_size": 32,
            "intermediate_size": 64, "num_attention_heads": 2, "num_labels": 10,
        },
        "work.learning_rate": {"peak": 0.003, "warmup_samples": 64}, "work.checkpoints.every_steps": 50,
    },
    "elastic fsdp2, data elsewhere": {
        "world.rendezvous": C10D, "work.engine": "fsdp2", "work.batch": ELASTIC_BATCH, "work.data": TOKENS,
        "work.duration": {"epochs": 2}, "work.checkpoints.every_seconds": 1800, "work.precision": "fp32",
    },
    "deepspeed": {
        "work.engine": "deepspeed", "work.deepspeed": {"config": "/etc/trainwright/ds_config.json"}, "work.data": TOKENS,
        "lifecycle.save_seconds": 90,
    },
    "boosting": {"work": BOOSTING, "world.processes_per_node": 1, "world.rendezvous": TRACKER},
    "script": {"work": SCRIPT},
    "command": {"work": {"kind": "command"}},
}


def call(folder: Path, changes: dict[str, Any], *arguments: str) -> Result:
    spec = folder / "run.json"
    spec.write_text(json.dumps(changed(changes)), encoding="utf-8")
    return CliRunner().invoke(app, ["plan", "--spec", str(spec), *arguments])


@pytest.mark.parametrize("name", RUNS)
def test_it_says_what_will_happen(name: str, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    (tmp_path / "ds_config.json").write_text(json.dumps(DEEPSPEED))
    result = call(tmp_path, RUNS[name])
    assert result.exit_code == 0, result.output
    assert result.output == snapshot
    as_json = call(tmp_path, RUNS[name], "--json")
    assert json.loads(as_json.output)["identity"] == "small-1a2b3c4d"


NULLS = {"zero_optimization": {"stage": 2, "offload_param": None, "offload_optimizer": None}, "data_types": None}


@pytest.mark.parametrize(("config", "says"), [
    (NULLS, None),
    ({"zero_optimization": None}, None),
    ([], "holds a list; it must be a JSON object"),
    ({"zero_optimization": 2}, "zero_optimization in DeepSpeed's configuration is 2; it must be an object"),
    ({"zero_optimization": {"offload_param": "cpu"}}, 'offload_param in DeepSpeed\'s configuration is "cpu"'),
    ({"zero_optimization": {"stage": "two"}}, 'zero_optimization.stage in DeepSpeed\'s configuration is "two"; it must be 0, 1'),
])
def test_any_configuration_of_deepspeed_is_read_or_refused(config: Any, says: str | None, tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text(json.dumps(config))
    result = call(tmp_path, RUNS["deepspeed"])
    assert result.exit_code == (0 if says is None else 10), result.output
    if says is not None:
        [line] = result.stderr.splitlines()
        assert says in line


def test_what_the_page_shows_is_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.json").write_text(json.dumps(changed({})), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for arguments in (*shown("plan"), *shown("validate")):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert "small-1a2b3c4d" in result.output


def test_data_that_is_here_is_counted(tmp_path: Path) -> None:
    np.zeros(64 * 101, dtype="<u2").tofile(tmp_path / "tokens.bin")
    data = TOKENS | {"path": str(tmp_path / "tokens.bin"), "held_out": 0.2}
    result = call(tmp_path, {"work.data": data, "work.duration": {"steps": 10}}, "--json")
    made = json.loads(result.output)["training"]
    assert (made["data"]["train"], made["data"]["held_out"]) == (80, 20)
    assert made["length"] == {"steps": 10, "samples": 320, "tokens": 20480, "epochs": 4.0}


def test_tokens_that_a_model_of_transformers_does_not_know(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    np.zeros(6400, dtype="<u2").tofile(path)
    record = TokenRecord(dtype="uint16", tokens=6400, documents=1, vocabulary=500, tokenizer="bytes", end_of_text=0)
    record_path(path).write_text(record.model_dump_json())
    model = {"architecture": "transformers", "model_type": "gpt2", "config": {"n_head": 2, "n_embd": 8, "vocab_size": 100}}
    data = {"source": "tokens", "path": str(path), "sequence_length": 64}
    result = call(tmp_path, {"work.data": data, "work.model": model})
    assert result.exit_code == 12, result.output
    assert "a vocabulary of 500 tokens, and the model's vocab_size is 100" in result.stderr
    assert call(tmp_path, {"work.data": data, "work.model": model | {"config": {"vocab_size": 500}}}).exit_code == 0


@pytest.mark.parametrize(("changes", "code", "says"), [
    ({"work.engine": "tensorflow", "work.compile": True}, 10, "engine tensorflow"),
    ({"work.engine": "deepspeed", "work.deepspeed": {"config": "/x"}, "work.skip_non_finite": 3}, 10, "does not read skip_non"),
    ({"work.model": {"architecture": "transformers", "model_type": "gtp2"}}, 10, "did you mean gpt2"),
    ({"work.data": TOKENS | {"samples": 7}}, 12, "data.samples"),
])
def test_what_is_wrong_is_said_in_a_sentence(changes: dict[str, Any], code: int, says: str, tmp_path: Path) -> None:
    if "work.data" in changes:
        np.zeros(6400, dtype="<u2").tofile(tmp_path / "tokens.bin")
        changes["work.data"]["path"] = str(tmp_path / "tokens.bin")
    result = call(tmp_path, changes)
    assert result.exit_code == code, result.output
    [line] = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert says in line
