"""The tracker at which workers meet, in the process of the first worker: it lives and ends with it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from xgboost.core import XGBoostError
from xgboost.tracker import RabitTracker

from trainwright_trainer.contract.failures import RankError
from trainwright_trainer.contract.layout import BIND_ENV

EVERYWHERE = "0.0.0.0"  # noqa: S104 - a pod's network is its own
_PAUSE_SECONDS = 1.0
_BIND_SECONDS = 90.0
"""The tracker does not reuse a port on which connections of an attempt before are still waiting out (a minute, on Linux)."""
_FAREWELL_SECONDS = 10


class PortTakenError(RankError):
    """Something else listens where the tracker should. Worth another try, perhaps on another node."""


class Tracker:
    """Listens from the start. Ranks follow the workers' numbers: it sorts them by their names.

    Raises :class:`PortTakenError`.
    """

    def __init__(self, port: int, workers: int, environment: Mapping[str, str]) -> None:
        address = environment.get(BIND_ENV) or EVERYWHERE
        deadline = time.monotonic() + _BIND_SECONDS
        while True:
            try:
                self._tracker = RabitTracker(n_workers=workers, host_ip=address, port=port, sortby="task")
                break
            except XGBoostError as error:
                if "in use" not in str(error):
                    raise
                if time.monotonic() > deadline:
                    taken = f"the port has been taken for {_BIND_SECONDS:g} s"
                    raise PortTakenError(f"the tracker cannot listen on {address} port {port}: {taken}") from error
            time.sleep(_PAUSE_SECONDS)
        self._tracker.start()

    def close(self) -> None:
        """Wait until every worker has said good-bye; one that hangs does not keep it for long."""
        with suppress(XGBoostError, ValueError):  # all that matters was committed before
            self._tracker.wait_for(_FAREWELL_SECONDS)
