"""What rows of ``rules.yaml`` name, since CEL cannot say it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from trainwright.objects.fields import items, text, whole
from trainwright.objects.metadata import label_problems
from trainwright.objects.problem import Problem, choose


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _packages(*more: str) -> Callable[[Any], bool]:
    keys = {"packages", *more}
    return lambda value: isinstance(value, str) or _texts(value) or (isinstance(value, dict) and keys >= {*value, "packages"})


_VALUES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "pip": (_packages("pip_check", "pip_version", "pip_install_options"), "write a list of packages, or a file of requirements"),
    "uv": (_packages("uv_check", "uv_version", "uv_pip_install_options"), "write a list of packages, or a file of requirements"),
    "conda": (lambda value: isinstance(value, str | dict), "write the name of an environment, or its description"),
    "env_vars": (
        lambda value: isinstance(value, dict) and all(isinstance(item, str) for pair in value.items() for item in pair),
        'write a mapping of names to texts: a number stands in quotes, as in `{A: "1"}`',
    ),
    "working_dir": (lambda value: isinstance(value, str), "write one folder or address"),
    "py_modules": (_texts, "write a list of addresses"),
    "excludes": (_texts, "write a list of patterns"),
    "config": (lambda value: isinstance(value, dict), "write a mapping, such as `{setup_timeout_seconds: 600}`"),
}  # fmt: skip
"""Key of a runtime environment -> which values Ray takes, and what to write (ray at 2.60, _private/runtime_env/validation.py)."""
_MORE_KEYS = ("container", "image_uri", "java_jars", "nsight", "py_executable", "rocprof_sys", "worker_process_setup_hook",
              "secret_env_vars", "plugins", "eager_install", "docker")  # fmt: skip
_ONE_OF = ("pip", "conda", "uv")


def an_environment(stated: object, _: object) -> Iterator[Problem]:
    """``runtimeEnvYAML`` is YAML, a mapping, and one that Ray takes."""
    import yaml

    try:
        read = yaml.safe_load(stated) if isinstance(stated, str) else None
        reason = "" if read is None or isinstance(read, dict) else "is not a mapping"
    except yaml.YAMLError:
        read, reason = None, "is not YAML"
    if reason:
        yield Problem("TW711", "", f"the text {reason}", "write keys and values, such as `pip: [torch]`")
    given = {str(key): value for key, value in read.items() if value is not None} if isinstance(read, dict) else {}
    for key, value in given.items():
        if key in _VALUES and not _VALUES[key][0](value):
            yield Problem("TW713", "", f"Ray cannot use the value of `{key}`, and refuses the job", _VALUES[key][1])
        if key not in _VALUES and key not in _MORE_KEYS and not key.startswith("_"):
            message = f"Ray ignores the key `{key}`, unless a plugin of the cluster has it"
            yield Problem("TW714", "", message, choose(key, [*_VALUES, *_MORE_KEYS]))
    if len(chosen := [key for key in _ONE_OF if given.get(key)]) > 1:
        yield Problem("TW713", "", f"Ray takes only one of {', '.join(chosen)}, and refuses the job", f"keep `{chosen[0]}`")


def labels(stated: object, _: object) -> Iterator[Problem]:
    """A group's labels have the form of a pod's."""
    yield from (replace(problem, code="TW711") for problem in label_problems(stated, ""))


_ORDER = ("DeleteWorkers", "DeleteCluster", "DeleteSelf")


def deletions(rules: object, _: object) -> Iterator[Problem]:
    """For one state of a job each thing is deleted once, and workers before their cluster before the RayJob itself."""
    first: dict[tuple[str, ...], dict[str, int]] = {}
    for index, rule in items(rules, ""):
        state = (text(rule, "/condition/jobStatus"), text(rule, "/condition/jobDeploymentStatus"))
        earlier, policy = first.setdefault(state, {}), text(rule, "/policy")
        after = whole(rule, "/condition/ttlSeconds", 0) or 0
        if policy in earlier:
            yield Problem("TW711", f"/{index}", f"an earlier rule has {policy} for the same state", "remove one of the two")
        for other, time in earlier.items():
            if {policy, other} <= {*_ORDER} and (after - time) * (_ORDER.index(policy) - _ORDER.index(other)) < 0:
                message = f"{policy} after {after} s does not fit {other} after {time} s"
                fix = "let workers go first, then the cluster, then the RayJob"
                yield Problem("TW711", f"/{index}/condition/ttlSeconds", message, fix)
        earlier.setdefault(policy, after)
