"""Nothing secret reaches ``dist/``: rules on texts that look like a secret, wherever a run or a pool of its cluster states them.

A secret is known by its form, or by the name of the variable that has it. No message repeats it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import dotted, escape, pointer_to, tokens
from trainwright.plan import Resolution
from trainwright.run import EnvValue, ScriptWorkload
from trainwright.variables.secret import SECRET_NAME, has_secret

Environment = Mapping[str, EnvValue | None]
"""Name -> text, or a value that is not written in the run."""

Keys = tuple[str | int, ...]
"""The way from a document to a value."""

VARIABLES = ("env", "env_vars")
"""Mappings and lists of variables."""
IN_A_RUNTIME = "read it there from a Secret (valueFrom.secretKeyRef); then replace the value, since others may have seen it"
"""What to do about one in a runtime of Kubeflow Trainer."""
_HARMLESS_NAME = re.compile(
    r"(^|_)(PAD|BOS|EOS|UNK|MASK|SEP|CLS|STOP|SPECIAL)_TOKEN|_(FILE|PATH|DIR|NAME|URL|ENDPOINT|TYPE|ID|LIMIT|COUNT|BUDGET)$",
    re.IGNORECASE,
)
_HARMLESS_VALUE = re.compile(r"(true|false|yes|no|on|off|none|[0-9.]*|/\S*)", re.IGNORECASE)


def secret_findings(env: Environment, where: Callable[[str], Where], instead: str = "") -> Iterator[Finding]:
    """Variables that look like secrets.

    ``instead`` says what to write, where that is not a variable in the words of a run.
    """
    for name, value in env.items():
        if isinstance(value, str) and is_secret(name, value):
            yield found(
                "TW409",
                where(name),
                f"{name} looks like a secret and would be committed in plain text",
                f"{instead or f'write `{name}: {{secret: NAME, key: KEY}}` under env'}; then replace the value, since others may "
                "have seen it",
            )


def is_secret(name: str, value: str) -> bool:
    """Whether a variable holds a secret in plain text."""
    named = SECRET_NAME.search(name) and not _HARMLESS_NAME.search(name) and not _HARMLESS_VALUE.fullmatch(value)
    return bool(named) or has_secret(value)


def secrets_in(node: Any, pointer: str = "") -> Iterator[str]:
    """Where texts stand that have the form of a secret, and variables that are called like one."""
    if isinstance(node, str) and has_secret(node):
        yield pointer
    below = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    for key, value in below:
        here = f"{pointer}/{escape(str(key))}"
        name = _variable_at(tokens(here), node)
        if name and isinstance(value, str) and is_secret(name, value):
            yield here
        else:
            yield from secrets_in(value, here)


def _variable_at(way: list[str], node: Any) -> str:
    """The name of the variable whose value a pointer leads to, in a mapping of variables or in a list as pods have it."""
    if way[-2:-1] and way[-2] in VARIABLES and isinstance(node, Mapping):
        return way[-1]
    listed = way[-3:-2] == ["env"] and way[-1] == "value" and isinstance(node, Mapping)
    return str(node.get("name")) if listed else ""


def variables_of_initializers(context: Context) -> Iterator[Finding]:
    """What the run tells the initializers of its runtime, which are in no pod of its own."""
    told = context.run.initializer.stated if context.run.initializer else {}
    for part, one in told.items():
        yield from secret_findings(one.env, partial(_variable_of, context, f"/initializer/{part}"))


def _variable_of(context: Context, owner: str, name: str) -> Where:
    return context.locate.run(f"{owner}/env/{escape(name)}")


def texts_of_the_run(context: Context) -> Iterator[Finding]:
    """All texts of a run but its variables, which have a fix of their own."""
    stated = context.run.model_dump(mode="json", exclude_unset=True)
    yield from _findings(stated, (), context.locate.run, _expanded(context))


def texts_of_pools(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What the pools of the run put into its pods."""
    for pool in dict.fromkeys(resolution.pools.values()):
        stated = context.cluster.node_pools[pool].pods.model_dump(mode="json", exclude_unset=True)
        yield from _findings(stated, ("node_pools", pool, "pods"), context.locate.cluster, "")


def _findings(value: Any, keys: Keys, where: Callable[[str], Where], expanded: str) -> Iterator[Finding]:
    below: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, Mapping):
        below = ((key, each) for key, each in value.items() if key not in VARIABLES or keys[:1] in _AS_WRITTEN)
    elif isinstance(value, list):
        below = enumerate(value)
    elif isinstance(value, str) and has_secret(value):
        message = f"`{dotted(keys)}` holds what looks like a secret, which would be committed in plain text"
        yield found("TW409", where(pointer_to(keys)), message, _fix(keys, expanded))
    for key, each in below:
        yield from _findings(each, (*keys, key), where, expanded)


_AS_WRITTEN = (("files",), ("overrides",))
"""What is below them is not in the words of a run."""


def _expanded(context: Context) -> str:
    """Kubernetes expands references in the command of a container; the supervisor starts a script as it is written."""
    return "" if isinstance(context.run.workload, ScriptWorkload) else ", or write $(NAME) here"


def _fix(keys: Keys, expanded: str) -> str:
    """What to write in place of a secret."""
    if keys[0] == "files":
        return "put it into a Secret, and read it from env: {NAME: {secret: NAME, key: KEY}}"
    if "command" in keys or "args" in keys:
        in_words = expanded if keys[0] == "workload" else ", or write $(NAME) here"
        return f"put it into env as {{secret: NAME, key: KEY}}, and let the program read NAME from its environment{in_words}"
    return "put it into a Secret, and name that Secret; then replace it, since others may have seen it"


RUN = (texts_of_the_run, variables_of_initializers)
PLAN = (texts_of_pools,)
