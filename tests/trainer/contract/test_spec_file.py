"""A specification is read whole or refused in a sentence that says what to change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.supervisor.conftest import specification

from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.failures import PodError
from trainwright_trainer.contract.spec_file import read_specification, specification_path


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    text = specification(tmp_path, 2, 2, None, "127.0.0.").model_dump_json()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def refusal_of(path: Path) -> str:
    with pytest.raises(PodError) as caught:
        read_specification(path)
    assert caught.value.exit_code is ExitCode.INVALID_SPEC
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_round_trip(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    found = read_specification(path)
    assert found.spec.model_dump(mode="json") == document
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def _set(*keys: str, value: object) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = value

    return edit


@pytest.mark.parametrize(("edit", "sentence"), [
    (_set("lifecycle", "grace_second", value=3), "lifecycle.grace_second is not a known key; did you mean grace_seconds?"),
    (_set("zzzzzz", value=3), "zzzzzz is not a known key; remove it"),
    (_set("work", "batch", "mikro", value=3), "work.batch.mikro is not a known key; did you mean micro?"),
    (_set("world", "nodes", value=0), "world.nodes must be at least 1 (it is 0)"),
    (_set("work", "learning_rate", "peak", value="fast"), "work.learning_rate.peak must be a number (it is \"fast\")"),
    (_set("work", "model", "num_channels", value=3), "set model.num_channels to 1 instead of 3"),
    (_set("api_version", value="trainer.trainwright.dev/v9"), "use an image whose trainer knows that version"),
    (lambda document: document.pop("identity"), "identity is missing; add it"),
    (_set("work", "kind", value="skript"), "work.kind is 'skript'; it must be one of 'trainer', "),
    (lambda document: document["work"].pop("kind"), "work has no kind; add it"),
])
def test_sentences(tmp_path: Path, document: dict[str, Any], edit: Callable[[dict[str, Any]], None], sentence: str) -> None:
    edit(document)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    assert sentence in refusal_of(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", "\x00", '{"a": 1}', "{}", "[" * 100_000])
def test_anything_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    assert str(path) in refusal_of(path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"\xff\xfe{}\x80")
    assert "is not JSON" in refusal_of(path)


def test_not_a_number_is_refused(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document).replace('"grace_seconds": 30.0', '"grace_seconds": NaN'))
    assert "NaN" in path.read_text()
    refusal_of(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "mount the run's ConfigMap there" in refusal_of(tmp_path / "none.json")
    assert "cannot read" in refusal_of(tmp_path)


def test_many_problems_are_counted(tmp_path: Path, document: dict[str, Any]) -> None:
    for number in range(9):
        document[f"unknown{number}"] = 1
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    assert "and 4 more" in refusal_of(path)


def test_where_it_lies() -> None:
    assert specification_path({}) == Path("/etc/trainwright/run.json")
    assert specification_path({"TRAINWRIGHT_SPEC": "/tmp/x.json"}) == Path("/tmp/x.json")
