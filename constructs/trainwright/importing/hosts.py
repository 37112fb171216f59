"""Host names of the original's own pods, where a run repeats them: as those that the run's pods have.

The objects of a run are called after their content, so its text cannot have their names. Every pod has the name of its run as a
label, and thus as a variable, which the kubelet puts into commands and into later variables.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

from trainwright.findings import CompileError
from trainwright.findings.locate import at
from trainwright.importing.accounting.pairing import ENDS
from trainwright.importing.fit import Compiler, Fitted
from trainwright.importing.propose import Proposal
from trainwright.importing.words import Data
from trainwright.manifest.labels import IDENTITY_LABEL
from trainwright.manifest.pods import containers_of
from trainwright.objects.fields import text
from trainwright.operators import operator
from trainwright.operators.operator import Around

RUN_NAME = "RUN_NAME"
"""The variable with the name of the run's objects."""
_REFERENCE = f"$({RUN_NAME})"
_MEETS = "MASTER_ADDR"
"""The variable whose value is a host, by its name alone too."""
_SAID = ("env", "workload", "roles")
"""Parts of a run in which Kubernetes puts the values of variables."""


def with_hosts(proposal: Proposal, fitted: Fitted, compiler: Compiler) -> Fitted:
    """The run under its own names; as it was where its pods would not be told them."""
    names = _names(proposal, fitted)
    data = copy.deepcopy(fitted.data)
    if not names or RUN_NAME in data.get("env", {}):
        return fitted
    longest_first = sorted(names, key=len, reverse=True)
    found = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, longest_first))}){ENDS}")
    for part in (part for part in _SAID if part in data):
        data[part] = _written(data[part], lambda said: found.sub(lambda name: names[name[0]], said))
    alone = {name.partition(".")[0]: other.partition(".")[0] for name, other in names.items()}
    for holder in (data, *data.get("roles", {}).values()):
        if (host := holder.get("env", {}).get(_MEETS)) in alone:  # elsewhere it may be any text, such as a part of a path
            holder["env"][_MEETS] = alone[host]
    if data == fitted.data:
        return fitted
    data["env"] = {RUN_NAME: {"field": f"metadata.labels['{IDENTITY_LABEL}']"}, **data.get("env", {})}
    try:
        made = Fitted(data, compiler(data), fitted.dropped)
    except CompileError:
        return fitted
    return made if all(map(_is_told, _containers(made))) else fitted


def _names(proposal: Proposal, fitted: Fitted) -> dict[str, str]:
    """Host of a pod of the original -> of the one of the run that is in its place."""
    ours = _hosts(fitted.compiled.manifests, next(iter(filter(operator.makes_pods, fitted.compiled.manifests)), {}))
    theirs = _hosts([*proposal.around, proposal.manifest.data], proposal.manifest.data)
    names: dict[str, str] = {}
    for part in proposal.said.parts:
        element = at(proposal.manifest.data, "/".join(part.pointer.split("/")[:4]))
        called = (text(element, "/name") or text(element, "/groupName")) if isinstance(element, Mapping) else ""
        pairs = zip(theirs.get(called or part.role, ()), ours.get(part.role, ()), strict=False)
        names |= {one: other.replace(fitted.compiled.plan.name, _REFERENCE) for one, other in pairs}
    return {one: other for one, other in names.items() if one != other and _REFERENCE in other}


def _hosts(objects: Any, carrier: Mapping[str, Any]) -> dict[str, list[str]]:
    """Role -> hosts of its pods, in their order, as the controller of an object makes them."""
    hosts: dict[str, list[str]] = {}
    made = operator.made(carrier, Around(objects))
    for pod in made.every_pod if made else ():
        hosts.setdefault(pod.role, []).append(pod.host)
    return hosts


def _written(node: Any, change: Callable[[str], str]) -> Any:
    if isinstance(node, dict):
        return {key: _written(value, change) for key, value in node.items()}
    if isinstance(node, list):
        return [_written(one, change) for one in node]
    return change(node) if isinstance(node, str) else node


def _containers(fitted: Fitted) -> list[Data]:
    carriers = [one for one in fitted.compiled.manifests if operator.makes_pods(one)]
    installed = [one.manifest for one in fitted.compiled.cluster.runtimes.values()]
    made = operator.pods(operator.defaults(carriers[0]), Around([*fitted.compiled.manifests, *installed]))
    return [one for pod in made.every_pod for _, one in containers_of(pod.spec)]


def _is_told(container: Data) -> bool:
    """Whether a container that names the variable has it, before the variables that name it."""
    env = [one for one in container.get("env") or () if isinstance(one, dict)]
    place = next((number for number, one in enumerate(env) if one.get("name") == RUN_NAME), None)
    named = [number for number, one in enumerate(env) if _REFERENCE in str(one.get("value", ""))]
    if place is None:
        return _REFERENCE not in repr([container.get("command"), container.get("args"), env])
    return all(number > place for number in named)
