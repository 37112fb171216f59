"""Every example in the README and the docs is what the program really says, and every table is what the code really holds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.report.schema import described_schema
from trainwright.run import Run
from trainwright_trainer.contract import EXIT_CODES, METRICS, Disposition

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "trainer" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w+)(?: (?P<what>[^\n]+))?\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]+)(#[^)]*)?\)")

ACTIONS = {
    Disposition.DONE: "the index is complete",
    Disposition.PERMANENT: "FailJob: the run ends",
    Disposition.COUNTED: "counted against `restarts`, then tried again",
    Disposition.IGNORED: "Ignore: tried again at no cost",
}


def blocks(kind: str) -> Iterator[tuple[str, str, str]]:
    """Page, what the block shows, and its text, for blocks like ```` ```text plan digits-ddp ````."""
    for page in PAGES:
        for match in FENCE.finditer(page.read_text(encoding="utf-8")):
            if match["language"] == kind and match["what"]:
                yield page.name, match["what"], match["body"]


@pytest.mark.parametrize(("page", "path", "body"), list(blocks("yaml")))
def test_excerpts_are_in_the_file(page: str, path: str, body: str) -> None:
    lines = iter((ROOT / path).read_text(encoding="utf-8").splitlines())
    for line in body.splitlines():
        if line.strip() != "…":
            assert any(line == present for present in lines), f"{page}: {line!r} does not follow in {path}"


@pytest.mark.parametrize(("page", "command", "body"), list(blocks("text")))
def test_outputs_are_what_the_command_prints(page: str, command: str, body: str) -> None:
    executable = Path(sys.executable).with_name("trainwright")
    done = subprocess.run([executable, *command.split()], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == body, f"{page}: the output of trainwright {command} changed"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        target = match["target"]
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_exit_codes_are_the_contract() -> None:
    rows = [
        f"| {int(row.code)} | {row.reason} | {row.meaning} | {ACTIONS[row.disposition]} | {row.remedy} |"
        for row in EXIT_CODES.values()
    ]
    assert_table("| code | reason | meaning | what the Job does | what you do |\n|---|---|---|---|---|", rows)


def test_the_metrics_are_the_contract() -> None:
    rows = [f"| `{row.name}` | {row.kind} | {row.help} |" for row in METRICS.values()]
    assert_table("| metric | type | what, with its unit |\n|---|---|---|", rows)


def assert_table(head: str, rows: list[str]) -> None:
    table = "\n".join([head, *rows])
    page = (ROOT / "docs" / "trainer.md").read_text(encoding="utf-8")
    assert table in page, f"docs/trainer.md is not what the contract says; its table should be:\n{table}"


def test_the_reference_of_a_run_is_the_schema() -> None:
    page = (ROOT / "docs" / "run-file.md").read_text(encoding="utf-8")
    for table in run_tables(described_schema(Run)):
        assert table in page, f"docs/run-file.md is not what the code says; this should be in it:\n{table}"


def run_tables(schema: dict[str, Any]) -> Iterator[str]:
    """A table for the run and for each part of it that has keys of its own."""
    parts = {"A run": schema, **{name: part for name, part in schema["$defs"].items() if "properties" in part}}
    for title, part in parts.items():
        required = part.get("required", [])
        marks = {key: " (required)" if key in required else "" for key in part["properties"]}
        rows = [f"| `{key}`{marks[key]} | {text_of(field)} |" for key, field in part["properties"].items()]
        yield "\n".join([f"## {title}\n", "| key | what |\n|---|---|", *rows])


def text_of(field: dict[str, Any]) -> str:
    names = [name for name in re.findall(r"#/\$defs/(\w+)", json.dumps(field)) if name != "JsonValue"]
    links = " or ".join(f"[{name}](#{name.lower()})" for name in dict.fromkeys(names))
    return ". ".join(part for part in (" ".join(field.get("description", "").split()).rstrip("."), links) if part)
