"""What rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainwright.objects.problem import Problem
from trainwright.operators.rows import block


def job_template(template: object, _: object) -> Iterator[Problem]:
    """What the API server refuses in the Jobs that are made of a template."""
    for name in ("template", "counts"):
        yield from map(refused_later, block("job", name).problems(template))


def refused_later(problem: Problem) -> Problem:
    """What the API server refuses in a Job that a controller makes: the object is there, and none of its pods."""
    return replace(problem, code="TW711") if problem.code in ("TW704", "TW705") else problem
