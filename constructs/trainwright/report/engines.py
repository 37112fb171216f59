"""The table of docs/engines.md: what each engine can do, from the contract."""

from __future__ import annotations

from typing import get_args

from trainwright.report.table import table
from trainwright_trainer.contract.capabilities import CAPABILITIES, SETTINGS, reads
from trainwright_trainer.contract.engine import ENGINE_RENDEZVOUS, Engine

_PROMISES = {
    "reshards": "loads a checkpoint at another number of ranks",
    "sigterm_save": "saves when it is told to end",
    "saves_in_background": "trains on while a checkpoint is written",
    "skips_without_sync": "sends nothing before a step's last micro batch",
    "every_rank_writes": "spreads a checkpoint over all ranks",
}


def engine_table() -> str:
    """Capabilities, settings and rendezvous of every engine, in Markdown."""
    engines: tuple[Engine, ...] = get_args(Engine)
    rows = [[text, *(_word(getattr(CAPABILITIES[engine], name)) for engine in engines)] for name, text in _PROMISES.items()]
    rows += [[f"reads `{setting}`", *(_word(reads(engine, setting)) for engine in engines)] for setting in SETTINGS]
    rows.append(["ranks meet by", *(", ".join(ENGINE_RENDEZVOUS[engine]) for engine in engines)])
    return table(["", *(f"`{engine}`" for engine in engines)], rows)


def _word(value: bool) -> str:
    return "yes" if value else "no"
