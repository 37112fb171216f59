"""Files of token ids."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainwright_trainer.contract.data import TokenFiles
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.contract.training import WorldBatch
from trainwright_trainer.data import token_files
from trainwright_trainer.data.batch import share_step
from trainwright_trainer.data.dataset import Split
from trainwright_trainer.data.order import PADDING, DataOrder, Samples, evaluation_slices
from trainwright_trainer.data.token_files import STRETCHES, Portion, divide

LIBRARY = Path(sysconfig.get_path("stdlib"))


def tokens(path: Path, **keys: Any) -> TokenFiles:
    return TokenFiles.model_validate({"source": "tokens", "path": str(path), "sequence_length": 16, "held_out": 0.25, **keys})


def write(path: Path, ids: Any, dtype: str = "<u2") -> Path:
    path.write_bytes(np.asarray(ids, dtype=dtype).tobytes())
    return path


def record(path: Path, **keys: Any) -> None:
    fields = {
        "format": "trainwright tokens v1", "dtype": "uint16", "tokens": path.stat().st_size // 2, "documents": 1,
        "vocabulary": 256, "tokenizer": "bytes", "end_of_text": 0, **keys,
    }
    path.with_name(f"{path.name}.json").write_text(json.dumps(fields))


def rows(split: Split) -> list[tuple[list[int], list[int]]]:
    ids = np.arange(len(split))
    columns = split.read(Samples(ids, ids))
    return list(zip(columns["inputs"].tolist(), columns["targets"].tolist(), strict=True))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """Real text in three files, one token a byte."""
    folder = tmp_path_factory.mktemp("text")
    parts = [(LIBRARY / name).read_bytes() for name in ("abc.py", "bisect.py", "heapq.py")]
    for name, part in zip(("a.bin", "b.bin", "c.bin"), parts, strict=True):
        write(folder / name, list(part))
    (folder / "readme.txt").write_text("not a token in here")
    return folder, b"".join(parts)


def test_mapped_equals_in_memory(text: tuple[Path, bytes]) -> None:
    """Every sequence of the whole text is on one side, with the tokens that slicing the text in memory gives."""
    folder, whole = text
    data = token_files.load(tokens(folder))
    count = (len(whole) - 1) // 16
    expected = [(list(whole[at * 16:at * 16 + 16]), list(whole[at * 16 + 1:at * 16 + 17])) for at in range(count)]
    found = rows(data.train) + rows(data.held_out)
    assert len(data.held_out) == round(count * 0.25)
    assert len(data.train) == tokens(folder, samples=count).train_samples
    assert sorted(found) == sorted(expected)
    assert rows(data.train)[:10] == expected[:10]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) >= 12),
    length=st.integers(1, 5), held_out=st.floats(0.2, 0.8), dtype=st.sampled_from(["uint16", "uint32"]),
)
def test_how_the_text_is_cut_into_files_changes_no_sample(
    tmp_path: Path, sizes: list[int], length: int, held_out: float, dtype: str,
) -> None:
    for old in tmp_path.glob("*.bin"):
        old.unlink()
    whole = np.arange(sum(sizes)) * (7 if dtype == "uint16" else 70_001)
    for number, part in enumerate(np.split(whole, np.cumsum(sizes)[:-1])):
        write(tmp_path / f"{number}.bin", part, "<u2" if dtype == "uint16" else "<u4")
    one = write(tmp_path / "one", whole, "<u2" if dtype == "uint16" else "<u4")
    keys = {"sequence_length": length, "held_out": held_out, "dtype": dtype}
    many, single = token_files.load(tokens(tmp_path, **keys)), token_files.load(tokens(one, **keys))
    assert rows(many.train) == rows(single.train)
    assert rows(many.held_out) == rows(single.held_out)
    inputs = {tuple(row[0]) for row in rows(many.train)}
    assert inputs.isdisjoint(tuple(row[0]) for row in rows(many.held_out))


@given(start=st.integers(0, 5000), world=st.sampled_from([1, 2, 4, 8]), micro=st.sampled_from([1, 2, 4]))
def test_world_size_and_micro_batch_change_no_sample(text: tuple[Path, bytes], start: int, world: int, micro: int) -> None:
    """What the ranks of any world read, in rank order, is the global batch."""
    data = token_files.load(tokens(text[0]))
    order = DataOrder(5, len(data.train), data.fingerprint)
    batch = order.batch(start, 32)
    whole = data.train.read(batch)
    shares = share_step(WorldBatch(micro=micro, accumulation=32 // world // micro), world)
    parts = [data.train.read(part) for rank in range(world) for part in shares.slices(batch, rank)]
    for name in ("inputs", "targets"):
        assert np.array_equal(np.concatenate([part[name] for part in parts]), whole[name])


def test_padding_reads_something_of_the_right_shape(text: tuple[Path, bytes]) -> None:
    data = token_files.load(tokens(text[0]))
    [*_, last] = evaluation_slices(len(data.held_out), 1, 2, 64)
    assert PADDING in last.ids
    assert data.held_out.read(last)["inputs"].shape == (64, 16)


def test_same_files_again(text: tuple[Path, bytes], tmp_path: Path) -> None:
    """The fingerprint goes by content and order, not by where the files lie."""
    before = token_files.load(tokens(text[0])).fingerprint
    for path in text[0].glob("*.bin"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert token_files.load(tokens(tmp_path)).fingerprint == before
    (tmp_path / "a.bin").rename(tmp_path / "z.bin")
    assert token_files.load(tokens(tmp_path)).fingerprint != before


@pytest.mark.parametrize("changed", [{"sequence_length": 17}, {"held_out": 0.2}, {"dtype": "uint32"}])
def test_what_changes_a_sample_changes_the_fingerprint(tmp_path: Path, changed: dict[str, object]) -> None:
    path = write(tmp_path / "a.bin", range(2000))
    assert token_files.load(tokens(path)).fingerprint != token_files.load(tokens(path, **changed)).fingerprint


def test_vocabulary_is_checked_where_it_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.bin", [1] * 100)
    ids = [2] * 100
    ids[40] = 300
    write(tmp_path / "b.bin", ids)
    data = token_files.load(tokens(tmp_path, vocabulary=300))
    everything = np.arange(len(data.train))
    with pytest.raises(DataError, match=r"token 40 of .*/b\.bin is 300, and the vocabulary has 300"):
        data.train.read(Samples(everything, everything))
    assert token_files.load(tokens(tmp_path), 50).vocabulary == 50
    assert len(rows(token_files.load(tokens(tmp_path, vocabulary=301)).train)) == 9


def test_a_record_bounds_the_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "a.bin", [1, 256] * 100)
    record(path)
    with pytest.raises(DataError, match="is 256, and the vocabulary has 256"):
        rows(token_files.load(tokens(path), 1000).train)


REFUSALS: dict[str, tuple[Any, dict[str, Any], str]] = {
    "cut off": (b"123", {}, r"a\.bin has 3 bytes, which is not a multiple of the 2 of a uint16"),
    "too short": (b"12" * 16, {}, "has 16 tokens, too few for one sequence of 16"),
    "other samples": (b"12" * 100, {"samples": 7}, r"has 6 sequences of 16, and data\.samples is 7"),
    "nothing held out": (b"12" * 100, {"held_out": 0.01}, r"data\.held_out 0\.01 of 6 sequences leaves one split empty"),
    "nothing left": (b"12" * 100, {"held_out": 0.99}, "leaves one split empty"),
    "empty": (b"", {}, r"a\.bin is empty"),
}


@pytest.mark.parametrize(("content", "keys", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(tmp_path: Path, content: bytes, keys: dict[str, Any], message: str) -> None:
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(DataError, match=message):
        token_files.load(tokens(tmp_path, **keys))


RECORDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "width": ({}, {"dtype": "uint32"}, r"was written as uint16, and data\.dtype is uint32"),
    "vocabulary": ({"vocabulary": 500}, {"vocabulary": 400}, r"of 500 tokens, and data\.vocabulary is 400"),
    "cut at a token": ({"tokens": 101}, {}, "has 100 tokens, and its record says 101"),
    "no record": ({"format": "mine"}, {}, r"a\.bin\.json does not say how a\.bin was tokenized \(format: Input should be"),
}


@pytest.mark.parametrize(("fields", "keys", "message"), RECORDS.values(), ids=RECORDS)
def test_files_that_differ_from_their_record(tmp_path: Path, fields: dict[str, Any], keys: dict[str, Any], message: str) -> None:
    record(write(tmp_path / "a.bin", range(100)), **fields)
    with pytest.raises(DataError, match=message):
        token_files.load(tokens(tmp_path, **keys))


def test_two_tokenizers(tmp_path: Path) -> None:
    for name, tokenizer in (("a.bin", "bytes"), ("b.bin", "0123")):
        record(write(tmp_path / name, range(100)), tokenizer=tokenizer)
    with pytest.raises(DataError, match=r"a\.bin and .*b\.bin were made by different tokenizers"):
        token_files.load(tokens(tmp_path))


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no \.bin file in .*; write one with `trainwright-trainer tokenize`"):
        token_files.load(tokens(tmp_path))
    with pytest.raises(DataError, match="gone cannot be read: No such file"):
        token_files.load(tokens(tmp_path / "gone"))


def everything(portion: Portion) -> list[int]:
    numbers: list[int] = portion.numbers(np.arange(len(portion))).tolist() if len(portion) else []
    return numbers


@given(size=st.integers(1, 5000), share=st.floats(0.0001, 0.9999))
def test_every_sample_is_on_one_side(size: int, share: float) -> None:
    train, held_out = divide(size, share)
    assert len(held_out) == round(size * share)  # as the contract's `train_samples` counts
    assert sorted(everything(train) + everything(held_out)) == list(range(size))
    assert everything(train) == sorted(everything(train))


@given(size=st.integers(2, 100_000), share=st.floats(0.001, 0.999))
def test_held_out_samples_lie_together(size: int, share: float) -> None:
    """At most one stretch begins in each 64th, so few held-out samples have a neighbour in training."""
    held_out = np.array(everything(divide(size, share)[1]))
    begins = 1 + np.count_nonzero(np.diff(held_out) > 1) if len(held_out) else 0
    assert begins <= STRETCHES


def test_every_part_of_the_text_is_evaluated() -> None:
    held_out = everything(divide(64_000, 0.05)[1])
    assert np.histogram(held_out, bins=64, range=(0, 64_000))[0].tolist() == [50] * 64
