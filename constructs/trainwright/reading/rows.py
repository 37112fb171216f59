"""Tables of the compiler that are kept as YAML beside the code that reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read_rows(path: Path) -> Any:
    """What a file of ours holds. A file of somebody else is for :mod:`trainwright.reading.document`."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a wheel without libyaml is slow, and right
    return yaml.load(path.read_bytes(), loader)  # noqa: S506
