"""What rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.problem import Problem
from trainwright.operators.jobset.defaults import fill_in_job
from trainwright.operators.rows import block, refused_later


def job_template(job: Mapping[str, Any], _: object) -> Iterator[Problem]:
    """What the API server refuses in a Job of a runtime, but for completions and parallelism: the operator writes them itself."""
    made = copy.deepcopy(job)
    fill_in_job(made)
    for name in ("spec", "made"):
        problems = block("job", name).problems(at(made, "/template/spec"))
        yield from (refused_later(problem).below("/template/spec") for problem in problems)
