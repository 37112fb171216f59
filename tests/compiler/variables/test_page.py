"""docs/variables.md is the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trainwright.variables import Entry, Library
from trainwright.variables.rows import FAMILIES, VARIABLES

PAGE = Path(__file__).resolve().parents[3] / "docs" / "variables.md"


def test_the_page_is_the_catalogue() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for table in tables():
        assert table in page, f"docs/variables.md is not what the catalogue says; this should be in it:\n{table}"


def test_the_page_names_nothing_else() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| [`")]
    documented = [entry for entry in VARIABLES.values() if entry.documented]
    assert len(rows) == len(documented) + len(FAMILIES)


def tables() -> Iterator[str]:
    """A table for each library, one of what is internal to NCCL, one of families."""
    for library in Library:
        entries = [entry for entry in VARIABLES.values() if entry.library is library and entry.documented]
        head = f"## {library.value}\n\n| variable | what | values | since | caution |\n|---|---|---|---|---|"
        yield "\n".join([head, *(row(entry) for entry in entries)])
    internal = [entry for entry in VARIABLES.values() if not entry.documented]
    yield "## Read by NCCL, not documented\n\n" + ", ".join(f"`{entry.name}`" for entry in internal)
    lines = [f"| [`{family.stem}_…`]({family.source}) | {family.what} |" for family in FAMILIES]
    yield "\n".join(["## Families\n\n| names | what |\n|---|---|", *lines])


def row(entry: Entry) -> str:
    cells = (f"[`{entry.name}`]({entry.source})", entry.what, str(entry.values), entry.since or "", caution(entry))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def caution(entry: Entry) -> str:
    """Why it deserves a finding, and what to do."""
    if entry.dead:
        return f"{entry.dead}; {entry.instead}"
    if entry.deprecated:
        return f"{entry.deprecated}; {entry.instead}"
    if entry.risk:
        but = f" (not with {', '.join(entry.risk.harmless)})" if entry.risk.harmless else ""
        return f"{entry.risk.reason}{but}"
    return ""
