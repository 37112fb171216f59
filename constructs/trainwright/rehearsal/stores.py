"""Object stores of a rehearsal: a folder stands for each bucket, so that nothing of a real store is read or written."""

from __future__ import annotations

from pathlib import Path

from trainwright.rehearsal.setting import Setting
from trainwright_trainer.contract.layout import CHECKPOINT_ENV

_SCHEME = "s3://"


def store_folders(setting: Setting) -> dict[str, Path]:
    """Address of the bucket that checkpoints go to -> folder of the workspace; nothing is made."""
    specification = setting.specification
    directories = [specification.spec.state_directory or ""] if specification else []
    directories += [variable.value for variable in setting.spec.main.env if variable.name == CHECKPOINT_ENV]
    buckets = [each.removeprefix(_SCHEME).partition("/")[0] for each in directories if each.startswith(_SCHEME)]
    return {f"{_SCHEME}{bucket}": setting.workspace.stores / bucket for bucket in buckets}
