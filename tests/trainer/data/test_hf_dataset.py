from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import datasets  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trainer.data.tokenizer_files import TEXTS, byte_level, word_piece
from tokenizers import Tokenizer

from trainwright_trainer.contract.data import HFDataset
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.contract.training import WorldBatch
from trainwright_trainer.data import hf_dataset
from trainwright_trainer.data.batch import share_step
from trainwright_trainer.data.dataset import IGNORED, Split
from trainwright_trainer.data.load import load
from trainwright_trainer.data.order import PADDING, DataOrder, Samples

LINES = [line.strip() for text in TEXTS for line in text.splitlines() if line.strip()]
REVIEWS: dict[str, list[Any]] = {"text": LINES[:120], "title": LINES[120:240], "label": [number % 3 for number in range(120)]}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return word_piece(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("reviews"))


def saved(path: Path, columns: dict[str, list[Any]] = REVIEWS, features: Any = None) -> Path:
    rows = datasets.Dataset.from_dict(columns, features=features)
    head = len(rows) * 5 // 6
    splits = {"train": rows.select(range(head)), "validation": rows.select(range(head, len(rows)))}
    datasets.DatasetDict(splits).save_to_disk(path)
    return path


def source(path: Path, tokenizer: Path, /, **keys: Any) -> HFDataset:
    fields = {"source": "hf-dataset", "path": str(path), "tokenizer": str(tokenizer), "max_length": 16}
    return HFDataset.model_validate(fields | keys)


def read(split: Split, *ids: int) -> dict[str, np.ndarray[Any, Any]]:
    return dict(split.read(Samples(np.array(ids), np.array(ids))))


def test_rows_are_tokenized_cut_and_padded(reviews: Path, tokenizer: Path) -> None:
    data = hf_dataset.load(source(reviews, tokenizer))
    assert (len(data.train), len(data.held_out), data.vocabulary) == (100, 20, 300)
    columns = read(data.train, *range(100))
    assert set(columns) == {"inputs", "targets", "attention_mask", "special_tokens_mask"}
    library = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    for row in range(100):
        whole = library.encode(LINES[row]).ids
        kept = whole if len(whole) <= 16 else [*whole[:15], whole[-1]]
        assert columns["inputs"][row].tolist() == kept + [0] * (16 - len(kept))
        assert columns["attention_mask"][row].tolist() == [1] * len(kept) + [0] * (16 - len(kept))
        assert columns["targets"][row].tolist() == kept[1:] + [IGNORED] * (17 - len(kept))
        special = [1] + [0] * (len(kept) - 2) + [1] * (17 - len(kept))
        assert columns["special_tokens_mask"][row].tolist() == special
    assert columns["attention_mask"].min() == 0  # some are short,
    assert (columns["attention_mask"].min(axis=1) == 1).any()  # and some are cut


def test_pairs_and_labels(reviews: Path, tokenizer: Path) -> None:
    keys = {"text_columns": ["title", "text"], "label_column": "label", "classes": 3, "max_length": 64, "samples": 100}
    data = hf_dataset.load(source(reviews, tokenizer, **keys))
    columns = read(data.train, 7, 3)
    assert columns["labels"].tolist() == [1, 0]
    encoding = Tokenizer.from_file(str(tokenizer / "tokenizer.json")).encode(LINES[127], LINES[7])
    assert columns["inputs"][0][:len(encoding.ids)].tolist() == encoding.ids
    assert columns["token_types"][0][:len(encoding.ids)].tolist() == encoding.type_ids
    assert 1 in columns["token_types"][0]


def test_a_tokenizer_that_adds_nothing(reviews: Path, tmp_path: Path) -> None:
    data = hf_dataset.load(source(reviews, byte_level(tmp_path), max_length=8))
    columns = read(data.train, 0)
    assert not columns["special_tokens_mask"][columns["attention_mask"] == 1].any()
    assert columns["targets"][0][-1] == IGNORED
    assert np.array_equal(columns["inputs"][0][1:], columns["targets"][0][:-1])


@settings(deadline=None, max_examples=30)
@given(start=st.integers(0, 3000), world=st.sampled_from([1, 2, 4]), micro=st.sampled_from([1, 2, 4]))
def test_world_size_and_micro_batch_change_no_row(reviews: Path, tokenizer: Path, start: int, world: int, micro: int) -> None:
    data = hf_dataset.load(source(reviews, tokenizer, label_column="label", classes=3))
    batch = DataOrder(5, len(data.train), data.fingerprint).batch(start, 16)
    whole = data.train.read(batch)
    shares = share_step(WorldBatch(micro=micro, accumulation=16 // world // micro), world)
    parts = [data.train.read(part) for rank in range(world) for part in shares.slices(batch, rank)]
    for name in whole:
        assert np.array_equal(np.concatenate([part[name] for part in parts]), whole[name])


def test_padding_reads_something(reviews: Path, tokenizer: Path) -> None:
    data = hf_dataset.load(source(reviews, tokenizer))
    assert read(data.held_out, 19, PADDING)["inputs"].shape == (2, 16)


def test_same_rows_again(reviews: Path, tokenizer: Path, tmp_path: Path) -> None:
    before = hf_dataset.load(source(reviews, tokenizer)).fingerprint
    assert hf_dataset.load(source(saved(tmp_path / "copy"), tokenizer)).fingerprint == before
    other = saved(tmp_path / "other", {**REVIEWS, "text": ["another", *REVIEWS["text"][1:]]})
    different = [
        source(other, tokenizer), source(reviews, tokenizer, max_length=17), source(reviews, tokenizer, text_columns=["title"]),
        source(reviews, byte_level(tmp_path / "byte")),
    ]
    assert before not in {hf_dataset.load(data).fingerprint for data in different}


@pytest.mark.slow
def test_nothing_is_written_and_no_network_is_asked(reviews: Path, tokenizer: Path, tmp_path: Path) -> None:
    """On a machine without a home, and with every connection refused."""
    code = """
import socket, sys
def refused(*_): raise AssertionError("a connection")
socket.socket.connect = socket.getaddrinfo = refused
from pathlib import Path
from trainwright_trainer.contract.data import HFDataset
from trainwright_trainer.data import hf_dataset
print(hf_dataset.load(HFDataset.model_validate_json(sys.argv[1])).fingerprint)
"""
    data = source(reviews, tokenizer)
    before = {path: path.stat().st_mtime_ns for path in reviews.rglob("*")}
    done = subprocess.run(
        [sys.executable, "-c", code, data.model_dump_json()], env={"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, check=True,
    )
    assert done.stdout.strip() == hf_dataset.load(data).fingerprint
    assert {path: path.stat().st_mtime_ns for path in reviews.rglob("*")} == before
    assert not (tmp_path / "home").exists()


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "split": ({"evaluation_split": "test"}, "has no split test; it has train, validation"),
    "column": ({"text_columns": ["body"]}, "train in .* has no column body; it has text, title, label"),
    "no text": ({"text_columns": ["label"]}, "column label of train in .* holds int64, and data.text_columns names text"),
    "no label": ({"label_column": "title", "classes": 3}, "holds string, and data.label_column names class numbers"),
    "samples": ({"samples": 99}, "train in .* has 100 rows, and data.samples is 99"),
    "vocabulary": ({"vocabulary": 299}, "has 300 tokens, and data.vocabulary is 299"),
    "no room": ({"max_length": 2}, "adds 2 tokens to each sample: no room for text in data.max_length 2"),
    "no room for a pair": ({"max_length": 3, "text_columns": ["text", "title"]}, "adds 3 tokens"),
    "no data": ({"path": "/nowhere"}, "/nowhere cannot be read: No such file"),
    "no tokenizer": ({"tokenizer": "/nowhere"}, "/nowhere cannot be read: No such file"),
}


@pytest.mark.parametrize(("keys", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(reviews: Path, tokenizer: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        hf_dataset.load(source(reviews, tokenizer, **keys))


def test_tokens_are_checked_against_the_model(tmp_path: Path, tokenizer: Path) -> None:
    with pytest.raises(DataError, match="a vocabulary of 300 tokens, and the model's vocab_size is 299"):
        load(source(saved(tmp_path / "rows"), tokenizer), 0, 299)
    library = Tokenizer.from_file(str(tokenizer / "tokenizer.json"))
    library.add_special_tokens(["<image>"])  # as Gemma's, which its models of text do not know
    library.save(str(tmp_path / "tokenizer.json"))
    lines = [*LINES[:3], f"{LINES[3]} <image>", *LINES[4:10]]
    dataset = load(source(saved(tmp_path / "named", {"text": lines}), tmp_path, max_length=64), 0, 300)
    read(dataset.train, 0, 1, 2)
    with pytest.raises(DataError, match=r"row 3 of train in .* has token 300, and the model's vocab_size is 300: "):
        read(dataset.train, 2, 3)


@pytest.mark.parametrize(("classes", "row", "label"), [(2, 2, 2), (3, 5, -1), (3, 5, None)])
def test_labels_are_checked_where_they_are_read(
    tmp_path: Path, tokenizer: Path, classes: int, row: int, label: int | None,
) -> None:
    labels = [*REVIEWS["label"]]
    labels[row] = label
    path = saved(tmp_path, {**REVIEWS, "label": labels})
    data = hf_dataset.load(source(path, tokenizer, label_column="label", classes=classes))
    read(data.train, 0, 1)
    with pytest.raises(DataError, match=f"row {row} of train in .* has label {label}, and data.classes is {classes}"):
        read(data.train, 0, row)


def test_named_classes_are_counted(tmp_path: Path, tokenizer: Path) -> None:
    features = datasets.Features({
        "text": datasets.Value("string"), "title": datasets.Value("large_string"),
        "label": datasets.ClassLabel(names=["a", "b", "c"]),
    })
    path = saved(tmp_path, features=features)
    assert read(hf_dataset.load(source(path, tokenizer, label_column="label", classes=3)).train, 2)["labels"].tolist() == [2]
    with pytest.raises(DataError, match=r"column label of train in .* has 3 classes, and data\.classes is 4"):
        hf_dataset.load(source(path, tokenizer, label_column="label", classes=4))


def test_a_row_without_text(tmp_path: Path, tokenizer: Path) -> None:
    data = hf_dataset.load(source(saved(tmp_path, {**REVIEWS, "text": [None, *LINES[:119]]}), tokenizer))
    with pytest.raises(DataError, match=r"row 0 of train in .* has no text"):
        read(data.train, 5, 0)


def test_folders_that_are_no_data_set(tmp_path: Path, tokenizer: Path) -> None:
    one = tmp_path / "one"
    datasets.Dataset.from_dict(REVIEWS).save_to_disk(one)
    with pytest.raises(DataError, match="is one split; save a DatasetDict with train and validation"):
        hf_dataset.load(source(one, tokenizer))
    (tmp_path / "train.py").write_text("raise AssertionError('code of a data set was run')")
    with pytest.raises(DataError, match="holds no data set that `save_to_disk`"):
        hf_dataset.load(source(tmp_path, tokenizer))
    broken = saved(tmp_path / "broken")
    (broken / "train" / "state.json").write_text(json.dumps({}))
    with pytest.raises(DataError, match="cannot be read as a data set"):
        hf_dataset.load(source(broken, tokenizer))
    cut = saved(tmp_path / "cut")
    [arrow] = (cut / "train").glob("*.arrow")
    arrow.write_bytes(arrow.read_bytes()[:500])
    with pytest.raises(DataError, match="cannot be read"):
        hf_dataset.load(source(cut, tokenizer))


def test_a_tokenizer_that_is_none(reviews: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(DataError, match=r"tokenizer\.json is not a tokenizer"):
        hf_dataset.load(source(reviews, tmp_path))
