"""The state of a run, written into its file: one line changes, and every comment and all other text stay."""

from __future__ import annotations

import re
from pathlib import Path

from trainwright.findings import CompileError
from trainwright.reading.document import parse_yaml


class EditError(ValueError):
    """The file is not edited. The message says what to write by hand."""


def with_state(path: Path, shown: str, state: str) -> bytes:
    """A run's file with another state; ``active`` is written as nothing, unless a comment stands beside it.

    A library that writes YAML again keeps comments, and changes quotes, indents and line breaks that nobody asked it to touch.

    Raises:
        EditError: where one line is not enough, or where the file is a module.
        OSError: where it cannot be read.
    """
    if path.suffix == ".py":
        written = f'`state="{state}"`' if state != "active" else "no `state`"
        raise EditError(f"{shown} is Python, which nobody else edits: give its Run {written}")
    text = path.read_bytes().decode("utf-8")
    edited = _edited(text, shown, state)
    expected = {**_data(text, shown), "state": state}
    try:
        differs = {"state": "active", **_data(edited, shown)} != expected
    except CompileError:
        differs = True
    if differs:
        raise EditError(f"{shown} is written in a form that is not edited here: write `state: {state}` into it")
    return edited.encode()


def _data(text: str, shown: str) -> dict[str, object]:
    return parse_yaml(text.removeprefix("\ufeff"), shown).data


def _edited(text: str, shown: str, state: str) -> str:
    positions = parse_yaml(text.removeprefix("\ufeff"), shown).positions
    lines = text.splitlines(keepends=True)
    if "/state" in positions:
        number = positions["/state"][0] - 1
        alone = re.fullmatch(r"state:[ \t]+\S+[ \t]*(\r?\n)?", lines[number])
        if state == "active" and alone:
            del lines[number]
        else:
            lines[number] = re.sub(r"(\bstate[\"']?\s*:\s*)([\"']?)\w+\2", rf"\g<1>{state}", lines[number], count=1)
    elif state != "active":
        number = positions.get("/run", (1, 1))[0] - 1
        end = re.search(r"\r?\n$", lines[number])
        lines[number:number + 1] = [lines[number] if end else f"{lines[number]}\n", f"state: {state}{end[0] if end else chr(10)}"]
    return "".join(lines)
