"""DeepSpeed's files without DeepSpeed: where its converter cannot be used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.engine.deepspeed_files import converted


def test_another_number_of_ranks_needs_a_file_system_that_they_share() -> None:
    """On an object store each rank has copies of its own, so nobody else would find what rank 0 converts."""
    files, world = SimpleNamespace(are_shared=False, world_size=16), SimpleNamespace(place=SimpleNamespace(world_size=8))
    with (
        pytest.raises(InvalidRunError, match=r"go on with the 16 ranks that wrote it, not with 8; or keep .*checkpoints\.mount"),
        converted(cast("Any", files), cast("Any", world)),
    ):
        pass
