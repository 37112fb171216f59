"""DeepSpeed's configuration on this machine: where the specification says, or beside the specification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from trainwright_trainer.contract.failures import InvalidRunError


def read_deepspeed_config(config: str, source: Path) -> dict[str, Any] | None:
    """The file's object. None where it is in neither place.

    Args:
        config: Where the specification says that it is.
        source: Where the specification was read from.

    Raises:
        InvalidRunError: It is there, and cannot be read or holds no object.
    """
    named = Path(config)
    for path in (named, source.absolute().with_name(named.name)):
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InvalidRunError(f"deepspeed.config {path} cannot be read: {error.strerror}; give access to it") from error
        except ValueError as error:
            raise InvalidRunError(f"deepspeed.config {path} is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise InvalidRunError(
                f"deepspeed.config {path} holds a {type(document).__name__}; it must be a JSON object with DeepSpeed's keys"
            )
        return document
    return None


def section(document: dict[str, Any], name: str) -> dict[str, Any]:
    """An object within it; empty where it is left out or null. Raises :class:`InvalidRunError` for anything else."""
    found = document.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidRunError(f"{name} in DeepSpeed's configuration is {json.dumps(found)[:80]}; it must be an object")
    return found
