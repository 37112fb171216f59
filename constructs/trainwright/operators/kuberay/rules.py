"""What rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainwright.objects.metadata import label_problems
from trainwright.objects.problem import Problem


def an_environment(text: object, _: object) -> Iterator[Problem]:
    """``runtimeEnvYAML`` is YAML, and a mapping."""
    import yaml

    try:
        read = yaml.safe_load(text) if isinstance(text, str) else None
        reason = "" if read is None or isinstance(read, dict) else "is not a mapping"
    except yaml.YAMLError:
        reason = "is not YAML"
    if reason:
        yield Problem("TW711", "", f"the text {reason}", "write keys and values, such as `pip: [torch]`")


def labels(stated: object, _: object) -> Iterator[Problem]:
    """A group's labels have the form of a pod's."""
    yield from (replace(problem, code="TW711") for problem in label_problems(stated, ""))
