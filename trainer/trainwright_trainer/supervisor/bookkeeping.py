"""Bookkeeping: the times of an attempt are noted now and then, for one that is killed notes no end."""

from __future__ import annotations

import asyncio

from trainwright_trainer.observe.log import get_log
from trainwright_trainer.supervisor.refusal import Refusal
from trainwright_trainer.supervisor.run.history import History

NOTE_SECONDS, NOTE_SHARE = 60.0, 0.1
"""After so long, and then whenever an attempt has become longer by this share: a month makes some 60 lines."""


async def keep_times(history: History) -> None:
    """Until cancelled. A volume that refuses is only logged: the next save will say so too, and end the run if it must."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        await asyncio.sleep(max(NOTE_SECONDS, NOTE_SHARE * (loop.time() - began)))
        try:
            await history.note_times()
        except Refusal as refusal:
            get_log().warning("ledger_not_written", reason=str(refusal))
