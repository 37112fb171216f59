"""What runs ask of the quota of their queue, where the profile states it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from trainwright.compile import CompiledRun
from trainwright.objects.formats import amount, quantity
from trainwright.operators.quota import asked_together, offers, quota_holder
from trainwright.report.values import Facts
from trainwright.units import counted


def asks(compiled: CompiledRun) -> dict[str, str]:
    """What a record states of it: ``asks.nvidia.com/gpu`` -> ``32``."""
    return {f"asks.{name}": _said(name, number) for name, number in asked_together(compiled.resolution).items()}


def row(compiled: CompiledRun) -> str:
    """``32 of 64 nvidia.com/gpu (96 with what it may borrow)``."""
    return _held_against(compiled, asked_together(compiled.resolution))


def together(compiled: CompiledRun, others: Iterable[Facts]) -> str:
    """What all active runs of the queue ask for, this one among them; empty where it is alone.

    Args:
        others: what the records of the other active runs of the project state.
    """
    run, cluster = compiled.run, compiled.resolution.cluster
    sums = asked_together(compiled.resolution)
    own = quota_holder(cluster, run.namespace, run.queue) if run.queue and sums else None
    beside = [
        facts for facts in others
        if own and facts.get("cluster") == run.cluster and "queue" in facts
        and quota_holder(cluster, str(facts["namespace"]), str(facts["queue"])) == own
    ]  # fmt: skip
    if not beside:
        return ""
    for name in sums:
        sums[name] += sum((amount(facts.get(f"asks.{name}", 0)) or Decimal() for facts in beside), Decimal())
    over = [one for one in offers(compiled.resolution) if sums[one.resource] > _nominal(compiled, one.resource)]
    waits = ", so some wait for others" if over else ""
    return f"{_held_against(compiled, sums)} for {counted(len(beside) + 1, 'active run')}{waits}"


def _held_against(compiled: CompiledRun, sums: Mapping[str, Decimal]) -> str:
    return ", ".join(
        f"{_said(name, number)} of {_said(name, _nominal(compiled, name))} {name}{_borrowed(compiled, name)}"
        for name, number in sums.items()
    )


def _nominal(compiled: CompiledRun, name: str) -> Decimal:
    return sum((one.nominal for one in offers(compiled.resolution) if one.resource == name), Decimal())


def _borrowed(compiled: CompiledRun, name: str) -> str:
    limits = [one.most for one in offers(compiled.resolution) if one.resource == name]
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits):
        return " (more where others lend it)"
    return f" ({_said(name, sum(known, Decimal()))} with what it may borrow)" if sum(known) > _nominal(compiled, name) else ""


def _said(name: str, number: Decimal) -> str:
    """Bytes in their usual suffixes, all else as a number."""
    of_bytes = name.startswith(("memory", "ephemeral-storage", "hugepages-"))
    return quantity(number, "1Ki") if of_bytes else f"{number.normalize():f}"
