"""Rules on Ray's ``runtime_env``: its keys, its variables, and what Ray fetches when the driver starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.findings.locate import escape
from trainwright.model import closest
from trainwright.overrides.owned import owners_of
from trainwright.plan import Resolution
from trainwright.program.values import variable_findings
from trainwright.rendezvous.ray import cluster_of
from trainwright.rules.secrets import secret_findings
from trainwright.run import CommandWorkload
from trainwright.units import in_quotes, literal


def _stated(resolution: Resolution) -> Mapping[str, Any]:
    return cluster_of(resolution.needs).runtime_env


def of_runtime_env(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Variables that Ray sets before the driver starts, by the rules of the run's own."""
    told = _stated(resolution).get("env_vars")
    if not isinstance(told, Mapping):
        return
    texts = {str(name): value for name, value in told.items() if isinstance(value, str)}
    owners = owners_of(texts, resolution, resolution.binding.ranks)

    def where(name: str) -> Where:
        return context.locate.run(f"/topology/runtime_env/env_vars/{escape(name)}")

    for name, owner in owners.items():
        yield found("TW403", where(name), owner, "remove it")
    yield from secret_findings(texts, where)
    yield from variable_findings({name: value for name, value in texts.items() if name not in owners}, where)


_KNOWN = (
    "py_modules", "py_executable", "java_jars", "working_dir", "conda", "pip", "uv", "container", "excludes", "env_vars",
    "config", "worker_process_setup_hook", "nsight", "rocprof_sys", "image_uri",
)
"""The keys of ``ray.runtime_env.RuntimeEnv``; plugins of a cluster may bring others."""
_MISSPELT = 0.8
"""How near a key must be to one of Ray's to be a misspelling of it, and not a plugin's: ``pips`` is, ``my_pip`` is not."""


def misspelt_keys(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Keys of runtime_env that Ray would pass over in silence."""
    for key in (one for one in _stated(resolution) if one not in _KNOWN and not one.startswith("_")):
        near = closest(key, _KNOWN, _MISSPELT)
        if near is not None:
            where = context.locate.run(f"/topology/runtime_env/{escape(key)}")
            yield found("TW105", where, f"Ray knows no `{key}` in topology.runtime_env", f"did you mean `{near}`?")


def texts_of_variables(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Ray takes texts only (``parse_and_validate_env_vars``), and raises a TypeError for others when the driver starts."""
    stated = _stated(resolution).get("env_vars", {})
    place = "topology.runtime_env.env_vars"
    if not isinstance(stated, Mapping):
        fix = "write a mapping: `env_vars: {NAME: value}`"
        yield found("TW107", context.locate.run("/topology/runtime_env/env_vars"), f"`{place}` must be a mapping", fix)
        return
    for name, value in stated.items():
        if not isinstance(value, str):
            where = context.locate.run(f"/topology/runtime_env/env_vars/{escape(name)}")
            message, fix = f"`{place}.{name}` must be text", "write text, or remove it"
            if isinstance(value, int | float):
                message, fix = f"{message}, not {literal(value)}", in_quotes(value)
            yield found("TW107", where, message, fix)


_PINNED = re.compile(r".+(==|@ ).+")
_FETCHED = ("pip", "uv", "conda", "working_dir", "py_modules")


def runtime_env(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """What Ray fetches when the driver starts, and what the driver is told in plain text."""
    stated = _stated(resolution)
    if stated and not isinstance(context.run.workload, CommandWorkload):
        message = "ranks are programs of the image, and runtime_env would change at run time what they find"
        yield found("TW458", context.locate.run("/topology/runtime_env"), message, "remove it, or write kind: command")
    for name in (one for one in _FETCHED if one in stated and not _is_pinned(stated[one])):
        message = f"what runtime_env has under {name} is fetched at every start, and may be another the next time"
        pinned = "an archive that nobody replaces" if name in ("working_dir", "py_modules") else "releases (pip: [name==1.2.3])"
        fix = f"put it into the image; or name {pinned} and waive this"
        yield found("TW465", context.locate.run(f"/topology/runtime_env/{name}"), message, fix)


def _is_pinned(value: object) -> bool:
    """Whether every package of a list has a release. What a file or an address leads to, nobody knows here."""
    packages = value.get("packages") if isinstance(value, dict) else value
    return isinstance(packages, list) and all(isinstance(one, str) and _PINNED.fullmatch(one) for one in packages)


PLAN = (of_runtime_env, runtime_env, misspelt_keys, texts_of_variables)
