"""Log lines: one JSON object per event for machines, a short line for a person at a terminal.

Events are structlog's: ``get_log().info("step", step=120, loss=0.31)``. Events and metrics share
their names where both exist.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor

_WHERE = ("run", "attempt", "node", "rank")
_FIRST = ("ts", "level", "event", *_WHERE)


def configure(run: str, identity: str, attempt: str | None = None, node: int | None = None, rank: int | None = None) -> None:
    """Set up logging for this process; every later line carries these values. A value of None is left out.

    Lines go to standard output: readable ones if it is a terminal, JSON otherwise.
    """
    values = {"run": run, "identity": identity, "attempt": attempt, "node": node, "rank": rank}
    bound = {key: value for key, value in values.items() if value is not None}

    def bind(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        # No context variables: threads and callbacks of an event loop would keep the values of their beginning.
        return {**bound, **event}

    render: list[Processor] = (
        [structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False, key="ts"), _readable]
        if sys.stdout.isatty()
        else [
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
            structlog.processors.format_exc_info,
            _ordered,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ]
    )
    structlog.configure(
        processors=[bind, structlog.processors.add_log_level, *render],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        # One write per line: several processes share the pod's standard output.
        logger_factory=structlog.WriteLoggerFactory(file=sys.stdout),
        cache_logger_on_first_use=False,
    )


def get_log() -> FilteringBoundLogger:
    """The process's logger. Call :func:`configure` first."""
    return cast(FilteringBoundLogger, structlog.get_logger())


def _ordered(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Fixed keys first; NaN and infinity as text, for they are no JSON."""
    fields = {key: event[key] for key in _FIRST if key in event} | {key: event[key] for key in event if key not in _FIRST}
    return {key: _finite(value) for key, value in fields.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not -sys.float_info.max <= value <= sys.float_info.max:
        return str(value)
    return value


def _readable(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    """``12:03:41 node 0 rank 1  step  step 120  loss 0.3121  samples_per_second 512``."""
    moment, level, name = (str(event.pop(key, "")) for key in ("ts", "level", "event"))
    trace = event.pop("exc_info", None)
    where = " ".join(f"{key} {event.pop(key)}" for key in ("node", "rank") if key in event)
    for key in ("run", "identity", "attempt"):
        event.pop(key, None)
    loud = f"{level.upper()} " if level in ("warning", "error", "critical") else ""
    facts = [f"{key} {_short(value)}" for key, value in event.items() if value is not None]
    line = "  ".join(part for part in (f"{moment} {where}".rstrip(), f"{loud}{name.replace('_', ' ')}", *facts) if part)
    return f"{line}  ({trace!r})" if isinstance(trace, BaseException) else line


def _short(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"
