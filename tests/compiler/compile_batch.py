"""Compile many runs in one process and print a digest of each. Started as a program: a JSON file of clusters and runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.compiler.compiling import TODAY, compile_data
from tests.compiler.fleets import FLEET

from trainwright.findings import CompileError
from trainwright.project.build import build_project
from trainwright.project.load import Project, load_sources
from trainwright.project.record import Records, RunRecord, digest, manifests_digest
from trainwright.project.status import compare
from trainwright.report.plan import plan_data, plan_lines


def digests(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, str]:
    """Of every run's objects, plan and findings; of the fleet as a project; and of what `check` says to strange records."""
    found = {}
    for number, (cluster, run) in enumerate(pairs):
        try:
            compiled = compile_data(cluster, run)
        except CompileError as error:
            found[f"{number}"] = digest(repr(error.findings).encode())
        else:
            found[f"{number} {compiled.plan.name}"] = manifests_digest(compiled.manifests)
            found[f"{number} plan"] = digest(json.dumps([plan_data(compiled.plan), plan_lines(compiled)]).encode())
            found[f"{number} rest"] = digest(repr((compiled.findings, compiled.provenance(), compiled.overridden)).encode())
    project = Project(FLEET)
    build = build_project(load_sources(project), TODAY)
    found |= {path: output.digest for path, output in build.outputs.items()}
    stranger = Records(runs={f"gone-{letter}": RunRecord(file="0", identity="0") for letter in "abcdefgh"})
    found["check"] = digest(repr([(f.code, f.where.file, f.message) for f in compare(project, build, stranger)]).encode())
    return found


if __name__ == "__main__":
    print(json.dumps(digests(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
