from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

from trainwright_trainer.checkpoint import tensor_file

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]
tensors = st.builds(
    lambda shape, dtype, seed: (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 9).to(dtype),
    st.lists(st.integers(0, 5), max_size=3), st.sampled_from(DTYPES), st.integers(0, 99),
)


def written(content: dict[str, Tensor]) -> bytes:
    return b"".join(tensor_file.encode(content))


names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)


@given(st.dictionaries(names, tensors, max_size=6))
def test_the_library_reads_what_we_write(content: dict[str, Tensor]) -> None:
    content.pop("__metadata__", None)
    found = load(written(content))
    assert found.keys() == content.keys()
    for name, tensor in content.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_same_bytes_as_the_library() -> None:
    content = {"weight": torch.arange(6.0).reshape(2, 3), "step": torch.tensor(3.0), "random": torch.arange(5, dtype=torch.uint8)}
    assert written(content) == save(content, {"format": "pt"})


def test_views_are_written_as_they_look(tmp_path: Path) -> None:
    transposed = torch.arange(6.0, requires_grad=True).reshape(2, 3).T
    (tmp_path / "file").write_bytes(written({"t": transposed}))
    assert torch.equal(tensor_file.decode(tmp_path / "file")["t"], transposed)


def test_what_was_read_outlives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(written({"t": torch.ones(100_000)}))
    found = tensor_file.decode(path)["t"]
    path.write_bytes(b"\0" * path.stat().st_size)
    assert torch.equal(found, torch.ones(100_000))


def test_unknown_dtype() -> None:
    with pytest.raises(ValueError, match="complex64"):
        written({"c": torch.zeros(1, dtype=torch.complex64)})
