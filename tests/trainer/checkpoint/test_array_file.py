"""Arrays as a safetensors file, read by the library itself and by our own reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from safetensors.numpy import load, save

from trainwright_trainer.checkpoint.array_file import Array, decode, encode

DTYPES = st.sampled_from(["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
FILES = st.dictionaries(st.text("abc/._0", min_size=1), DTYPES.flatmap(lambda dtype: arrays.arrays(dtype, SHAPES)), max_size=4)


def assert_same(ours: dict[str, Array], theirs: dict[str, Array]) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])
        assert (ours[name].dtype, ours[name].shape) == (theirs[name].dtype, theirs[name].shape)


@given(FILES)
def test_the_library_reads_what_we_write(file: dict[str, Array]) -> None:
    assert_same(load(b"".join(encode(file))), file)


@given(FILES)
def test_we_read_what_the_library_writes(file: dict[str, Array]) -> None:
    assert_same(decode(save(file)), file)


def test_what_is_not_contiguous(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4).T
    assert_same(decode(b"".join(encode({"a": array}))), {"a": array})


def test_other_dtypes() -> None:
    with pytest.raises(ValueError, match="x has dtype complex64"):
        list(encode({"x": np.zeros(1, dtype=np.complex64)}))
    with pytest.raises(ValueError, match="x has dtype BF16"):
        decode(bytes([64]) + bytes(7) + b'{"x":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'.ljust(64) + b"..")
