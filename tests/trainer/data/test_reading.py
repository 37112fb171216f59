from __future__ import annotations

import errno
from pathlib import Path

import pytest

from trainwright_trainer.checkpoint.storage import StorageError
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.reading import reading

PATH = Path("/data/a.bin")


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.EISDIR])
def test_what_another_try_would_not_mend(number: int) -> None:
    with pytest.raises(DataError, match=r"/data/a\.bin cannot be read: ") as raised, reading(PATH):
        raise OSError(number, "no")
    assert raised.value.exit_code == ExitCode.DATA_CHANGED


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN])
def test_a_volume_that_failed_is_worth_another_try(number: int) -> None:
    with pytest.raises(StorageError, match=r"cannot read /data/b: no; look at the events of the claim") as raised, reading(PATH):
        raise OSError(number, "no", "/data/b")
    assert raised.value.exit_code == ExitCode.STORAGE


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), reading(PATH):
        raise KeyError
