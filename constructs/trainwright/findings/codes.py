"""The catalogue of findings: each code with its severity, and why it matters.

Each is a page in ``docs/findings/``. It begins with the title, the severity and one sentence that every finding of the code says;
a bad and a good example follow, and both are tests. A new code is a new page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from trainwright.findings import Finding, Severity, Where
from trainwright.pages import page_path

MILDER = {Severity.ERROR: Severity.WARNING, Severity.WARNING: Severity.INFO}


class Code(NamedTuple):
    id: str
    severity: Severity
    title: str
    why: str
    waivable: bool = False
    milder: str = ""
    """Where it weighs less, an error as a warning and a warning as a note: as the end of a sentence."""

    @property
    def weight(self) -> str:
        """As the page says it."""
        milder = f"; {self.milder} a {MILDER[self.severity].value}" if self.milder else ""
        return f"{self.severity.value}{milder}{', can be waived' if self.waivable else ''}"


_HEAD = re.compile(
    r"# \w+: (?P<title>.+)\n\n"
    r"(?P<severity>\w+)(; (?P<milder>.+) a (warning|note))?(?P<waivable>, can be waived)?\n\n"
    r"(?P<why>(>.*\n)+)"
)


class _Catalogue(Mapping[str, Code]):
    """Every code by its id, in their order; each is read off its page when it is asked for."""

    def __getitem__(self, code: str) -> Code:
        return _code(code)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.stem for path in page_path("findings").glob("TW[0-9][0-9][0-9].md")))

    def __len__(self) -> int:
        return sum(1 for _ in self)


CODES = _Catalogue()


@cache
def _code(code: str) -> Code:
    if not re.fullmatch(r"TW[0-9]{3}", code):
        raise KeyError(code)
    text = page_path(f"findings/{code}").read_text(encoding="utf-8")
    head = _HEAD.match(text)
    if head is None:
        raise ValueError(f"the page of {code} does not begin with a title, a severity and a quoted sentence")
    why = " ".join(line.removeprefix(">").strip() for line in head["why"].splitlines())
    return Code(code, Severity(head["severity"]), head["title"], why, head["waivable"] is not None, head["milder"] or "")


def found(code: str, where: Where, message: str, fix: str) -> Finding:
    """A finding of a code in the catalogue."""
    entry = CODES[code]
    return Finding(code=code, severity=entry.severity, where=where, message=message, why=entry.why, fix=fix)


def milder(code: str, where: Where, message: str, fix: str) -> Finding:
    """A finding of such a code in a case where it weighs less."""
    finding = found(code, where, message, fix)
    return finding._replace(severity=MILDER[finding.severity])


ADD_IT = "add it to the cluster profile (with `managed: false` if the cluster has it already)"
"""What to do with a namespace, a claim or a queue that the profile does not know."""


def one_of(names: Iterable[str], otherwise: str) -> str:
    """A fix that offers what there is; where there is nothing, what to do otherwise."""
    listed = ", ".join(names)
    return f"use one of: {listed}; or {otherwise}" if listed else otherwise
