"""What `cdk8s synth` runs: every run and profile of a project, to $CDK8S_OUTDIR."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from trainwright.cli.session import Exit, show, today
from trainwright.cli.synth import write_with_cdk8s
from trainwright.findings import CompileError
from trainwright.project.build import build_project
from trainwright.project.load import find_project, load_sources
from trainwright.project.synth import guard, synth, write_outputs


def synthesize(folder: Path) -> int:
    """Compile everything, then write it. Returns the exit code, having said what is wrong.

    Written to ``dist/`` it does what `trainwright synth` does, the records included; written elsewhere it leaves ``dist/`` and
    the records alone.
    """
    try:
        project = find_project(folder)
        build = build_project(load_sources(project), today())
        guard(project, build, ())
        outdir = Path(os.environ.get("CDK8S_OUTDIR") or project.dist)
        if outdir.resolve() == project.dist.resolve():
            synth(project, build, write_with_cdk8s)
        else:
            write_outputs(build.outputs, write_with_cdk8s, outdir)
        show(build.findings)
    except CompileError as error:
        show(error.findings)
        return Exit.FINDINGS
    except OSError as error:
        print(f"trainwright: {error}", file=sys.stderr)
        return Exit.ENVIRONMENT
    return Exit.OK
