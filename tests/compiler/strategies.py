"""Random runs and cluster profiles as plain data, written as users would write them.

``pairs`` draws only what must compile: clusters, then runs for them (the modules ``drawn_*``). ``mutations`` breaks such data in
one or two places, with the values that break programs: not a number, infinite, huge, empty, far too long, of the wrong type, or
in another script.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st
from tests.compiler.drawn_clusters import clusters
from tests.compiler.drawn_runs import runs
from tests.compiler.drawn_words import labels

__all__ = ["NASTY", "clusters", "labels", "mutations", "pairs", "pointers", "replaced", "runs"]

Data = dict[str, Any]

# fmt: off
NASTY: tuple[Any, ...] = (
    None, True, False, [], {}, [None], {"a": None}, [[]], {"": ""}, {"kind": "ddp"}, {"$jsii.byref": "x"}, {"__proto__": 1},
    0, -1, 1, 0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf"), 4096, 10**6, 1e6, 2**31, 2**40, 2**53,
    2**53 + 1, 2**63, 10**400, -(10**400),
    "", " ", "\n", "\t", "\x00", "\x07", "a\tb", "a\nb", "\u0085", "\u2028", "\ufeff", "\u202eabc",
    "ß", "İstanbul", "名前", "🚀",
    "=", "<<", "~", "null", "true", "yes",
    "0o17", "0x1F", "1e5", "1_000", ".nan", "NaN", "-.inf", "12:30", "2030-01-01", "{}", "[]",
    "- a", "$(HOME)", "${HOME}", "{name}", "{0}", "%s", "../..", "/", "//", "/a/../b", "A", "-", "--x y", "a.b", "a/b", "a=b",
    "a" * 64, "a" * 300,
)
# fmt: on
"""Values that a YAML file or a Python program can hold and that nobody asked for."""


def pairs() -> st.SearchStrategy[tuple[Data, Data]]:
    """A cluster and a run that must compile for it."""
    return clusters().flatmap(lambda cluster: st.tuples(st.just(cluster), runs(cluster)))


def pointers(data: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to every value inside of data."""
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path for key, value in children for path in ((*above, key), *pointers(value, (*above, key)))]


def _parent(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path[:-1]:
        data = data[key]
    return data


def replaced(data: Data, path: tuple[str | int, ...], value: Any) -> Data:
    """A copy with another value at a place."""
    copied = copy.deepcopy(data)
    _parent(copied, path)[path[-1]] = copy.deepcopy(value)
    return copied


@st.composite
def _mutated(draw: st.DrawFn, data: Data) -> Data:
    broken = copy.deepcopy(data)
    path = draw(st.sampled_from(pointers(broken)))
    parent, key = _parent(broken, path), path[-1]
    action = draw(st.sampled_from(("replace", "replace", "remove", "add", "rename")))
    if action == "replace":
        parent[key] = draw(st.sampled_from(NASTY))
    elif action == "remove":
        del parent[key]
    elif isinstance(parent, dict) and action == "add":
        parent[draw(st.sampled_from(("", "unknown", "名", "a" * 300, "run", "suspend")))] = draw(st.sampled_from(NASTY))
    elif isinstance(parent, dict):
        parent[str(draw(st.sampled_from(NASTY)))] = parent.pop(key)
    else:
        parent.append(draw(st.sampled_from(NASTY)))
    return broken


@st.composite
def mutations(draw: st.DrawFn) -> tuple[Data, Data]:
    """A cluster and a run, of which one or both are broken in one or two places."""
    cluster, run = draw(pairs())
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)):
            run = draw(_mutated(run))
        else:
            cluster = draw(_mutated(cluster))
    return cluster, run
