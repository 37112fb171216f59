"""What pydantic refuses, as findings: each thing to fix once, on its line, in the words of the person who wrote the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from trainwright import model as names
from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import dotted, pointer_to
from trainwright.model import closest
from trainwright.reading.document import MOST_FINDINGS, shorten
from trainwright.reading.scalar import ScalarError, read_scalar
from trainwright.reading.shape import WORDS, Keys, Slot, find_spot, homes, shape_of, wanted
from trainwright.reading.words import Word, key_word, value_word
from trainwright.units import counted, in_quotes, literal
from trainwright_trainer.contract.base import AbsolutePath, MountPath, PlacedError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


_LONGEST_PATH = 100
"""Keys that a place names: pydantic looks 250 deep."""


Words = tuple[str, str, str]
"""Code, message and fix of a finding."""


class Foreign(NamedTuple):
    """A word of other tools that stands in a document."""

    row: Word
    keys: Keys
    value: object
    is_value: bool = False
    """Whether the value is the word, and not the last key."""

    def words(self) -> Words:
        code, message = "TW107", f"`{dotted(self.keys)}` cannot be {_shown(self.value)}"
        if not self.is_value:
            above = self.keys[:-1]
            code, message = "TW105", f"there is no key `{self.keys[-1]}` {f'in {dotted(above)}' if above else 'at the top level'}"
        return code, f"{message}: {self.row.here}", self.row.fix(self.keys, self.value)


class Case(NamedTuple):
    """One error with all that is known of its place."""

    kind: str
    """As pydantic calls it."""
    context: Mapping[str, Any]
    """Its numbers and words."""
    said: str
    """Its message."""
    root: Slot
    keys: Keys
    slot: Slot
    """What belongs there."""
    owner: Slot
    """What has, or does not have, the last key."""
    is_key: bool
    """Whether the key itself is wrong, not its value."""
    value: object
    """What the document holds there."""
    siblings: Mapping[str, object]
    """The mapping that holds, or misses, the last key."""

    @property
    def place(self) -> Keys:
        """Where to point: at the value, at the key that chooses the kind of a mapping where that is wrong, or at the key that a
        validator of a whole mapping names.
        """
        if isinstance(error := self.context.get("error"), PlacedError):
            return (*self.keys, *error.keys)
        chooser = self.slot.chooser if self.kind == "union_tag_invalid" else None
        return (*self.keys, chooser) if chooser else self.keys[:_LONGEST_PATH]

    @property
    def name(self) -> str:
        return dotted(self.keys)

    @property
    def foreign(self) -> Foreign | None:
        """A word of other tools: the key that is not known, one below a mapping of no known form, or the value."""
        title = str(self.root.schema.get("title", ""))
        if self.kind in ("extra_forbidden", "unexpected_keyword_argument"):
            row = key_word(title, self.keys)
            here = any(home.is_at(self.keys[:-1]) for home in homes(self.root).get(str(self.keys[-1]), ()))
            return Foreign(row, self.keys, self.value) if row and (row.at or not here) else None
        if self.is_key or self.kind == "value_error":  # one of our own validators says it better
            return None
        if self.kind == "union_tag_not_found" and isinstance(self.value, Mapping):
            below = (((*self.keys, key), value) for key, value in self.value.items() if isinstance(key, str))
            rows = (Foreign(row, keys, value) for keys, value in below if (row := key_word(title, keys)))
            return next(rows, None)
        by_tag = self.kind == "union_tag_invalid"
        value = self.value.get(self.place[-1]) if by_tag and isinstance(self.value, Mapping) else self.value
        row = value_word(title, self.place, value)
        return Foreign(row, self.place, value, is_value=True) if row else None

    @property
    def subject(self) -> str:
        return f"the key `{self.name}`" if self.is_key else f"`{self.name}`"


def as_findings(
    error: ValidationError, model: type[BaseModel] | None, data: object, where: Callable[[str], Where]
) -> list[Finding]:
    """The findings of a validation error, of its first 50 parts, sorted by line.

    Args:
        error: what pydantic raised.
        model: what was validated, where it is known.
        data: what it was validated from.
        where: the place of a JSON pointer into the data.
    """
    root = shape_of(model)
    cases = [_case(detail, root, data) for detail in error.errors(include_url=False)[:MOST_FINDINGS]]
    unknown = [case for case in cases if case.kind == "extra_forbidden"]
    misspelt = {(*case.keys[:-1], near) for case in unknown if not case.foreign and (near := _meant(case))}
    misspelt |= {keys for case in unknown if case.foreign for keys in case.foreign.row.stated(case.keys)}
    answered = {case.keys[:-1] for case in unknown if case.foreign and _has_forms(find_spot(root, case.keys[:-1])[1])}
    findings = []
    for case in cases:
        if _is_long_enough(case):  # pydantic counts the items that it takes, and each of the others is said
            continue
        # a misspelt key is also a missing one, and one of no form leaves another form's key missing: that is said once
        if case.kind != "missing" or (case.keys not in misspelt and case.keys[:-1] not in answered):
            foreign = case.foreign
            code, message, fix = foreign.words() if foreign else _WORDING.get(case.kind, _other)(case)
            place = where(pointer_to(foreign.keys if foreign else case.place))
            findings.append(found(code, place, shorten(message), shorten(fix)))
    return sorted(dict.fromkeys(findings), key=lambda finding: (finding.where.line or 0, finding.where.column or 0))


def _has_forms(slot: Slot) -> bool:
    """Whether its keys say which of several mappings it is, as of a mount."""
    return slot.chooser is None and len(slot.members) > 1


def _is_long_enough(case: Case) -> bool:
    if case.kind != "too_short" or not isinstance(case.value, list | tuple | Mapping):
        return False
    return len(case.value) >= int(case.context["min_length"])


def _case(error: ErrorDetails, root: Slot, data: object) -> Case:
    keys, slot, owner, is_key = find_spot(root, error["loc"])
    above = _at(data, keys[:-1])
    siblings = vars(above) if isinstance(above, BaseModel) else above if isinstance(above, Mapping) else {}
    return Case(
        error["type"], error.get("ctx", {}), error["msg"], root, keys, slot, owner, is_key, _at(data, keys), siblings,
    )


def _at(data: object, keys: Keys) -> object:
    """The value below the keys; None where there is none."""
    for key in keys:
        if isinstance(data, Mapping):
            data = data.get(key)
        elif isinstance(data, list | tuple) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            data = getattr(data, key, None) if isinstance(data, BaseModel) and isinstance(key, str) else None
    return data


def _shown(value: object) -> str:
    """A refused value, short enough for a message."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str) and (not value or value != value.strip()):
        return f'"{value[:60]}"'
    text = literal(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


# Keys.


def _meant(case: Case) -> str | None:
    """For an unknown key without a place elsewhere: the known and free key that it may be a misspelling of."""
    key = str(case.keys[-1])
    if key in homes(case.root):
        return None
    return closest(key, [name for name in case.owner.fields if name not in case.siblings])


def _unknown(case: Case) -> Words:
    key, above = str(case.keys[-1]), case.keys[:-1]
    message = f"there is no key `{key}` {f'in {dotted(above)}' if above else 'at the top level'}"
    if near := _meant(case):
        return "TW105", message, f"did you mean `{near}`?"
    elsewhere = homes(case.root).get(key, ())
    here = [home for home in elsewhere if home.is_at(above)]
    if kinds := [home.kind for home in here if home.kind]:
        return "TW105", message, f"remove it: it is a key of {' and of '.join(kinds)}"
    if here:
        beside = [name for name in case.siblings if name in case.owner.required and not _in_both(case, key, name)]
        return "TW105", message, f"remove it{_beside(case, key, beside[0]) if beside else ''}"
    if elsewhere:
        paths = [home.path for home in elsewhere]
        said = dict.fromkeys(home._replace(kind="") if paths.count(home.path) > 1 else home for home in elsewhere)
        homes_first = sorted(said, key=lambda home: "<name>" in home.path)  # before those of mappings that the run may not have
        return "TW105", message, f"move it to {', or to '.join(map(str, homes_first[:3]))}"
    return "TW105", message, f"remove it; known keys: {', '.join(case.owner.fields) or 'none'}"


def _in_both(case: Case, key: str, name: str) -> bool:
    """Whether a form that needs one key has the other too, as each container has a kind."""
    parts = case.owner.parts.values()
    return any(key in part.get("required", ()) and name in part.get("properties", {}) for part in parts)


def _beside(case: Case, key: str, chosen: str) -> str:
    """Why a key has no place beside the one that makes a mapping what it is: a mount is a claim or scratch space, and never both;
    and one of a Secret needs no `read_only`.
    """
    if any(key in part.get("required", ()) for part in case.owner.parts.values()):
        return f", or `{chosen}`: only one of the two can stand here"
    text = str(case.owner.schema.get("description", "")).partition("\n")[0].rstrip(".")
    return f"; `{chosen}: …` stands for {text[:1].lower()}{text[1:]}" if text else ""


def _missing(case: Case) -> Words:
    key, parent = case.keys[-1] if case.keys else "", dotted(case.keys[:-1])
    if isinstance(key, int):
        return "TW106", f"`{parent}` needs one more item", f"add {wanted(case.slot)}"
    message = f"`{parent}` has no key `{key}`" if len(case.keys) > 1 else f"key `{key}` is missing"
    return "TW106", message, f"add `{key}: …` ({wanted(case.slot)})"


# Kinds of mappings, and words of a list.


def _no_tag(case: Case) -> Words:
    key, tags = case.slot.chooser, case.slot.tags()
    if key is None:
        ways = [f"`{', '.join(f'{name}: …' for name in each.required)}`" if each.name else "text" for each in tags.values()]
        return "TW107", f"`{case.name}` has none of the forms that it can have", f"write {', '.join(ways[:-1])} or {ways[-1]}"
    if isinstance(case.value, Mapping):
        near = closest(key, map(str, case.value))
        rename = f" instead of `{near}`" if near and near != key else ""
        return "TW106", f"`{case.name}` has no key `{key}`", f"add `{key}: …`{rename}, one of {', '.join(tags)}"
    return _wrong(case, "a mapping", f"write `{key}: …` below it, one of {', '.join(tags)}")


def _unknown_tag(case: Case) -> Words:
    tag = case.value.get(case.slot.chooser) if isinstance(case.value, Mapping) else None
    return _choice(dotted(case.place), tag, list(case.slot.tags()))


def _literal(case: Case) -> Words:
    if case.is_key:
        key = str(case.keys[-1])
        known = _ELSEWHERE.get((dotted(case.keys[:-1]), key)) or _one_of(key, case.owner.keys)
        return "TW107", f"`{dotted(case.keys[:-1])}` knows no `{key[:60]}`", known
    return _choice(case.name, case.value, case.slot.values)


_ELSEWHERE = {
    ("operators", "volcano"): "write `scheduling: {gang: volcano, version: …}` beside operators",
    ("operators", "kueue"): "write `kueue: {version: …}` beside operators",
}
"""What is installed as an operator is, and is a part of the profile of its own."""


def _choice(name: str, value: object, allowed: list[str]) -> Words:
    return "TW107", f"`{name}` cannot be {_shown(value)}", _one_of(value, allowed)


def _one_of(value: object, allowed: list[str]) -> str:
    """What to write where only a few words are allowed."""
    if len(allowed) < 2:
        return f"write {', '.join(allowed)}"
    near = closest(value, allowed) if isinstance(value, str) else None
    return f"did you mean {near}? Allowed: {', '.join(allowed)}" if near else f"write one of {', '.join(allowed)}"


# Types.

_WRITTEN_BOOL = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}


def _type(case: Case) -> Words:
    kind, value = case.kind.partition("_")[0], case.value
    fix = f"write {wanted(case.slot)}"
    if value is None and WORDS[kind] in ("a mapping", "a list"):
        return "TW107", f"`{case.name}` is empty", f"{fix}, or remove the key"
    if kind == "date":
        return _wrong(case, "a day of the calendar", "write year, month and day, such as 2026-03-31")
    if kind == "string" and isinstance(value, int | float | bool):
        fix = in_quotes(value)
    elif kind == "int" and isinstance(value, float) and value.is_integer():
        fix = f"write {int(value)}"
    elif isinstance(value, str):
        fix = _fix_of_text(kind, value) or fix
    return _wrong(case, WORDS[kind], fix)


def _fix_of_text(kind: str, text: str) -> str | None:
    """What a text was meant to be, where another type is wanted."""
    if kind == "bool" and text.lower() in _WRITTEN_BOOL:
        return f"write {_WRITTEN_BOOL[text.lower()]}"
    if kind in ("int", "float") and _is_number(text, kind):
        return f"write {text} without quotes"
    if kind in ("list", "tuple"):
        return f"write [{', '.join(text.split()) if len(text) <= 60 else '…'}]"
    return None


def _is_number(text: str, kind: str) -> bool:
    """Whether YAML reads a plain text as a number of that kind."""
    try:
        return type(read_scalar(text)) in ((int,) if kind == "int" else (int, float))
    except ScalarError:
        return False


def _wrong(case: Case, kind: str, fix: str) -> Words:
    quoted = isinstance(case.value, str) and kind != "text" and len(case.value) <= 60
    written = f'"{case.value}"' if quoted else _shown(case.value)
    return "TW107", f"`{case.name}` must be {kind}, not {written}", fix


# Bounds, lengths and patterns.


def _bound(relation: str, key: str, hint: str) -> Callable[[Case], Words]:
    def words(case: Case) -> Words:
        bound = f"{case.context[key]:,}" if isinstance(case.context[key], int) else f"{case.context[key]:g}"
        return "TW107", f"`{case.name}` must be {relation} {bound}, not {_shown(case.value)}", f"write {hint.format(bound)}"

    return words


def _length(relation: str, key: str, unit: str) -> Callable[[Case], Words]:
    def words(case: Case) -> Words:
        value = case.keys[-1] if case.is_key else case.value
        size = len(value) if isinstance(value, str | list | tuple | Mapping) else 0
        message = f"{case.subject} {f'has {counted(size, unit)}' if size else 'is empty'}"
        return "TW107", message, f"write {relation} {counted(case.context[key], unit)}"

    return words


_DNS = "lower case letters, digits and dashes, with a letter first and no dash last"
_PATTERNS = (
    (names.DnsLabel, _DNS),
    (names.DnsSubdomain, "lower case letters, digits, dashes and dots, with a letter or digit first and last"),
    (names.QualifiedName, "letters, digits, dashes, dots and underscores, with an optional prefix such as example.com/"),
    (names.LabelValue, "letters, digits, dashes, dots and underscores, with a letter or digit first and last"),
    (names.EnvName, "letters, digits and underscores, with no digit first"),
    (AbsolutePath, "an absolute path such as /data"),
    (MountPath, "an absolute path such as /data, without a colon and without a slash at its end"),
    (names.NodePath, "an absolute path such as /data, without a colon and without a slash at its end"),
)
_PATTERN_WORDS = {item.pattern: words for alias, words in _PATTERNS for field in get_args(alias)[1:]
                  for item in field.metadata if hasattr(item, "pattern")}


def _pattern(case: Case) -> Words:
    pattern = str(case.context.get("pattern", ""))
    value = str(case.keys[-1]) if case.is_key else case.value
    words = _PATTERN_WORDS.get(pattern)
    examples = "" if case.is_key else " or ".join(map(str, case.slot.schema.get("examples", ())))
    form = f"be {words}" if words else f"be written as in {examples}" if examples else f"have the form {pattern}"
    message = f"{case.subject} must {form}, not {_shown(value)}"
    candidate = _repaired(value) if isinstance(value, str) else ""
    if candidate and candidate != value and _matches(pattern, candidate):
        return "TW107", message, f"write {candidate}"
    return "TW107", message, f"write {words or (f'a value such as {examples}' if examples else 'a value of that form')}"


def _repaired(value: str) -> str:
    """What the writer may have meant: a name in lower case with dashes, or a path without its last slash. Other signs may mean
    something, so nothing is said of a text that has any.
    """
    if not re.fullmatch(r"[A-Za-z0-9._\s/-]*", value):
        return ""
    return value.rstrip("/") if value.startswith("/") else re.sub(r"[^a-z0-9.]+", "-", value.lower()).strip("-.")


def _matches(pattern: str, candidate: str) -> bool:
    try:
        return re.search(pattern, candidate) is not None
    except re.error:  # pydantic's patterns are Rust's, a little different from Python's
        return False


# Everything else.


def _value_error(case: Case) -> Words:
    """An error that one of our own validators raised: its text is for people, and may carry its fix."""
    error = case.context.get("error")
    message, fix = str(error), getattr(error, "fix", "")
    if not fix:
        message, _, fix = message.partition("; ")
    place = f"`{case.name}`: " if case.keys else ""
    return "TW107", f"{place}{message}", fix or f"change the keys of {dotted(case.keys)} so that they agree"


def _not_json(case: Case) -> Words:
    return "TW107", f"`{case.name}` is nothing that JSON can hold", "use text, finite numbers, true, false, lists and dicts only"


def _too_deep(case: Case) -> Words:
    return "TW107", f"`{case.name}` holds itself, or too many mappings and lists inside each other", "write it with fewer levels"


def _other(case: Case) -> Words:
    """An error of an unknown kind keeps pydantic's message."""
    if case.kind.partition("_")[0] in WORDS:
        return _type(case)
    message = case.said.replace("Input should be", "must be")
    return "TW107", f"`{case.name}` {message[:1].lower()}{message[1:]}", f"write {wanted(case.slot)}"


_WORDING: dict[str, Callable[[Case], Words]] = {
    "extra_forbidden": _unknown,
    "unexpected_keyword_argument": _unknown,
    "missing": _missing,
    "union_tag_not_found": _no_tag,
    "union_tag_invalid": _unknown_tag,
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
    "invalid-json-value": _not_json,
    "recursion_loop": _too_deep,
    "json_invalid": _too_deep,
}
"""Kind of an error of pydantic -> what is said of it."""
