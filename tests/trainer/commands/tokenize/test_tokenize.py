"""``trainwright-trainer tokenize`` as a person runs it, and what data source ``tokens`` reads of its files."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.trainer.data.tokenizer_files import END, LIBRARY, TEXTS, byte_level
from tokenizers import Tokenizer
from typer.testing import CliRunner

from trainwright_trainer.commands.app import app
from trainwright_trainer.commands.tokenize import documents
from trainwright_trainer.commands.tokenize.documents import Piece, Source
from trainwright_trainer.contract.data import TokenFiles
from trainwright_trainer.data import token_files
from trainwright_trainer.data.order import Samples
from trainwright_trainer.data.token_files import TokenRecord

PAGE = Path(__file__).resolve().parents[4] / "docs" / "data-sources.md"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return byte_level(tmp_path_factory.mktemp("tokenizer"))


def tokenize(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["tokenize", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(code: int, *arguments: object) -> str:
    result = CliRunner().invoke(app, ["tokenize", *map(str, arguments)])
    assert result.exit_code == code, result.output
    assert result.output.startswith("error: ")
    assert result.output.count("\n") == 1
    return result.output


def ids(path: Path, dtype: str = "<u2") -> list[int]:
    found: list[int] = np.fromfile(path, dtype=dtype).tolist()
    return found


def record(path: Path) -> TokenRecord:
    return TokenRecord.model_validate_json(path.with_name(f"{path.name}.json").read_bytes())


def decoded(tokenizer: Path, tokens: list[int]) -> list[str]:
    """Documents as text."""
    library = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    end = library.token_to_id(END)
    places = [place for place, token in enumerate(tokens) if token == end]
    assert places[-1] == len(tokens) - 1
    starts = [0, *(place + 1 for place in places[:-1])]
    return [library.decode(tokens[start:stop], skip_special_tokens=False) for start, stop in zip(starts, places, strict=True)]


def test_text_files_as_bytes(tmp_path: Path) -> None:
    output = tmp_path / "text.bin"
    files = [LIBRARY / "abc.py", LIBRARY / "bisect.py"]
    said = tokenize(*files, "--output", output, "--tokenizer", "bytes")
    contents = [file.read_bytes() for file in files]
    assert bytes(ids(output)) == contents[0] + b"\0" + contents[1] + b"\0"
    assert record(output) == TokenRecord(
        dtype="uint16", tokens=len(ids(output)), documents=2, vocabulary=256, tokenizer="bytes", end_of_text=0,
    )
    assert said == f"ok: {output}: {len(ids(output)):,} tokens of 2 documents, uint16, vocabulary 256\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.bin", "text.bin.json"]


def test_what_it_writes_is_what_the_trainer_reads(tokenizer: Path, tmp_path: Path) -> None:
    for name in ("abc.py", "heapq.py"):
        tokenize(LIBRARY / name, "--output", tmp_path / f"{name}.bin", "--tokenizer", tokenizer)
    data = TokenFiles.model_validate({"source": "tokens", "path": str(tmp_path), "sequence_length": 32, "vocabulary": 400})
    dataset = token_files.load(data)
    everything = ids(tmp_path / "abc.py.bin") + ids(tmp_path / "heapq.py.bin")
    first = dataset.train.read(Samples(np.arange(1), np.arange(1)))
    assert first["inputs"][0].tolist() == everything[:32]
    assert len(dataset.train) + len(dataset.held_out) == (len(everything) - 1) // 32
    assert dataset.vocabulary == 400


def test_a_tokenizer_and_every_kind_of_input(tokenizer: Path, tmp_path: Path) -> None:
    import datasets  # type: ignore[import-untyped]

    (tmp_path / "lines.jsonl").write_text("".join(json.dumps({"body": text}) + "\n\n" for text in ("one\n", "", "zwei ü", "三")))
    folder = tmp_path / "folder"
    (folder / "b").mkdir(parents=True)
    (folder / "b" / "2.txt").write_text(TEXTS[1])
    (folder / "a.jsonl").write_text(json.dumps({"body": "from a"}) + "\n")
    (folder / "ignored.py").write_text("no")
    saved = datasets.DatasetDict({"train": datasets.Dataset.from_dict({"body": ["row 0", "row 1"], "other": [1, 2]})})
    saved.save_to_disk(tmp_path / "saved")
    output = tmp_path / "out.bin"
    tokenize(
        tmp_path / "lines.jsonl", folder, tmp_path / "saved", "--column", "body", "--output", output, "--tokenizer",
        tokenizer / "tokenizer.json", "--dtype", "uint32",
    )
    found = decoded(tokenizer, ids(output, "<u4"))
    assert found == ["one\n", "zwei ü", "三", "from a", TEXTS[1], "row 0", "row 1"]
    assert (record(output).dtype, record(output).documents, record(output).vocabulary) == ("uint32", 7, 400)


def test_the_page_says_what_to_write(tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [command] = re.findall(r"^trainwright-trainer tokenize (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    for name in ("corpus", "tokens"):
        (tmp_path / name).mkdir()
    (tmp_path / "corpus" / "a.md").write_text("first")
    (tmp_path / "more.jsonl").write_text('{"text": "second"}')
    (tmp_path / "tokenizer").symlink_to(tokenizer)
    tokenize(*command.split())
    assert decoded(tokenizer, ids(tmp_path / "tokens" / "000.bin")) == ["first", "second"]


def test_a_special_token_in_a_text_is_text(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"a{END}b")
    tokenize(tmp_path / "a.txt", "--output", tmp_path / "a.bin", "--tokenizer", tokenizer)
    assert decoded(tokenizer, ids(tmp_path / "a.bin")) == [f"a{END}b"]


def test_a_zero_byte_in_a_text_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\0b")
    tokenize(tmp_path / "a.txt", "--output", tmp_path / "a.bin", "--tokenizer", "bytes")
    assert ids(tmp_path / "a.bin") == [*b"ab", 0]


def test_long_texts_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces end at a line's end where there is one, and put together they are the text."""
    monkeypatch.setattr(documents, "PIECE_CHARACTERS", 1000)
    text = TEXTS[2] + "x" * 5000 + "\r\n" + TEXTS[3]
    (tmp_path / "long.txt").write_text(text, newline="")
    pieces = list(Source([tmp_path / "long.txt"], "text", "train").pieces())
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert max(len(piece.text) for piece in pieces) <= 2000
    assert all(piece.text.endswith("\n") or "x" * 900 in piece.text for piece in pieces[:-1])


def test_a_text_of_exactly_one_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "PIECE_CHARACTERS", 4)
    (tmp_path / "a.txt").write_text("a\nbc")
    assert list(Source([tmp_path / "a.txt"], "text", "train").pieces()) == [Piece("a\nbc", ends=True)]


def test_width_follows_the_vocabulary(tmp_path: Path) -> None:
    names = tuple(f"<{number}>" for number in range(2**16))
    wide = byte_level(tmp_path / "wide", 2**16 + 300, (END, *names))
    (tmp_path / "a.txt").write_text("text")
    output = tmp_path / "a.bin"
    assert "uint16 holds 65,536 tokens and the tokenizer has" in refused(
        10, tmp_path / "a.txt", "--output", output, "--tokenizer", wide, "--dtype", "uint16",
    )
    tokenize(tmp_path / "a.txt", "--output", output, "--tokenizer", wide)
    assert record(output).dtype == "uint32"
    assert decoded(wide, ids(output, "<u4")) == ["text"]


def test_end_of_text(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    files = (tmp_path / "a.txt", "--output", tmp_path / "a.bin", "--tokenizer")
    assert "has no token <end>" in refused(10, *files, tokenizer, "--end-of-text", "<end>")
    assert "bytes ends each document with byte 0" in refused(10, *files, "bytes", "--end-of-text", "<end>")
    unusual = byte_level(tmp_path / "unusual", 300, ("<end>",))
    assert "name the token after a document with --end-of-text" in refused(10, *files, unusual)
    tokenize(*files, unusual, "--end-of-text", "<end>")
    assert ids(tmp_path / "a.bin")[-1] == record(tmp_path / "a.bin").end_of_text


INPUTS = {
    "missing": (None, "a.jsonl cannot be read: No such file"),
    "no JSON": (b'{"text": "a"}\n{', "line 2 of "),
    "no column": (b'{"body": "a"}', "has no key text; name another one with --column"),
    "no object": (b"[1]", "has no key text"),
    "null": (b'{"text": null}', "text in line 1 of"),
    "number": (b'{"text": 3}', "is not text: 3"),
    "surrogate": (b'{"text": "\\ud800"}', "half of a surrogate pair"),
    "nothing": (b"\n", "hold no text"),
}


@pytest.mark.parametrize(("content", "message"), INPUTS.values(), ids=INPUTS)
def test_inputs_that_are_no_text(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "a.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert message in refused(12, path, "--output", tmp_path / "out.bin", "--tokenizer", "bytes")
    assert not list(tmp_path.glob("*out*"))


def test_files_and_folders_that_are_no_text(tokenizer: Path, tmp_path: Path) -> None:
    output = ("--output", tmp_path / "out.bin", "--tokenizer")
    (tmp_path / "a.txt").write_bytes(b"ab\xff")
    assert "a.txt is not UTF-8 text" in refused(12, tmp_path / "a.txt", *output, "bytes")
    (tmp_path / "empty").mkdir()
    assert "no .txt, .md, .jsonl, .ndjson file below" in refused(12, tmp_path / "empty", *output, "bytes")
    assert "gone cannot be read" in refused(12, tmp_path / "a.txt", *output, tmp_path / "gone")
    (tmp_path / "tokenizer.json").write_text("{}")
    assert "tokenizer.json is not a tokenizer" in refused(12, tmp_path / "a.txt", *output, tmp_path)


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    output = tmp_path / "a.bin"
    output.write_bytes(b"precious")
    assert "is there already" in refused(10, tmp_path / "a.txt", "--output", output, "--tokenizer", "bytes")
    assert output.read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bin", "a.txt"]


def test_two_writers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with open(tmp_path / ".a.bin.partial", "ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        said = refused(10, tmp_path / "a.txt", "--output", tmp_path / "a.bin", "--tokenizer", "bytes")
    assert "another process writes" in said


def test_a_volume_that_is_full_or_gone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 100_000)
    (tmp_path / ".a.bin.partial").symlink_to("/dev/full")
    output = ("--output", tmp_path / "a.bin", "--tokenizer", "bytes")
    assert "cannot write" in refused(203, tmp_path / "a.txt", *output)
    assert "cannot write" in refused(203, tmp_path / "a.txt", "--output", tmp_path / "gone" / "a.bin", "--tokenizer", "bytes")
    assert not (tmp_path / "a.bin").exists()


def test_a_killed_one_leaves_no_file_and_is_done_again(tmp_path: Path) -> None:
    """The input is a pipe that never ends: the process is killed in the middle of writing."""
    output, pipe = tmp_path / "a.bin", tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    arguments = [str(pipe), "--output", str(output), "--tokenizer", "bytes"]
    command = [sys.executable, "-m", "trainwright_trainer", "tokenize", *arguments]
    process = subprocess.Popen(command)
    with open(pipe, "wb") as feed:
        line = json.dumps({"text": "x" * 2**20}).encode() + b"\n"
        while not (tmp_path / ".a.bin.partial").exists() or not (tmp_path / ".a.bin.partial").stat().st_size:
            feed.write(line)
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    assert not output.exists()
    pipe.unlink()
    pipe.write_text(json.dumps({"text": "whole"}) + "\n")
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert bytes(ids(output)) == b"whole\0"
    assert not (tmp_path / ".a.bin.partial").exists()
