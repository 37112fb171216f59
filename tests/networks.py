"""What connects the pods of the tests' rehearsals: ``REHEARSAL_NETWORK=loopback`` plays them all on addresses of this machine."""

from __future__ import annotations

import os
from typing import Any

NETWORK: Any = os.environ.get("REHEARSAL_NETWORK")
"""``own`` or ``loopback``; None for networks of their own where this machine lets them be. A test that is about one names it."""
