"""What rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.problem import Problem
from trainwright.operators.jobset.defaults import fill_in_job
from trainwright.operators.jobset.rules import refused_later
from trainwright.operators.rows import block


def job_template(job: Mapping[str, Any], _: object) -> Iterator[Problem]:
    """What the API server refuses in a Job of a runtime, but for completions and parallelism: the operator writes them itself."""
    made = copy.deepcopy(job)
    fill_in_job(made)
    problems = block("job", "template").problems(at(made, "/template"))
    yield from (refused_later(problem).below("/template") for problem in problems)
