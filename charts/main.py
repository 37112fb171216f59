"""The app that `cdk8s synth` runs: every run and profile in charts/, to $CDK8S_OUTDIR.

It compiles everything before it writes anything. Written to dist/ it does what `trainwright synth` does, the records included;
written elsewhere it leaves dist/ and the records alone.
"""

import os
import sys
from pathlib import Path

from trainwright.cli.session import show, today
from trainwright.cli.synth import write_with_cdk8s
from trainwright.findings import CompileError
from trainwright.project import build_project, find_project, guard, load_sources, synth, write_outputs


def main() -> int:
    try:
        project = find_project(Path(__file__).parent)
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
        return 1
    except OSError as error:
        print(f"trainwright: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
