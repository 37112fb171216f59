"""What the contract allows and this trainer has not got is refused by name, before anything starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version
from tests.trainer.contract.specifications import (
    BERT,
    BOOSTING,
    C10D,
    ELASTIC_BATCH,
    MPI,
    RAY,
    RESNET,
    SCRIPT,
    TF_CONFIG,
    TRACKER,
    changed,
)

from trainwright_trainer import __version__
from trainwright_trainer.contract import ExitCode, RunSpec, TerminationMessage
from trainwright_trainer.contract.layout import SPEC_ENV, TERMINATION_PATH_ENV
from trainwright_trainer.contract.versions import FIELD_SINCE, VALUE_SINCE
from trainwright_trainer.support import CHOICES, SETTINGS, missing

PAGE = Path(__file__).resolve().parents[2] / "docs" / "trainer.md"
UNNUMBERED = {"world.node_index_env": None, "world.control_port": None}
REVIEWS = {"source": "hf-dataset", "path": "/data/reviews", "tokenizer": "/data/tokenizer", "max_length": 128}
TOKENS = {"source": "tokens", "path": "/data/tokens", "sequence_length": 64}
FOLDER = {"source": "image-folder", "path": "/data", "image_size": 8, "channels": 1, "classes": 10}
DEEPSPEED = {"work.engine": "deepspeed", "work.deepspeed": {"config": "/etc/trainwright/ds_config.json"}}

UNPLAYED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "fsdp2": ({"work.engine": "fsdp2"}, ["engine fsdp2"]),
    "deepspeed": (DEEPSPEED, ["engine deepspeed"]),
    "horovod": (UNNUMBERED | {"world.rendezvous": MPI, "work.engine": "horovod"}, ["rendezvous mpi-hostfile", "engine horovod"]),
    "tensorflow": (
        UNNUMBERED | {
            "world.rendezvous": TF_CONFIG, "work.engine": "tensorflow", "work.task": "image-classification", "work.model": RESNET,
            "work.data": {"source": "digits"},
        },
        ["rendezvous tf-config", "engine tensorflow"],
    ),
    "xgboost": ({"world.rendezvous": TRACKER, "work": BOOSTING}, ["rendezvous dmlc-tracker", "work xgboost"]),
    "elastic": (UNNUMBERED | {"world.rendezvous": C10D, "work.batch": ELASTIC_BATCH}, ["rendezvous c10d"]),
    "elastic script": (UNNUMBERED | {"world.rendezvous": C10D, "work": SCRIPT}, ["rendezvous c10d"]),
    "ray": (UNNUMBERED | {"world.rendezvous": RAY}, ["rendezvous ray-head"]),
    "masked-lm": ({"work.task": "masked-lm", "work.model": BERT}, ["task masked-lm"]),
    "text-classification": (
        {
            "work.task": "text-classification", "work.model": BERT | {"num_labels": 2},
            "work.data": REVIEWS | {"label_column": "label", "classes": 2},
        },
        ["task text-classification", "data source hf-dataset"],
    ),
    "tokens": ({"work.data": TOKENS}, ["data source tokens"]),
    "image-folder": (
        {"work.task": "image-classification", "work.model": RESNET, "work.data": FOLDER}, ["data source image-folder"]
    ),
    "fp16": ({"work.precision": "fp16"}, ["precision fp16"]),
    "reduction": ({"work.gradient_reduction": "bf16"}, ["gradient_reduction bf16"]),
    "weights": ({"work.initial_weights": "/models/llama"}, ["initial_weights"]),
    "recomputation": ({"work.activation_checkpointing": True}, ["activation_checkpointing"]),
}
PLAYED: dict[str, dict[str, Any]] = {
    "ddp": {}, "script": {"work": SCRIPT}, "fp32": {"work.precision": "fp32", "work.gradient_reduction": "fp32"},
    "no recomputation": {"work.activation_checkpointing": False},
}


@pytest.mark.parametrize(("changes", "names"), UNPLAYED.values(), ids=UNPLAYED)
def test_what_is_missing(changes: dict[str, Any], names: list[str]) -> None:
    sentences = missing(RunSpec.model_validate(changed(changes)))
    assert [sentence.partition(" is known to the contract")[0] for sentence in sentences] == names


@pytest.mark.parametrize("changes", PLAYED.values(), ids=PLAYED)
def test_what_is_there(changes: dict[str, Any]) -> None:
    assert missing(RunSpec.model_validate(changed(changes))) == []


def test_every_missing_thing_is_tried_above() -> None:
    sentences = [sentence for changes, _ in UNPLAYED.values() for sentence in missing(RunSpec.model_validate(changed(changes)))]
    unplayed = {(choice.path, value) for choice in CHOICES for value in set(choice.known) - set(choice.played)}
    assert len(set(sentences)) + 1 == len(unplayed) + len(SETTINGS)  # reducing in fp16 is said like reducing in bf16


def test_a_sentence_says_what_to_write_instead() -> None:
    [sentence] = missing(RunSpec.model_validate(changed({"work.engine": "fsdp2"})))
    assert sentence == (
        f"engine fsdp2 is known to the contract, and this trainer ({__version__}) does not have it yet: use topology ddp, "
        "or an image of 0.2.0"
    )


def test_a_release_plays_all_that_its_contract_dates_to_it() -> None:
    """Whoever takes ``.dev`` off the version has emptied the tables of :mod:`support` first."""
    late = {
        VALUE_SINCE.get((choice.path, value)) or FIELD_SINCE[choice.path]
        for choice in CHOICES for value in set(choice.known) - set(choice.played)
    } | {FIELD_SINCE[setting.path] for setting in SETTINGS}
    assert all(Version(release) > Version(__version__) for release in late)


def run_trainer(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trainwright_trainer", *arguments], env={**os.environ, **environment}, capture_output=True,
        text=True, timeout=60, check=False,
    )


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return {SPEC_ENV: str(tmp_path / "run.json"), TERMINATION_PATH_ENV: str(tmp_path / "message.json"), "NODE_INDEX": "0"}


def ended(done: subprocess.CompletedProcess[str], files: dict[str, str]) -> TerminationMessage:
    """The pod's last word, after it was found that nothing else was said and nothing was started."""
    assert done.returncode == ExitCode.INVALID_SPEC, done.stdout + done.stderr
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["pod_ended"]
    assert "Traceback" not in done.stderr
    message = TerminationMessage.model_validate_json(Path(files[TERMINATION_PATH_ENV]).read_bytes())
    assert (message.code, message.reason, message.identity) == (10, "InvalidSpec", "small-1a2b3c4d")
    return message


@pytest.mark.parametrize(("changes", "names"), UNPLAYED.values(), ids=UNPLAYED)
def test_supervise_refuses_it(changes: dict[str, Any], names: list[str], files: dict[str, str]) -> None:
    Path(files[SPEC_ENV]).write_text(json.dumps(changed(changes)))
    command = ["--", "mpirun", "-np", "4", "python", "train.py"] if "rendezvous mpi-hostfile" in names else []
    cause = ended(run_trainer("supervise", *command, **files), files).cause
    assert cause is not None
    assert cause.kind == "NotInThisTrainer"
    assert all(f"{name} is known to the contract" in cause.message for name in names)


def test_validate_accepts_it_with_a_note(files: dict[str, str]) -> None:
    Path(files[SPEC_ENV]).write_text(json.dumps(changed({"work.engine": "fsdp2"})))
    done = run_trainer("validate", files[SPEC_ENV])
    assert (done.returncode, done.stdout) == (0, "ok: small-1a2b3c4d: trainer, 2 x 2 = 4 ranks on cpu\n")
    assert done.stderr.startswith("note: engine fsdp2 is known to the contract")


def test_a_rank_by_itself_refuses_it_too(files: dict[str, str]) -> None:
    Path(files[SPEC_ENV]).write_text(json.dumps(changed({"work.engine": "fsdp2"})))
    done = subprocess.run(
        [sys.executable, "-m", "trainwright_trainer.rank"], env={**os.environ, **files}, capture_output=True, text=True,
        timeout=60, check=False,
    )
    assert done.returncode == ExitCode.INVALID_SPEC
    assert "engine fsdp2 is known to the contract" in done.stdout


def test_a_command_that_nothing_would_start(files: dict[str, str]) -> None:
    Path(files[SPEC_ENV]).write_text(json.dumps(changed({})))
    cause = ended(run_trainer("supervise", "--", "mpirun", "-np", "4", "x", **files), files).cause
    assert cause is not None
    assert cause.message.startswith("`supervise -- mpirun …` names a command, and world.rendezvous.kind is static")


def test_the_page_says_the_same() -> None:
    rows = [f"| `{choice.path}` | {', '.join(choice.known)} | {', '.join(choice.played)} |" for choice in CHOICES]
    rows += [f"| `{setting.path}` | yes | not yet |" for setting in SETTINGS]
    table = "\n".join(["| key | the contract knows | this trainer plays |\n|---|---|---|", *rows])
    page = PAGE.read_text(encoding="utf-8")
    assert table in page, f"docs/trainer.md is not what the trainer says; its table should be:\n{table}"


def test_the_table_names_real_fields() -> None:
    assert {entry.path for entry in (*CHOICES, *SETTINGS)} <= {*FIELD_SINCE, *(path for path, _ in VALUE_SINCE)}
    assert all(set(choice.played) <= set(choice.known) for choice in CHOICES)
