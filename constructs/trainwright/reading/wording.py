"""One error of pydantic in the words of the person who wrote the file: what is wrong, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic_core import ErrorDetails

from trainwright import model as names
from trainwright.reading.document import shorten
from trainwright.reading.shape import Keys, Slot, Spot, closest, homes, literal, wanted


@dataclass(frozen=True, slots=True)
class Retired:
    reason: str
    instead: str


_MXNET = Retired(
    "MXNet was retired to the Apache Attic in 2023, and the Kubeflow Training Operator dropped MXJob",
    "train in torch: topology {kind: ddp, …}; the other topologies are in docs/topologies.md",
)

RETIRED: dict[str, Retired] = {"mxnet": _MXNET, "mxjob": _MXNET}
"""By name, in lower case and without dashes."""


def retired(value: object) -> Retired | None:
    """What became of a topology or target of this name; None for any other value."""
    return RETIRED.get(value.lower().replace("-", "").replace("_", "")) if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Words:
    """A finding's own part."""

    code: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Case:
    """One error with all that is known of its place."""

    error: ErrorDetails
    spot: Spot
    root: Slot
    value: object
    """What the document holds there."""
    siblings: Mapping[str, object]
    """The mapping that holds, or misses, the last key."""

    @property
    def context(self) -> dict[str, Any]:
        return self.error.get("ctx", {})

    @property
    def place(self) -> Keys:
        """Where to point: at the value, or at the key that chooses the kind of a mapping where that is wrong."""
        chooser = self.spot.slot.plain.discriminator if self.error["type"] == "union_tag_invalid" else None
        return (*self.spot.keys, chooser) if chooser else self.spot.keys

    @property
    def name(self) -> str:
        return dotted(self.spot.keys)


def say(case: Case) -> Words:
    """The words for an error; one of an unknown kind keeps pydantic's message."""
    kind = case.error["type"]
    words = _SAY[kind](case) if kind in _SAY else _type(case) if kind in _TYPES else _other(case)
    return Words(words.code, shorten(words.message), shorten(words.fix))


def dotted(keys: Keys) -> str:
    """A path as people write it: ``workload.model.hidden_size``, ``mounts["/data"].claim``, ``waivers[0]``."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", key):
            text += f".{key}" if text else key
        else:
            text += f'["{key[:60]}"]'
    return text or "the document"


def meant(case: Case) -> str | None:
    """For an unknown key without a place elsewhere: the known and free key that it may be a misspelling of."""
    key, owner = str(case.spot.keys[-1]), case.spot.owner
    if owner is None or next(homes(case.root, key), None):
        return None
    return closest(key, [name for name in owner.model_fields if name not in case.siblings])


def shown(value: object) -> str:
    """A refused value, short enough for a message."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str) and (not value or value != value.strip()):
        return f'"{value[:60]}"'
    text = literal(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _unknown(case: Case) -> Words:
    key, owner = str(case.spot.keys[-1]), case.spot.owner
    place = f"in {dotted(case.spot.keys[:-1])}" if len(case.spot.keys) > 1 else "here"
    message = f"there is no key `{key}` {place}"
    near = meant(case)
    if near:
        return Words("TW105", message, f"did you mean `{near}`?")
    elsewhere = list(dict.fromkeys(homes(case.root, key)))
    here = f"`{dotted(case.spot.keys[:-1])}` (of "
    others = [home.removeprefix(here)[:-1] for home in elsewhere if home.startswith(here)]
    if others:
        return Words("TW105", message, f"remove it: it is a key of {' and of '.join(others)}")
    if elsewhere:
        return Words("TW105", message, f"move it to {', or to '.join(elsewhere[:3])}")
    known = ", ".join(owner.model_fields) if owner else "none"
    return Words("TW105", message, f"remove it; known keys: {known}")


def _missing(case: Case) -> Words:
    key = case.spot.keys[-1] if case.spot.keys else ""
    if isinstance(key, int):
        return Words("TW106", f"`{dotted(case.spot.keys[:-1])}` needs one more item", f"add {wanted(case.spot.slot)}")
    message = f"`{dotted(case.spot.keys[:-1])}` has no key `{key}`" if len(case.spot.keys) > 1 else f"key `{key}` is missing"
    return Words("TW106", message, f"add `{key}:` with {wanted(case.spot.slot)}")


def _tag_missing(case: Case) -> Words:
    key, tags = case.spot.slot.plain.discriminator or "kind", case.spot.slot.tags()
    if isinstance(case.value, Mapping):
        near = closest(key, map(str, case.value))
        rename = f" instead of `{near}`" if near and near != key else ""
        return Words("TW106", f"`{case.name}` has no key `{key}`", f"add `{key}: …`{rename}, one of {', '.join(tags)}")
    return _wrong(case, "a mapping", f"write `{key}: …` below it, one of {', '.join(tags)}")


def _tag_unknown(case: Case) -> Words:
    key = case.spot.slot.plain.discriminator or "kind"
    tag = case.value.get(key) if isinstance(case.value, Mapping) else None
    return _choice(dotted(case.place), tag, list(case.spot.slot.tags()))


def _literal(case: Case) -> Words:
    return _choice(case.name, case.value, [literal(value) for value in get_args(case.spot.slot.plain.annotation)])


def _choice(name: str, value: object, allowed: list[str]) -> Words:
    if gone := retired(value):
        return Words("TW107", f"`{name}` cannot be {shown(value)}: {gone.reason}", gone.instead)
    near = closest(value, allowed) if isinstance(value, str) else None
    options = f"one of {', '.join(allowed)}" if len(allowed) > 1 else ", ".join(allowed)
    fix = f"did you mean {near}? Allowed: {', '.join(allowed)}" if near and len(allowed) > 1 else f"write {options}"
    return Words("TW107", f"`{name}` cannot be {shown(value)}", fix)


_TYPES = {
    "string_type": "text", "int_type": "a whole number", "int_parsing": "a whole number", "int_from_float": "a whole number",
    "float_type": "a number", "float_parsing": "a number", "bool_type": "true or false", "bool_parsing": "true or false",
    "dict_type": "a mapping", "model_type": "a mapping", "model_attributes_type": "a mapping", "list_type": "a list",
    "tuple_type": "a list", "date_type": "a day", "date_parsing": "a day", "date_from_datetime_parsing": "a day",
    "date_from_datetime_inexact": "a day", "finite_number": "a finite number",
}
_WRITTEN_BOOL = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def _type(case: Case) -> Words:
    kind, value = _TYPES[case.error["type"]], case.value
    if value is None and kind in ("a mapping", "a list"):
        return Words("TW107", f"`{case.name}` is empty", f"write {wanted(case.spot.slot)}, or remove the key")
    if kind == "text" and isinstance(value, int | float | bool):
        return _wrong(case, kind, f'write "{literal(value)}" in quotes')
    if kind == "true or false" and isinstance(value, str) and value.lower() in _WRITTEN_BOOL:
        return _wrong(case, kind, f"write {_WRITTEN_BOOL[value.lower()]}")
    if kind == "a whole number" and isinstance(value, float) and value.is_integer():
        return _wrong(case, kind, f"write {int(value)}")
    if isinstance(value, str) and "number" in kind and re.fullmatch(r"[0-9]+" if "whole" in kind else r"[-+0-9.eE]*[0-9]", value):
        return _wrong(case, kind, f"write {value} without quotes")
    if kind == "a list" and isinstance(value, str):
        return _wrong(case, kind, f"write [{', '.join(value.split()) if len(value) <= 60 else '…'}]")
    if kind == "a day":
        return _wrong(case, "a day of the calendar", "write year, month and day, such as 2026-03-31")
    return _wrong(case, kind, f"write {wanted(case.spot.slot)}")


def _wrong(case: Case, kind: str, fix: str) -> Words:
    quoted = isinstance(case.value, str) and kind != "text" and len(case.value) <= 60
    written = f'"{case.value}"' if quoted else shown(case.value)
    return Words("TW107", f"`{case.name}` must be {kind}, not {written}", fix)


def _bound(relation: str, key: str, hint: str) -> Callable[[Case], Words]:
    def words(case: Case) -> Words:
        bound = f"{case.context[key]:,}" if isinstance(case.context[key], int) else f"{case.context[key]:g}"
        return Words("TW107", f"`{case.name}` must be {relation} {bound}, not {shown(case.value)}", f"write {hint.format(bound)}")

    return words


def _length(relation: str, key: str, unit: str) -> Callable[[Case], Words]:
    def words(case: Case) -> Words:
        name, count = case.name, case.context[key]
        subject = f"the key `{name}`" if case.spot.is_key else f"`{name}`"
        size = "is empty" if not case.value and not case.spot.is_key else f"has {_size(case)}"
        return Words("TW107", f"{subject} {size}", f"write {relation} {_count(count, unit)}")

    return words


def _size(case: Case) -> str:
    value = case.spot.keys[-1] if case.spot.is_key else case.value
    length = len(value) if isinstance(value, str | list | tuple | Mapping) else 0
    return _count(length, "character" if isinstance(value, str) else "item")


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}" if number == 1 else f"{number:,} {unit}s"


_DNS = "lower case letters, digits and dashes, with a letter first and no dash last"
_PATTERN_WORDS: tuple[tuple[Any, str], ...] = (
    (names.DnsLabel, _DNS),
    (names.DnsSubdomain, "lower case letters, digits, dashes and dots, with a letter or digit first and last"),
    (names.QualifiedName, "letters, digits, dashes, dots and underscores, with an optional prefix such as example.com/"),
    (names.LabelValue, "letters, digits, dashes, dots and underscores, with a letter or digit first and last"),
    (names.EnvName, "letters, digits and underscores, with no digit first"),
    (names.AbsolutePath, "an absolute path such as /data, without a colon and without a slash at its end"),
)


def _pattern_words(pattern: str) -> str | None:
    for alias, words in _PATTERN_WORDS:
        for field in get_args(alias)[1:]:
            if any(getattr(item, "pattern", None) == pattern for item in field.metadata):
                return words
    return None


def _pattern(case: Case) -> Words:
    pattern = str(case.context.get("pattern", ""))
    value = str(case.spot.keys[-1]) if case.spot.is_key else case.value
    words = _pattern_words(pattern)
    subject = f"the key `{case.name}`" if case.spot.is_key else f"`{case.name}`"
    form = f"must be {words}" if words else f"must have the form {pattern}"
    message = f"{subject} {form}, not {shown(value)}"
    candidate = _repaired(value) if isinstance(value, str) else ""
    if candidate and candidate != value and _matches(pattern, candidate):
        return Words("TW107", message, f"write {candidate}")
    return Words("TW107", message, f"write {words}" if words else "write a value of that form")


def _repaired(value: str) -> str:
    """What the writer may have meant: a name in lower case with dashes, or a path without its last slash."""
    return value.rstrip("/") if value.startswith("/") else re.sub(r"[^a-z0-9.]+", "-", value.lower()).strip("-.")


def _matches(pattern: str, candidate: str) -> bool:
    try:
        return re.search(pattern, candidate) is not None
    except re.error:  # pydantic's patterns are Rust's, a little different from Python's.
        return False


def _value_error(case: Case) -> Words:
    """An error that one of our own validators raised: its text is for people, and may carry its fix."""
    error = case.context.get("error")
    message, fix = str(error), getattr(error, "fix", "")
    if not fix:
        message, _, fix = message.partition("; ")
    place = f"`{case.name}`: " if case.spot.keys else ""
    return Words("TW107", f"{place}{message}", fix or f"change the keys of {dotted(case.spot.keys)} so that they agree")


def _other(case: Case) -> Words:
    message = case.error["msg"].replace("Input should be", "must be")
    return Words("TW107", f"`{case.name}` {message[:1].lower()}{message[1:]}", f"write {wanted(case.spot.slot)}")


_SAY: dict[str, Callable[[Case], Words]] = {
    "extra_forbidden": _unknown,
    "unexpected_keyword_argument": _unknown,
    "missing": _missing,
    "union_tag_not_found": _tag_missing,
    "union_tag_invalid": _tag_unknown,
    "literal_error": _literal,
    "greater_than_equal": _bound("at least", "ge", "{} or more"),
    "greater_than": _bound("more than", "gt", "a number above {}"),
    "less_than_equal": _bound("at most", "le", "{} or less"),
    "less_than": _bound("less than", "lt", "a number below {}"),
    "string_too_short": _length("at least", "min_length", "character"),
    "string_too_long": _length("at most", "max_length", "character"),
    "too_short": _length("at least", "min_length", "item"),
    "too_long": _length("at most", "max_length", "item"),
    "string_pattern_mismatch": _pattern,
    "value_error": _value_error,
}
