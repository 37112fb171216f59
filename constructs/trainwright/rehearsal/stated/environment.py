"""Environment and command of a container, by the kubelet's rules (pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables).

``envFrom`` first, then ``env`` in order, where the last of a name wins and ``$(VAR)`` sees what comes before it.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.command.references import expand, unresolved
from trainwright.objects.formats import amount
from trainwright.rehearsal.stated.kinds import ConfigMap, Container, EnvVar, KeySelector, PodSpec
from trainwright.rehearsal.stated.objects import Blocker, Objects
from trainwright.rehearsal.stated.pod import Pod

STAND_IN = "stand-in"


@dataclass(slots=True)
class Environment:
    """The variables as the container would see them."""

    values: dict[str, str] = field(default_factory=dict)
    from_caller: list[str] = field(default_factory=list)
    """Variables of a Secret that is not here; their values are those of the caller's environment."""
    stand_ins: list[str] = field(default_factory=list)
    """Those that the caller does not have either."""
    unexpanded: dict[str, list[str]] = field(default_factory=dict)
    """Variable -> references in it that stay as they are, because no variable of that name comes before it."""
    problems: list[Blocker] = field(default_factory=list)


def container_environment(
    container: Container, pod: Pod, objects: Objects, caller: Mapping[str, str], where: str
) -> Environment:
    """Resolve ``envFrom`` and ``env``. Problems are collected, so that all of them can be reported at once."""
    environment = Environment()
    _take_whole_sources(environment, container, objects, where)
    for variable in container.env:
        value = _value(environment, variable, container, pod, objects, caller, f"{where}, env {variable.name}")
        if value is not None:
            environment.values[variable.name] = value
    return environment


def _take_whole_sources(environment: Environment, container: Container, objects: Objects, where: str) -> None:
    for source in container.env_from:
        if source.config_map_ref is not None:
            config_map = objects.config_maps.get(source.config_map_ref.name)
            if config_map is not None:
                environment.values |= {f"{source.prefix}{key}": value for key, value in config_map.data.items()}
            elif not source.config_map_ref.optional:
                environment.problems.append(_no_config_map(f"{where}, envFrom", source.config_map_ref.name))
        elif source.secret_ref is not None:
            if secret := objects.secrets.get(source.secret_ref.name):
                environment.values |= {f"{source.prefix}{key}": value for key, value in secret.values.items()}
            else:
                environment.stand_ins.append(f"every variable of Secret {source.secret_ref.name}")


def _value(
    environment: Environment, variable: EnvVar, container: Container, pod: Pod, objects: Objects, caller: Mapping[str, str],
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
        return _from_config_map(environment, source.config_map_key_ref, objects, where)
    if source.secret_key_ref is not None:
        return _from_secret(environment, variable.name, source.secret_key_ref, objects, caller, where)
    return _resource(container, pod.spec, source.resource_field_ref or {})


def _from_config_map(environment: Environment, reference: KeySelector, objects: Objects, where: str) -> str | None:
    config_map = objects.config_maps.get(reference.name)
    if config_map is not None and reference.key in config_map.data:
        return config_map.data[reference.key]
    if not reference.optional:
        message = f"couldn't find key {reference.key} in ConfigMap {objects.namespace}/{reference.name}"
        environment.problems.append(
            _no_config_map(where, reference.name) if config_map is None else Blocker(where, message, _keys(config_map))
        )
    return None


def _from_secret(
    environment: Environment, name: str, reference: KeySelector, objects: Objects, caller: Mapping[str, str], where: str
) -> str | None:
    """Of a Secret in the files, else the caller's variable of that name, else a stand-in: only the cluster has the real one."""
    secret = objects.secrets.get(reference.name)
    if secret is not None:
        if reference.key not in secret.values and not reference.optional:
            keys = f"its keys are {', '.join(secret.values) or 'none'}"
            message = f"couldn't find key {reference.key} in Secret {objects.namespace}/{reference.name}"
            environment.problems.append(Blocker(where, message, keys))
        return secret.values.get(reference.key)
    if name in caller:
        environment.from_caller.append(name)
        return caller[name]
    if reference.optional:
        return None
    environment.stand_ins.append(name)
    return STAND_IN


def _resource(container: Container, spec: PodSpec, reference: Mapping[str, Any]) -> str:
    """A request or limit of a container in units of the divisor, rounded up; 0 where it has none."""
    named = reference.get("containerName", container.name)
    resources = next((one.resources for one in spec.all_containers if one.name == named), {})
    kind, _, resource = str(reference.get("resource", "")).partition(".")
    stated, divisor = amount((resources.get(kind) or {}).get(resource)), amount(reference.get("divisor", "1"))
    return str(math.ceil((stated or 0) / (divisor or 1)))


def _no_config_map(where: str, name: str) -> Blocker:
    return Blocker(where, f'configmap "{name}" not found', "add a ConfigMap of that name beside the run")


def _keys(config_map: ConfigMap) -> str:
    return f"its keys are {', '.join(config_map.data)}" if config_map.data else "it has no keys"


def command_line(container: Container, values: Mapping[str, str]) -> tuple[str, ...]:
    """``command`` and ``args`` with their variables expanded, in the container's view."""
    return tuple(expand(word, values) for word in (*container.command, *container.args))


def find_program(word: str, path: str) -> str | None:
    """Absolute path of the program that ``word`` names, as a container runtime looks it up."""
    found = shutil.which(word, path=path)
    return str(Path(found).absolute()) if found else None


def not_found(word: str) -> str:
    """What a container runtime says of a program that it does not find."""
    return f'failed to start: exec: "{word}": executable file not found in $PATH'
