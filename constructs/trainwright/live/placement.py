"""Why pods have no node: what the scheduler said, judged by the nodes that there are.

The scheduler's message counts all nodes, those of other pools among them, and does not name the taint. So the nodes are read:
those that the pod selects are its pool, and what the message says of more nodes than that is about others.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from trainwright.live.case import Case, LivePod
from trainwright.live.rows import Fact
from trainwright.live.snapshot import NODE, Object
from trainwright.objects.fields import condition, items, mapping, text
from trainwright.objects.formats import amount, quantity
from trainwright.objects.requests import requested
from trainwright.objects.selectors import meets
from trainwright.units import counted

Taint = Mapping[str, Any]

_SAID = re.compile(r"(?:^|[:,] )(\d+) ((?:node\(s\) |Insufficient |Too many pods|[a-z])[^,]*?)(?=, \d+ |\. |\.$|$)")
"""A count and a reason, as kube-scheduler and Volcano list them."""

_REASONS = {
    "affinity": "pod affinity rules", "anti-affinity": "anti-affinity rules", "spread": "topology spread constraints",
    "ports": "free ports for the requested pod ports", "volume": "available persistent volumes to bind",
    "volume-zone": "volume node affinity conflict", "volume-count": "exceed max volume count", "pods": "Too many pods",
    "devices": "cannot allocate all claims",
}  # fmt: skip
"""What is no matter of a node alone -> words of the scheduler that say so (kubernetes, pkg/scheduler/framework/plugins)."""


_STATES = ("unschedulable", "not-ready", "unreachable")
"""Taints that only say what the node's conditions say; others of Kubernetes, such as ``disk-pressure``, are their own reason."""


class Pool(NamedTuple):
    """The nodes that a pod selects, by what keeps it from each."""

    nodes: Sequence[Object]
    tainted: Mapping[str, int]
    """Taint as kubectl writes it -> on how many."""
    cordoned: int
    unready: int
    open: Sequence[Object]
    """The others: only room can be short there."""


def placement_facts(case: Case) -> Iterator[Fact]:
    """One ``short`` fact for each group of pods that have no node for the same reason."""
    groups: dict[str, list[LivePod]] = {}
    waiting = [pod for pod in case.pods if pod.state == "unscheduled"]
    for pod in waiting:
        message = text(pod.condition("PodScheduled"), "/message")
        groups.setdefault(_kind_of(message), []).append(pod)
    for pods in groups.values():
        message = text(pods[0].condition("PodScheduled"), "/message")
        if not message:
            continue
        fields = {"message": _short(message), "missing": str(len(pods)), **_judged(case, pods, message)}
        shows = f"Pod/{pods[0].name}: PodScheduled=False: {message}"
        for pod in pods:
            yield Fact("short", {**fields, "pod": pod.name, "label": case.label(pod.name)}, shows)


def _short(message: str) -> str:
    """Without what preemption would not bring."""
    return re.sub(r"\.?( no new claims to deallocate,?)?( preemption: .*)?$", "", message, flags=re.DOTALL)


def _kind_of(message: str) -> str:
    """The message without counts and names, which differ from pod to pod."""
    return re.sub(r"\d+", "", message.partition(". ")[0])


def _judged(case: Case, pods: Sequence[LivePod], message: str) -> dict[str, str]:
    spec = pods[0].manifest["spec"]
    said = {reason.strip(): int(number) for number, reason in _SAID.findall(message.partition(" preemption: ")[0])}
    asked = requested([(1, spec)], "requests", "limits")
    short = [name.removeprefix("Insufficient ") for name in said if name.startswith("Insufficient ")]
    nodes = case.snapshot.of(NODE)
    fields = {"asks": _asks(asked, short), "short": " and ".join(short)}
    rules = [name for name, words in _REASONS.items() if any(words in reason for reason in said)]
    if not nodes:
        return fields | {"why": rules[0] if rules else "room" if short else "unclear", "pool": "(the snapshot has no nodes)"}
    pool = pool_of(spec, nodes)
    fields |= {
        "pool": selector_text(spec), "nodes": str(len(pool.nodes)), "open": str(len(pool.open)), "cordoned": str(pool.cordoned),
        "unready": str(pool.unready), "taint": _first(pool.tainted), "tainted": str(sum(pool.tainted.values())),
        "blocked": _blocked(pool), "alike": _alike(spec, nodes), "topology": _topology(spec, rules[0] if rules else ""),
    }  # fmt: skip
    if not pool.nodes:
        return fields | {"why": "selector"}
    if not pool.open:
        only = [name for name, there in (("taint", pool.tainted), ("cordon", pool.cordoned), ("unready", pool.unready)) if there]
        return fields | {"why": only[0] if len(only) == 1 else "blocked"}
    if rules:
        return fields | {"why": rules[0]}
    deciding = _deciding(said, short, len(pool.open))
    large = [name for name in deciding if not any(_has(node, name, asked.get(name, "0")) for node in pool.nodes)]
    if large:
        return fields | {
            "why": "too-large",
            "short": " and ".join(large),
            "asks": _asks(asked, large),
            "most": _most(pool.nodes, large[0]),
        }
    if deciding:
        return fields | {
            "why": "room",
            "short": " and ".join(deciding),
            "asks": _asks(asked, deciding),
            "need": need_of(len(pods), asked, deciding, pool.nodes),
        }
    return fields | {"why": "unclear"}


def _deciding(said: Mapping[str, int], short: Sequence[str], nodes: int) -> list[str]:
    """The resources that are short on most of the nodes that are left: others are short on some that lack these too."""
    most = max((min(said[f"Insufficient {name}"], nodes) for name in short), default=0)
    return [name for name in short if min(said[f"Insufficient {name}"], nodes) == most]


def _asks(asked: Mapping[str, str], names: Sequence[str]) -> str:
    return " and ".join(f"{asked.get(name, '?')} {name}" for name in names)


def need_of(pods: int, asked: Mapping[str, str], short: Sequence[str], nodes: Sequence[Object]) -> str:
    """How much is missing for so many pods, in nodes."""
    room = max((room_in(node, asked) for node in nodes), default=0)
    if not room:
        return "a larger node"
    if room == 1:
        return counted(pods, "free node")
    amounts = [f"{quantity((amount(asked[name]) or Decimal()) * pods, asked[name])} {name}" for name in short if name in asked]
    return f"{' and '.join(amounts)} (an empty node has room for {room} such pods: {counted(-(-pods // room), 'node')} more)"


def room_in(node: Object, asked: Mapping[str, str], used: Mapping[str, Decimal] | None = None) -> int:
    """How many pods a node holds beside what is used of it."""
    allocatable = mapping(node, "/status/allocatable")
    counts = [int(amount(allocatable.get("pods")) or 110)]
    for name, value in asked.items():
        wanted = amount(value)
        if wanted:
            free = (amount(allocatable.get(name)) or Decimal()) - (used or {}).get(name, Decimal())
            counts.append(max(0, int(free // wanted)))
    return min(counts)


def _has(node: Object, name: str, value: str) -> bool:
    return (amount(mapping(node, "/status/allocatable").get(name)) or Decimal()) >= (amount(value) or Decimal())


def _most(nodes: Sequence[Object], name: str) -> str:
    values = [str(mapping(node, "/status/allocatable").get(name, "0")) for node in nodes]
    return f"{max(values, key=lambda value: amount(value) or Decimal())} {name}"


def _first(tainted: Mapping[str, int]) -> str:
    return max(tainted, key=lambda name: tainted[name], default="")


def _blocked(pool: Pool) -> str:
    """``4 with the taint example.com/x:NoSchedule, 2 cordoned``; empty where all are open."""
    parts = [f"{number} with the taint {name}" for name, number in pool.tainted.items()]
    parts += [f"{pool.cordoned} cordoned"] if pool.cordoned else []
    parts += [f"{pool.unready} not ready"] if pool.unready else []
    return ", ".join(parts)


def used_by_node(pods: Sequence[Object]) -> dict[str, dict[str, Decimal]]:
    """Node -> what the pods on it ask for; of those that are in the snapshot."""
    used: dict[str, dict[str, Decimal]] = {}
    for pod in pods:
        node = text(pod, "/spec/nodeName")
        if node and text(pod, "/status/phase") not in ("Failed", "Succeeded"):
            there = used.setdefault(node, {})
            for name, value in requested([(1, pod["spec"])], "requests", "limits").items():
                there[name] = there.get(name, Decimal()) + (amount(value) or Decimal())
    return used


def pool_of(spec: Mapping[str, Any], nodes: Sequence[Object]) -> Pool:
    """The nodes that a pod selects."""
    selected = [node for node in nodes if selects(spec, node)]
    tainted: Counter[str] = Counter()
    cordoned = unready = 0
    left: list[Object] = []
    for node in selected:
        against = [taint for taint in _taints(node) if not tolerated(taint, spec)]
        own = [taint for taint in against if text(taint, "/key").removeprefix("node.kubernetes.io/") not in _STATES]
        if own:
            tainted[_taint_text(own[0])] += 1
        elif mapping(node, "/spec").get("unschedulable") is True:
            cordoned += 1
        elif against or not is_ready(node):
            unready += 1
        else:
            left.append(node)
    return Pool(selected, tainted, cordoned, unready, left)


def is_ready(node: Object) -> bool:
    return text(condition(node, "Ready"), "/status", "True") == "True"


def _taints(node: Object) -> Iterator[Taint]:
    for _, taint in items(node, "/spec/taints"):
        if text(taint, "/effect") in ("NoSchedule", "NoExecute"):
            yield taint


def _taint_text(taint: Taint) -> str:
    value = text(taint, "/value")
    return f"{text(taint, '/key')}{f'={value}' if value else ''}:{text(taint, '/effect')}"


def tolerated(taint: Taint, spec: Mapping[str, Any]) -> bool:
    """Kubernetes, component-helpers/scheduling/corev1/helpers.go: an empty key with Exists tolerates all."""
    for _, one in items(spec, "/tolerations"):
        if text(one, "/effect") not in ("", text(taint, "/effect")):
            continue
        exists = text(one, "/operator") == "Exists"
        if (exists and text(one, "/key") in ("", text(taint, "/key"))) or (
            text(one, "/key") == text(taint, "/key") and text(one, "/value") == text(taint, "/value")
        ):
            return True
    return False


def selects(spec: Mapping[str, Any], node: Object) -> bool:
    """By node selector and required node affinity."""
    labels = {**mapping(node, "/metadata/labels"), "metadata.name": node["metadata"]["name"]}
    if any(labels.get(key) != value for key, value in mapping(spec, "/nodeSelector").items()):
        return False
    place = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
    terms = [term for _, term in items(spec, place)]
    return not terms or any(_term(term, labels) for term in terms)


def _term(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    wanted = [one for field in ("matchExpressions", "matchFields") for _, one in items(term, f"/{field}")]
    return all(meets(one, labels) for one in wanted)


def selector_text(spec: Mapping[str, Any]) -> str:
    """What a pod selects its nodes by, as labels."""
    parts = [f"{key}={value}" for key, value in mapping(spec, "/nodeSelector").items()]
    place = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"
    for _, term in items(spec, place):
        parts += [
            f"{text(one, '/key')} {text(one, '/operator')} {', '.join(map(str, one.get('values') or []))}".strip()
            for _, one in items(term, "/matchExpressions")
        ]
    return ", ".join(parts) or "any node"


def _alike(spec: Mapping[str, Any], nodes: Sequence[Object]) -> str:
    """What nodes have under the labels that the pod selects by, where none has what it asks for."""
    parts = []
    for key, value in mapping(spec, "/nodeSelector").items():
        there = Counter(
            str(mapping(node, "/metadata/labels").get(key)) for node in nodes if key in mapping(node, "/metadata/labels")
        )
        if value not in there:
            seen = ", ".join(f"{name} ({number})" for name, number in there.most_common(4))
            parts.append(f"no node has {key}={value}; " + (f"there are {seen}" if seen else f"no node has a label {key}"))
    return "; ".join(parts) or "no node has all of these labels"


def _topology(spec: Mapping[str, Any], rule: str) -> str:
    """The label whose values are the places that a rule about other pods speaks of."""
    field = {"affinity": "podAffinity", "anti-affinity": "podAntiAffinity"}.get(rule)
    if field:
        terms = [one for _, one in items(spec, f"/affinity/{field}/requiredDuringSchedulingIgnoredDuringExecution")]
        return ", ".join(dict.fromkeys(text(term, "/topologyKey") for term in terms))
    return (
        ", ".join(text(one, "/topologyKey") for _, one in items(spec, "/topologySpreadConstraints")) if rule == "spread" else ""
    )
