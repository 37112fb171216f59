"""Comments in files, each with the place that it is about, and that place's in a run."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trainwright.findings.locate import at, tokens
from trainwright.importing.words import Data
from trainwright.validate.manifests import Manifest
from trainwright.variables.secret import has_secret

_SIGN = re.compile(r"(?:^|(?<=\s))#")


class Comment(NamedTuple):
    """A comment, or several that follow one another."""

    line: int
    """The last one, from 1."""
    lines: tuple[str, ...]
    """Without the sign."""
    alone: bool
    """Whether nothing else is on its line."""


Remarks = Mapping[str, tuple[str, ...]]
"""Pointer in a run -> the lines of what is said about it."""


def comments_in(text: str) -> list[Comment]:
    """All comments of a YAML text; none of one that libyaml does not read."""
    spans = _scalars(text)
    if spans is None:
        return []
    starts = [start for start, _ in spans]
    found: list[Comment] = []
    offset = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        for sign in _SIGN.finditer(line):
            place = bisect_right(starts, offset + sign.start()) - 1
            if place >= 0 and offset + sign.start() < spans[place][1]:
                continue
            said, alone = line[sign.end() :].rstrip(), not line[: sign.start()].strip()
            before = found[-1] if found else None
            if alone and before and before.alone and before.line == number - 1:
                found[-1] = Comment(number, (*before.lines, said), True)
            else:
                found.append(Comment(number, (said,), alone))
            break
        offset += len(line)
    return found


def _scalars(text: str) -> list[tuple[int, int]] | None:
    """Where scalars begin and end, in characters."""
    try:
        from yaml import CBaseLoader, ScalarEvent, YAMLError
    except ImportError:
        return None
    spans, loader = [], CBaseLoader(text.replace("\r\n", " \n"))
    try:
        while (event := loader.get_event()) is not None:
            if isinstance(event, ScalarEvent):
                spans.append((event.start_mark.index, event.end_mark.index))
    except (YAMLError, ValueError):
        return None
    finally:
        loader.dispose()
    return spans


def remarks(manifest: Manifest, text: str, data: Data, sources: Mapping[str, str]) -> Remarks:
    """The comments of one object, by what they are about in its run. What the run does not say has no comment there."""
    lines: dict[int, list[str]] = {}
    for pointer, (line, _) in manifest.document.positions.items():
        if pointer.startswith(manifest.pointer):
            lines.setdefault(line, []).append(pointer.removeprefix(manifest.pointer))
    if not lines:
        return {}
    ordered, first = sorted(lines), min(lines)
    begins = _begins(text, first)
    found: dict[str, tuple[str, ...]] = {}
    for comment in comments_in(text):
        if not begins <= comment.line <= ordered[-1] or any(map(has_secret, comment.lines)):
            continue
        line = comment.line
        if comment.alone:
            place = bisect_right(ordered, comment.line)
            if place == len(ordered):
                continue
            line = _about(text.splitlines(), comment, ordered[:place], ordered[place])
        about = lines.get(line, [])
        if not about:
            continue
        pointer = min(about, key=len) if comment.alone else max(about, key=len)
        here = "" if comment.alone and line == first else _in_run(pointer, data, sources)
        said = _of_use(comment.lines, pointer)
        if here is None or not said:
            continue
        known = found.get(here, ())
        if known[-len(said) :] != said:
            found[here] = (*known, *said)
    return found


def _of_use(lines: tuple[str, ...], pointer: str) -> tuple[str, ...]:
    """What says something of the run: without fields that are commented out, commands for the original's objects, and what only
    says which field of Kubernetes stands there. Depth is the original's too.
    """
    said = [line for line in lines if not (_FIELD.fullmatch(line) or _COMMAND.search(line))]
    while said and not said[-1].strip():
        said.pop()
    whole = " ".join(said)
    if _OF_A_FIELD.match(whole) or not set(_WORD.findall(whole.lower())) - _STRUCTURE or _speaks_of(pointer, whole):
        return ()
    depth = min(len(line) - len(line.lstrip()) for line in said if line.strip())
    framed = any(line.startswith("#") for line in said)
    return tuple(said) if framed else tuple(f" {line[depth:]}".rstrip() for line in said)


_FIELD = re.compile(r"""\s*(- )*[a-z][A-Za-z./-]*:(\s+["']?[^\s"'{}]+["']?)?\s*""")
_COMMAND = re.compile(r"\bkubectl (apply|create|get|describe|logs|delete|exec|port-forward)\b")
_OF_A_FIELD = re.compile(r"\s*[A-Za-z]+ (specifies|describes|defines|represents) ")
_WORD = re.compile(r"[a-z]+")
_STRUCTURE = frozenset({
    "a", "an", "all", "and", "container", "containers", "for", "group", "head", "in", "job", "launcher", "master", "of", "pod",
    "pods", "ray", "replica", "replicas", "section", "spec", "specification", "template", "templates", "the", "this", "type",
    "typed", "volume", "volumes", "worker", "workers",
})  # fmt: skip
"""Words of which a comment says nothing that the keys of a run do not say."""


def _speaks_of(pointer: str, text: str) -> bool:
    """Whether a comment names the field that it stands at, which is one that runs do not have."""
    key = tokens(pointer)[-1:]
    return bool(key and re.search("[a-z][A-Z]", key[0]) and re.search(rf"\b{re.escape(key[0])}\b", text))


def _about(lines: list[str], comment: Comment, before: list[int], after: int) -> int:
    """The line that a comment of its own line is about: the next one; or the key of what it ends, where that next one stands
    further out, or where an item of a list is commented out behind the others.
    """
    depths = {one: len(lines[one - 1]) - len(lines[one - 1].lstrip(" ")) for one in (*before, comment.line, after)}
    items = {one for one in depths if lines[one - 1].lstrip().startswith("- ")}
    depth, ends_list = depths[comment.line], comment.lines[0].lstrip().startswith("- ") and after not in items
    if depths[after] > depth or (depths[after] == depth and not ends_list):
        return after
    keys = (one for one in reversed(before) if depths[one] < depth or (ends_list and depths[one] == depth and one not in items))
    return next(keys, after)


def _begins(text: str, first: int) -> int:
    """The line where the document of an object begins: its comments may stand before its first key."""
    lines = text.splitlines()[: first - 1]
    marker = next((number for number in range(len(lines), 0, -1) if lines[number - 1].startswith("---")), 0)
    return marker + 1


def _in_run(pointer: str, data: Data, sources: Mapping[str, str]) -> str | None:
    """Where a run says what stands at a pointer of the object, or what is below it, or what it is in."""
    there = {here: source for here, source in sources.items() if at(data, here) is not None}
    exact = [here for here, source in there.items() if source == pointer]
    below = [here for here, source in there.items() if source.startswith(f"{pointer}/")]
    if exact:
        return _common(exact)
    for here, source in sorted(there.items(), key=lambda one: -len(one[1])):
        if pointer.startswith(f"{source}/") and source:
            inner = here + pointer.removeprefix(source)
            return inner if at(data, inner) is not None else here
    return next(iter(_in_order(below, data)), None)


def _common(pointers: list[str]) -> str:
    """What they are all in, if that is not the whole run; else the first."""
    parts = [one.split("/") for one in pointers]
    shared = [each[0] for each in zip(*parts, strict=False) if len(set(each)) == 1]
    return "/".join(shared) if len(shared) > 1 else pointers[0]


def _in_order(pointers: list[str], data: Data) -> Iterator[str]:
    places = {key: number for number, key in enumerate(data)}
    yield from sorted(pointers, key=lambda one: places.get(one.split("/")[1], 0))
