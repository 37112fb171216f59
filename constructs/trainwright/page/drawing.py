"""A run's topology as an SVG: pods with their ranks, who waits for whom, what they share.

Colours come from the page's style sheet, so that the drawing follows light and dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from trainwright.compile import CompiledRun
from trainwright.handshake import Role
from trainwright.run import KubernetesMount, Mount, ProjectedMount
from trainwright.units import counted

WIDTH = 760
"""Of the view box; the page scales it."""
PER_ROW = 4
"""Pods beside each other."""
MOST_PODS = 8
"""That are drawn of one role; the last one then stands for the rest."""
MOST_CELLS = 8
"""Ranks that are drawn in a pod."""
LONGEST_NAME = 22
"""Of a pod, in characters."""
_GAP, _POD_HEIGHT, _BAND = 12, 78, 26


class _Box(NamedTuple):
    """A pod, or the pods that one stands for."""

    title: str
    ranks: range
    note: str
    first: bool
    """Whether rank 0 is here."""


def drawing(compiled: CompiledRun) -> str:
    """The SVG element, with a title for those who do not see it."""
    plan, binding = compiled.plan, compiled.resolution.binding
    parts: list[str] = []
    top = _BAND if plan.gang or plan.namespace else 0
    bottom = top + _GAP
    for role in binding.roles:
        boxes = list(_boxes(compiled, role))
        parts.append(_text(_GAP * 2, bottom + 12, f"{role.name}: {counted(role.pods, 'pod')}", "heading"))
        bottom += 20
        for number, box in enumerate(boxes):
            row, column = divmod(number, PER_ROW)
            parts.extend(_pod(box, _GAP * 2 + column * _step(), bottom + row * (_POD_HEIGHT + _GAP)))
        bottom += -(-len(boxes) // PER_ROW) * (_POD_HEIGHT + _GAP)
    frame = f"gang of {plan.gang.scheduler}: {plan.gang.minimum} pods start together" if plan.gang else "pods start one by one"
    dashes = "gang" if plan.gang else "alone"
    parts.insert(0, f'<rect class="{dashes}" x="1" y="{top}" width="{WIDTH - 2}" height="{bottom - top}" rx="8"/>')
    queue = f"queue {compiled.run.queue} · " if compiled.run.queue else ""
    parts.insert(1, _text(_GAP, top - 8, f"{queue}{frame}", "label"))
    bottom += _GAP
    for kind, words in _shared(compiled):
        parts.extend(_bar(kind, words, bottom))
        bottom += 34
    title = f"Topology of {plan.run}: {plan.topology}, {counted(plan.world.nodes, 'node')}, world size {plan.world.size}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {bottom + 2}" role="img" aria-label={quoteattr(title)} xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _step() -> float:
    """From the left edge of a pod to that of the next."""
    return (WIDTH - 4 * _GAP + _GAP) / PER_ROW


def _boxes(compiled: CompiledRun, role: Role) -> Iterator[_Box]:
    """The pods of a role, the first ones by themselves."""
    shown = min(role.pods, MOST_PODS)
    per_pod = compiled.plan.world.processes_per_node if role.holds_ranks else 0
    begin = sum(other.pods for other in compiled.resolution.binding.roles[: _place(compiled, role)] if other.holds_ranks)
    for index in range(shown):
        rest = role.pods - index if index == shown - 1 and role.pods > shown else 1
        ranks = range((begin + index) * per_pod, (begin + index + rest) * per_pod)
        host = role.host.format(name=compiled.plan.run, index=index)
        title = f"{rest} more pods" if rest > 1 else host.partition(".")[0]
        share = "" if role.share is None else f"{role.share.cpu} CPU, {role.share.memory}"
        yield _Box(title, ranks, share, role.holds_ranks and begin + index == 0)


def _place(compiled: CompiledRun, role: Role) -> int:
    return compiled.resolution.binding.roles.index(role)


def _pod(box: _Box, x: float, y: float) -> Iterator[str]:
    width = _step() - _GAP
    yield f'<g class="pod{" first" if box.first else ""}">'
    yield f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{_POD_HEIGHT}" rx="6"/>'
    title = box.title if len(box.title) <= LONGEST_NAME else f"…{box.title[1 - LONGEST_NAME :]}"  # its end tells pods apart
    yield _text(x + 8, y + 17, title, "pod-name")
    if len(box.ranks):
        shown = min(len(box.ranks), MOST_CELLS)
        cell = (width - 16) / MOST_CELLS
        for number in range(shown):
            yield f'<rect class="rank" x="{x + 8 + number * cell:.1f}" y="{y + 28}" width="{cell - 3:.1f}" height="20" rx="2"/>'
        yield _text(x + 8, y + 66, _ranks(box.ranks), "label")
    else:
        yield _text(x + 8, y + 44, _short(box.note or "no ranks", 26), "label")
    yield "</g>"


def _ranks(ranks: range) -> str:
    return f"rank {ranks.start}" if len(ranks) == 1 else f"ranks {ranks.start} to {ranks.stop - 1}"


def _shared(compiled: CompiledRun) -> Iterator[tuple[str, str]]:
    """What the pods have in common, each with its kind: how they meet, their network, their volumes."""
    plan, run = compiled.plan, compiled.run
    if compiled.resolution.needs.talk:
        host = plan.rendezvous.host.replace(plan.name, plan.run)
        yield "meet", f"rendezvous {plan.rendezvous.kind}: {host}:{plan.rendezvous.port}"
    names = sorted(one["metadata"]["name"].replace(plan.name, plan.run) for one in compiled.manifests if one["kind"] == "Service")
    for name in names:
        yield "service", f"Service {name}"
    yield "machine", f"{counted(plan.world.nodes, 'node')} of pool {plan.world.pool}: {plan.world.machine}"
    for path, mount in run.rank_mounts.items():
        saves = plan.checkpoint is not None and plan.checkpoint.mount == path and plan.saved_by != "unknown"
        yield "volume", f"{path}: {_mounted(mount)}{', checkpoints' if saves else ''}"


def _mounted(mount: Mount) -> str:
    """``claim datasets``. Of each kind of mount the first field is its own."""
    kind = next(iter(type(mount).model_fields))
    if isinstance(mount, KubernetesMount):
        return f"{kind} {next(iter(mount.volume))}"
    if isinstance(mount, ProjectedMount):
        return f"{kind} from {counted(len(mount.projected), 'source')}"
    return f"{kind.replace('_', ' ')} {getattr(mount, kind)}"


def _bar(kind: str, words: str, y: float) -> Sequence[str]:
    return (
        f'<rect class="bar {kind}" x="1" y="{y}" width="{WIDTH - 2}" height="28" rx="4"/>',
        _text(_GAP, y + 19, _short(words, 110), "label"),
    )


def _text(x: float, y: float, words: str, style: str) -> str:
    return f'<text class="{style}" x="{x:.0f}" y="{y:.0f}">{escape(words)}</text>'


def _short(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"
