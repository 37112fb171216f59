"""Findings as data, on a terminal and as JSON."""

from __future__ import annotations

import io
import json
import re
from typing import Literal

import pytest
from rich.console import Console

from trainwright.findings import CompileError, Where
from trainwright.findings.codes import CODES, Code, found
from trainwright.report.finding import render_findings, to_json

PLACE = Where("charts/runs/a.yaml", 3, 5, "/topology/nods")
FINDING = found("TW105", PLACE, "there is no key `nods` in topology", "did you mean `nodes`?")


def _rendered(terminal: bool) -> str:
    stream = io.StringIO()
    colours: Literal["standard"] | None = "standard" if terminal else None
    render_findings([FINDING], Console(file=stream, force_terminal=terminal, width=40, color_system=colours))
    return stream.getvalue()


def test_plain_text_off_a_terminal() -> None:
    assert _rendered(terminal=False).splitlines() == [
        "charts/runs/a.yaml:3:5: error TW105 there is no key `nods` in topology",
        "    why: A misspelt key would be ignored, and the run would not do what it says.",
        "    fix: did you mean `nodes`?",
    ]


def test_colour_on_a_terminal() -> None:
    assert "\x1b[1;31merror" in _rendered(terminal=True)


def test_findings_that_differ_in_their_place_only_are_said_once_with_all_places() -> None:
    others = [FINDING._replace(where=Where(f"charts/runs/{index}.yaml", 3, 5)) for index in range(14)]
    other_words = FINDING._replace(message="there is no key `nod` in topology")
    stream = io.StringIO()
    render_findings([FINDING, others[0], other_words, FINDING, *others[1:]], Console(file=stream, width=40))
    said = stream.getvalue().splitlines()
    assert [line for line in said if not line.startswith(" ")] == [
        f"charts/runs/a.yaml:3:5: error TW105 {finding.message}" for finding in (FINDING, other_words)
    ]
    (also,) = [line for line in said if "also: " in line]
    assert also.startswith("    also: charts/runs/0.yaml:3:5, charts/runs/1.yaml:3:5, ")
    assert also.endswith("charts/runs/9.yaml:3:5 and 4 more places")


def test_a_quoted_file_does_not_steer_the_terminal() -> None:
    stream = io.StringIO()
    finding = found("TW107", Where("a\x1b.yaml"), "`team` cannot be \x1b[2J [bold]x[/bold]\n", "write text")
    render_findings([finding], Console(file=stream, force_terminal=False))
    assert stream.getvalue().splitlines()[0] == r"a\x1b.yaml: error TW107 `team` cannot be \x1b[2J [bold]x[/bold]\n"


def test_as_json() -> None:
    (entry,) = json.loads(json.dumps(to_json([FINDING])))
    assert entry == {
        "code": "TW105", "severity": "error", "file": "charts/runs/a.yaml", "line": 3, "column": 5, "pointer": "/topology/nods",
        "message": FINDING.message, "why": FINDING.why, "fix": FINDING.fix, "waived": None,
    }


@pytest.mark.parametrize(
    ("where", "text"),
    [
        (Where("a.yaml", 3, 5), "a.yaml:3:5"), (Where("a.yaml", 3), "a.yaml:3"), (Where("a.yaml"), "a.yaml"),
        (Where(pointer="/x"), "/x"), (Where(), "/"),
    ],
)
def test_a_place_in_one_word(where: Where, text: str) -> None:
    assert str(where) == text


def test_a_compile_error_says_all_of_it() -> None:
    said = "charts/runs/a.yaml:3:5: TW105: there is no key `nods` in topology; did you mean `nodes`?"
    assert str(CompileError([FINDING])) == said


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_the_catalogue_is_written_for_people(code: Code) -> None:
    assert re.fullmatch("TW[0-9]{3}", code.id)
    assert code.title
    assert code.why.endswith(".")
