"""What ``datasets.save_to_disk`` wrote, opened without reading it into memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.reading import reading

if TYPE_CHECKING:
    import datasets  # type: ignore[import-untyped]

MARKERS = ("dataset_dict.json", "state.json")
"""Files that tell a saved ``DatasetDict`` and a saved ``Dataset``."""


def open_saved(path: Path, splits: Sequence[str]) -> dict[str, datasets.Dataset]:
    """The named splits of a saved ``DatasetDict``.

    ``load_from_disk`` maps Arrow files and runs no code of the data set's. It gives no streaming data sets, whose place cannot
    be found again at another world size.

    Raises:
        DataError: There is nothing, or something else.
        StorageError: The volume failed.
    """
    with reading(path):
        path.stat()
        if not any((path / marker).exists() for marker in MARKERS):
            raise DataError(f"{path} holds no data set that `save_to_disk` of a DatasetDict wrote")
    import datasets

    datasets.disable_progress_bars()
    try:
        with reading(path):
            found = datasets.load_from_disk(str(path))
    except (ValueError, KeyError, TypeError) as error:  # broken JSON or Arrow: pyarrow's errors are ValueErrors
        raise DataError(f"{path} cannot be read as a data set: {error}") from error
    if not isinstance(found, datasets.DatasetDict):
        raise DataError(f"{path} is one split; save a DatasetDict with {' and '.join(splits)}")
    missing = [name for name in splits if name not in found]
    if missing:
        raise DataError(f"{path} has no split {missing[0]}; it has {', '.join(found)}")
    return {name: found[name] for name in splits}
