"""Words that users write: names, labels, texts."""

from __future__ import annotations

import string
from functools import cache
from typing import Any

from hypothesis import strategies as st

from trainwright.manifest.plain import problems

Data = dict[str, Any]

REGISTRY = "registry.example.com"
DIGEST = "sha256:" + "0123456789abcdef" * 4

_LOWER = string.ascii_lowercase
_INNER = _LOWER + string.digits + "-"


@cache
def labels(longest: int = 63) -> st.SearchStrategy[str]:
    """DNS labels that start with a letter, up to a length."""
    inner = st.text(_INNER, max_size=longest - 2)
    ends = st.sampled_from(_LOWER + string.digits)
    longer = st.builds(lambda first, middle, last: first + middle + last, st.sampled_from(_LOWER), inner, ends)
    return st.one_of(longer, st.sampled_from(_LOWER), st.just("n" * longest))


def spelled(alphabet: str, shortest: int = 0) -> st.SearchStrategy[str]:
    """Text letter by letter. ``st.text`` also draws whole words of the loaded code, so commands that rules refuse: deepspeed."""
    return st.lists(st.sampled_from(alphabet), min_size=shortest, max_size=20).map("".join)


@cache
def texts() -> st.SearchStrategy[str]:
    """Text that a person might put into a variable or an argument."""
    return st.one_of(
        # a lone = and the like are refused
        spelled(string.ascii_letters + string.digits + " _-./:=,+%@").filter(
            lambda text: not text.startswith("-") and not any(problems(text))
        ),
        st.sampled_from(
            ("", "0", "1e5", "true", "null", "Zürich", "名前", "🚀 start", "a: b", "# no comment", "'", '"', "\\n", "{x}", "%d")
        ),
    )


@cache
def label_maps() -> st.SearchStrategy[dict[str, str]]:
    """Labels with and without a prefix, with every form of value."""
    keys = st.builds(lambda prefix, name: prefix + name, st.sampled_from(("", "example.com/", "a.b-c.example/")), labels(63))
    values = st.one_of(st.just(""), labels(63), st.sampled_from(("True", "1.0", "A_b-C.d", "1e5")))
    return st.dictionaries(keys, values, max_size=3)
