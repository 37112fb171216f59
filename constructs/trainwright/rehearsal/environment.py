"""Environment and command of a container, by the kubelet's rules (pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables).

``envFrom`` first, then ``env`` in order, where the last of a name wins and ``$(VAR)`` sees what comes before it. The Job
controller appends JOB_COMPLETION_INDEX at the end, unless the container defines it, so entries of ``env`` cannot refer to it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trainwright.operators.job.child_jobs import INDEX_KEY, INDEX_VARIABLE
from trainwright.rehearsal.kinds import ConfigMap, Container, EnvVar, KeySelector
from trainwright.rehearsal.objects import Blocker
from trainwright.rehearsal.pod import Pod

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))", re.DOTALL)


@dataclass(slots=True)
class Environment:
    """The variables as the container would see them."""

    values: dict[str, str] = field(default_factory=dict)
    from_caller: list[str] = field(default_factory=list)
    """Variables of a Secret that is not here; their values are those of the caller's environment."""
    unexpanded: dict[str, list[str]] = field(default_factory=dict)
    """Variable -> references in it that stay as they are, because no variable of that name comes before it."""
    problems: list[Blocker] = field(default_factory=list)


def container_environment(
    container: Container, pod: Pod, config_maps: Mapping[str, ConfigMap], caller: Mapping[str, str], where: str
) -> Environment:
    """Resolve ``envFrom`` and ``env``. Problems are collected, so that all of them can be reported at once."""
    environment = Environment()
    _take_whole_sources(environment, container, config_maps, where)
    for variable in container.env:
        value = _value(environment, variable, pod, config_maps, caller, f"{where}, env {variable.name}")
        if value is not None:
            environment.values[variable.name] = value
    if all(variable.name != INDEX_VARIABLE for variable in container.env):
        environment.values[INDEX_VARIABLE] = pod.labels[INDEX_KEY]
    return environment


def _take_whole_sources(environment: Environment, container: Container, config_maps: Mapping[str, ConfigMap], where: str) -> None:
    for source in container.env_from:
        if source.config_map_ref is not None:
            name = source.config_map_ref.name
            if name in config_maps:
                environment.values |= {f"{source.prefix}{key}": value for key, value in config_maps[name].data.items()}
            elif not source.config_map_ref.optional:
                environment.problems.append(_no_config_map(f"{where}, envFrom", name))
        elif source.secret_ref is not None and not source.secret_ref.optional:
            environment.problems.append(Blocker(
                f"{where}, envFrom", f"Secret {source.secret_ref.name} is not here, and only the cluster knows its keys",
                "name each key with secretKeyRef, so that a rehearsal can take its value from your environment",
            ))


def _value(
    environment: Environment, variable: EnvVar, pod: Pod, config_maps: Mapping[str, ConfigMap], caller: Mapping[str, str],
    where: str,
) -> str | None:
    source = variable.value_from
    if variable.value or source is None:
        if missing := unresolved(variable.value, environment.values):
            environment.unexpanded[variable.name] = missing
        return expand(variable.value, environment.values)
    if source.field_ref is not None:
        found = pod.field(source.field_ref.field_path)
        if found is None:
            environment.problems.append(Blocker(where, f"the downward API has no fieldPath {source.field_ref.field_path}",
                                                "use a field such as metadata.name or status.podIP"))
        return found
    if source.config_map_key_ref is not None:
        return _from_config_map(environment, source.config_map_key_ref, config_maps, pod.namespace, where)
    if source.secret_key_ref is not None:
        return _from_caller(environment, variable.name, source.secret_key_ref, caller, where)
    environment.problems.append(Blocker(where, "a rehearsal does not provide resourceFieldRef", "write the value"))
    return None


def _from_config_map(
    environment: Environment, reference: KeySelector, config_maps: Mapping[str, ConfigMap], namespace: str, where: str
) -> str | None:
    config_map = config_maps.get(reference.name)
    if config_map is not None and reference.key in config_map.data:
        return config_map.data[reference.key]
    if not reference.optional:
        environment.problems.append(
            _no_config_map(where, reference.name) if config_map is None else
            Blocker(where, f"couldn't find key {reference.key} in ConfigMap {namespace}/{reference.name}", _keys(config_map))
        )
    return None


def _from_caller(
    environment: Environment, name: str, reference: KeySelector, caller: Mapping[str, str], where: str
) -> str | None:
    if name in caller:
        environment.from_caller.append(name)
        return caller[name]
    if not reference.optional:
        environment.problems.append(Blocker(
            where, f"it comes from key {reference.key} of Secret {reference.name}, which is in the cluster and not here",
            f"export {name} before the rehearsal; any value that the program accepts will do",
        ))
    return None


def _no_config_map(where: str, name: str) -> Blocker:
    return Blocker(where, f'configmap "{name}" not found', "add a ConfigMap of that name beside the Job")


def _keys(config_map: ConfigMap) -> str:
    return f"its keys are {', '.join(config_map.data)}" if config_map.data else "it has no keys"


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace each ``$(NAME)`` that has a value; one that has none stays as it is, and ``$$`` becomes ``$``.

    As in Kubernetes' third_party/forked/golang/expansion.
    """

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return values.get(name, match[0])

    return _REFERENCE.sub(replace, text)


def unresolved(text: str, values: Mapping[str, str]) -> list[str]:
    """Names that ``text`` refers to and ``values`` does not have."""
    return [match[1] for match in _REFERENCE.finditer(text) if match[1] is not None and match[1] not in values]


def command_line(container: Container, values: Mapping[str, str]) -> tuple[str, ...]:
    """``command`` and ``args`` with their variables expanded, in the container's view."""
    return tuple(expand(word, values) for word in (*container.command, *container.args))


def search_path(values: Mapping[str, str], caller: Mapping[str, str]) -> str:
    """The container's PATH if its manifest sets one, else the caller's; the folder of this Python comes first."""
    return os.pathsep.join([str(Path(sys.executable).parent), values.get("PATH") or caller.get("PATH") or os.defpath])


def find_program(word: str, path: str) -> str | None:
    """Absolute path of the program that ``word`` names, as a container runtime looks it up."""
    found = shutil.which(word, path=path)
    return str(Path(found).absolute()) if found else None
