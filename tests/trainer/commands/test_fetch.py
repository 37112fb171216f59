"""A data set of the Hub that cannot be made into what the trainer reads: what is said, and whether the next pod tries again.

What is fetched from a Hub is in ``tests/compiler/manifest/data/test_hub.py``, with the Job that does it.
"""

from __future__ import annotations

import errno
from pathlib import Path

import datasets  # type: ignore[import-untyped]
import pytest
from datasets.exceptions import DatasetGenerationError  # type: ignore[import-untyped]

from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.commands.fetch import run
from trainwright_trainer.commands.fetch.run import Request, fetch
from trainwright_trainer.contract.failures import DataError

REQUEST = Request("hf://datasets/example/texts@" + "a" * 40, Path(), form="dataset")
OCCURRED = "An error occurred while generating the dataset"


def fetched(folder: Path, monkeypatch: pytest.MonkeyPatch, rows: dict[str, str]) -> None:
    """With what the Hub would give already there."""

    def download(_request: Request, _repository: object, files: Path) -> int:
        files.mkdir()
        for name, text in rows.items():
            (files / name).write_text(text)
        return len(rows)

    monkeypatch.setattr(run, "_download", download)
    fetch(Request(REQUEST.source, folder / "texts", form="dataset"))


@pytest.mark.parametrize(("cause", "kind", "message"), [
    (OSError(errno.ENOSPC, "No space left on device"), StorageError, r"cannot write .*texts\.cache: No space left"),
    (ValueError("column b is missing"), DataError, "cannot be loaded as a data set: column b is missing; name another subset"),
    (FileNotFoundError(errno.ENOENT, "No such file", "a.jpg"), DataError, "as a data set: .*No such file: 'a.jpg'; name"),
])
def test_the_first_cause_decides(
    cause: Exception, kind: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(*_arguments: object, **_settings: object) -> None:
        try:
            raise DatasetGenerationError(OCCURRED) from cause
        except DatasetGenerationError as error:
            raise DatasetGenerationError(OCCURRED) from error

    monkeypatch.setattr(datasets, "load_dataset", load)
    with pytest.raises(kind, match=message):
        fetched(tmp_path, monkeypatch, {})


@pytest.mark.parametrize(("rows", "message"), [
    ({"a.jsonl": '{"text": "one"}\n{"text": \n'}, "cannot be loaded as a data set: .*(JSON|json|parse)"),
    ({"a.jsonl": '{"text": "one"}\n', "b.jsonl": '{"text": "two", "b": 1}\n'}, "b: int64 .* because column names don't match;"),
])
def test_what_the_library_finds_is_said(
    rows: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(DataError, match=message) as raised:
        fetched(tmp_path, monkeypatch, rows)
    assert "\n" not in str(raised.value)


def test_a_volume_that_fills_while_it_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save(*_arguments: object, **_settings: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(datasets.DatasetDict, "save_to_disk", save)
    with pytest.raises(StorageError, match=r"cannot write .*texts\.draft: No space left on device"):
        fetched(tmp_path, monkeypatch, {"a.jsonl": '{"text": "one"}\n'})
