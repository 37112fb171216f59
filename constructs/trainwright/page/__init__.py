"""The review page: a whole project as one HTML file, without a network and without a build step."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from typing import Any

from trainwright.page.data import details, rows, shared
from trainwright.project.built import Build
from trainwright.project.load import Project
from trainwright.project.status import last_records
from trainwright.review import Review
from trainwright.review.lines import summary

__all__ = ["page"]

Watch = Callable[[Sequence[Any], str], Iterable[Any]]


def page(project: Project, build: Build, review: Review | None, watch: Watch) -> str:
    """The file. A policy in its head lets it load nothing and run nothing but its own script.

    What stands behind a row is packed (gzip, base64), and unpacked by the browser when the row is opened: a thousand runs are a
    few megabytes.
    """
    changes = {run.run: run for run in review.runs} if review else {}
    listed = rows(build, changes)
    names = [str(row["run"]) for row in listed]
    records = last_records(project).runs
    packed = {name: _packed(details(project, build, name, changes.get(name), records)) for name in watch(names, "drawing")}
    data = {
        "project": project.root.resolve().name,
        "diff": f"{review.base} to {review.head}: {summary(review)}" if review else "",
        "shared": shared(review) if review else [],
        "notes": list(review.notes) if review else [],
        "runs": listed,
        "details": packed,
    }
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "POLICY": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "TITLE": html.escape(f"{data['project']}: training runs"),
        "STYLE": _asset("page.css"),
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "SCRIPT": script,
    }
    text = _asset("page.html")
    for name, part in parts.items():
        before, _, after = text.partition(f"%{name}%")
        text = f"{before}{part}{after}"
    return text


def _packed(data: Any) -> str:
    return base64.b64encode(gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)).decode()


def _asset(name: str) -> str:
    return files("trainwright.page").joinpath("assets", name).read_text(encoding="utf-8")
