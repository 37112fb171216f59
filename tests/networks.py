"""What the pods of rehearsals are connected by: ``REHEARSAL_NETWORK=loopback`` plays all of the tests on addresses of this machine."""

from __future__ import annotations

import os
from typing import Any

NETWORK: Any = os.environ.get("REHEARSAL_NETWORK")
"""``own`` or ``loopback``; None for networks of their own where this machine lets them be. A test that is about one names it."""
