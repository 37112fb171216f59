"""A pod template in a run's words, as far as these have one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from trainwright.findings.locate import escape
from trainwright.importing.neighbours import PLACE, expression, keeps_apart, wishes
from trainwright.importing.volumes import mount_of, say_mounts
from trainwright.importing.words import Words
from trainwright.manifest.kueue import GROUP
from trainwright.manifest.template.scheduling import PREFERRED, REQUIRED
from trainwright.objects import formats
from trainwright.objects.fields import items, mapping, text, texts, whole
from trainwright.operators.said import GPU, Part, asked, scalar, variable
from trainwright.rules.secrets import is_secret
from trainwright.units import Bytes, Cpu, UnitError
from trainwright.variables.secret import has_secret

Tree = Mapping[str, Any]

RDMA = re.compile(r"rdma|(^|/)efa$|(^|/)ib$|infiniband|roce|mlnx|hca|(^|[.-])nic", re.IGNORECASE)
"""Extended resources that are adapters of a network."""
MOST_ADAPTERS = 64
"""Of one node; plugins that let any number of pods share an adapter count to a thousand."""
_OF_KUBERNETES = frozenset({"cpu", "memory", "ephemeral-storage"})


class Needs(NamedTuple):
    """What a pod needs of its node and of its cluster."""

    labels: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]
    gpu: str | None
    gpus: int
    adapters: Mapping[str, int]
    cpu: str | None
    memory: str | None
    scheduler: str


class Spoken(NamedTuple):
    """A pod in a run's words."""

    part: Part
    words: Words
    needs: Needs
    hidden: tuple[tuple[str, str], ...]
    """Variables whose values are secrets, and where they stand."""


def main_of(part: Part) -> int:
    """The number of the container that trains: the one with the operator's name, with GPUs, or the first."""
    found = [(number, one) for number, one in items(part.template, "/spec/containers")]
    named = [number for number, one in found if part.container and text(one, "/name") == part.container]
    heavy = [number for number, one in found if any(GPU.fullmatch(name) for name in asked(one))]
    return (named or heavy or [number for number, _ in found] or [0])[0]


def spoken(part: Part, owner: str, maps: Mapping[str, Tree], secret: str) -> Spoken:
    """The words of one part's pods. ``secret`` is the Secret that is to be made for what stands in plain text."""
    spec, number = mapping(part.template, "/spec"), main_of(part)
    container, place = mapping(part.template, f"/spec/containers/{number}"), part.source(f"/spec/containers/{number}")
    words, hidden = Words(), list[tuple[str, str]]()
    _program(words, part, container, number)
    _environment(words, part, container, number, secret, hidden)
    needs = _resources(words, part, container, number)
    say_mounts(words, spec, container, place, maps)
    _placement(words, part, spec, owner)
    _security(words, part, spec, container, number)
    _life(words, part, spec, container, number)
    _metadata(words, part)
    _containers(words, part, spec, container, number, secret, hidden)
    return Spoken(part, words, needs, tuple(hidden))


def _program(words: Words, part: Part, container: Tree, number: int) -> None:
    at_main = f"/spec/containers/{number}"
    for field, key in (("image", "image"), ("workingDir", "working_dir"), ("imagePullPolicy", "image_pull_policy")):
        if value := text(container, f"/{field}"):
            words.say(f"/{key}", value, part.source(f"{at_main}/{field}"))
    for field in ("command", "args"):
        if isinstance(container.get(field), list) and container[field]:
            listed = [str(word) for word in container[field]]
            words.say(f"/{field}", listed, part.source(f"{at_main}/{field}"))


def _environment(words: Words, part: Part, container: Tree, number: int, secret: str, hidden: list[tuple[str, str]]) -> None:
    for index, one in items(container, "/env"):
        name, source = text(one, "/name"), part.source(f"/spec/containers/{number}/env/{index}")
        value = variable(one)
        if isinstance(value, str) and is_secret(name, value):
            hidden.append((name, source))
            value = {"secret": secret, "key": name}
        if name and value is not None:
            words.say(f"/env/{escape(name)}", value, source)
    sources = []
    for _, one in items(container, "/envFrom"):
        prefix = {"prefix": text(one, "/prefix")} if text(one, "/prefix") else {}
        if name := text(one, "/secretRef/name"):
            sources.append({"secret": name, **prefix})
        elif name := text(one, "/configMapRef/name"):
            sources.append({"config_map": name, **prefix})
    if sources:
        words.say("/env_from", sources, part.source(f"/spec/containers/{number}/envFrom"))


def _resources(words: Words, part: Part, container: Tree, number: int) -> Needs:
    limits, requests = mapping(container, "/resources/limits"), mapping(container, "/resources/requests")
    source = part.source(f"/spec/containers/{number}/resources")
    for name in ("cpu", "memory"):
        limit, request = limits.get(name), requests.get(name)
        words.say(f"/resources/{name}", "none" if limit is None else _number(limit, name), source)
        if request is not None and (limit is None or _number(request, name) != _number(limit, name)):
            words.say(f"/resources/requests/{name}", _number(request, name), source)
    amounts, devices = asked(container), dict[str, int]()
    if disk := amounts.get("ephemeral-storage"):
        words.say("/resources/ephemeral_storage", str(disk), source)
    for name, amount in amounts.items():
        if name.startswith("hugepages-"):
            words.say(f"/resources/hugepages/{name.removeprefix('hugepages-')}", _number(str(amount), "memory"), source)
        elif name not in _OF_KUBERNETES and (count := _count(amount)) is not None:
            devices[name] = count
    gpu = next((name for name in devices if GPU.fullmatch(name)), None)
    gpus = devices.pop(gpu) if gpu else 0
    adapters = {name: count for name, count in devices.items() if RDMA.search(name) and count <= MOST_ADAPTERS}
    for name, count in devices.items():
        words.say(f"/resources/devices/{escape(name)}", count, source)
    spec = mapping(part.template, "/spec")
    return Needs(
        {key: str(value) for key, value in mapping(spec, "/nodeSelector").items()},
        tuple(one for _, one in items(spec, "/tolerations") if not _of_lost_nodes(one)),
        gpu, gpus, adapters, _text_of(amounts.get("cpu")), _text_of(amounts.get("memory")), text(spec, "/schedulerName"),
    )  # fmt: skip


def _number(amount: Any, name: str = "cpu") -> Any:
    """An amount as people write it: CPUs as a number, and memory in the largest unit that says all of it."""
    try:
        if name != "cpu":
            return str(Bytes.parse(amount))
        cpus = Cpu.parse(amount).millicores
        return cpus // 1000 if cpus % 1000 == 0 else cpus / 1000 if cpus % 100 == 0 else f"{cpus}m"
    except UnitError:
        return amount


def _count(amount: Any) -> int | None:
    """A whole number, which may be written as 1k."""
    count = formats.amount(amount)
    return int(count) if count is not None and 0 <= count == int(count) else None


def _text_of(amount: Any) -> str | None:
    return None if amount is None else str(amount)


def _of_lost_nodes(toleration: Tree) -> bool:
    """The plan has these of its own."""
    return text(toleration, "/key") in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _placement(words: Words, part: Part, spec: Tree, owner: str) -> None:
    node = mapping(spec, "/affinity/nodeAffinity")
    said: dict[str, Any] = {}
    terms = [one for _, one in items(node, f"/{REQUIRED}/nodeSelectorTerms")]
    if len(terms) == 1 and terms[0].keys() == {"matchExpressions"}:
        said["required"] = [expression(one) for _, one in items(terms[0], "/matchExpressions")]
    preferred = [one for _, one in items(node, f"/{PREFERRED}")]
    if preferred and all(mapping(one, "/preference").keys() == {"matchExpressions"} for one in preferred):
        said["preferred"] = [
            {
                "labels": [expression(each) for _, each in items(one, "/preference/matchExpressions")],
                "weight": one.get("weight", 1),
            }
            for one in preferred
        ]
    if said:
        words.say("/node_affinity", said, part.source("/spec/affinity"))
    if part.ranks and keeps_apart(part.template, owner, part.marks):
        words.say("/placement/one_per_node", True, part.source("/spec/affinity/podAntiAffinity"))
    elif apart := wishes(part.template, "podAntiAffinity", owner):
        words.say("/pod_anti_affinity", apart, part.source("/spec/affinity/podAntiAffinity"))
    if near := wishes(part.template, "podAffinity", owner):
        words.say("/pod_affinity", near, part.source("/spec/affinity/podAffinity"))
    for field, key in (("runtimeClassName", "runtime_class"), ("priorityClassName", "priority"),
                       ("serviceAccountName", "service_account"), ("serviceAccount", "service_account")):  # fmt: skip
        if (value := text(spec, f"/{field}")) and (key != "service_account" or value != "default"):
            words.say(f"/{key}", value, part.source(f"/spec/{field}"))
    if spec.get("hostNetwork") is True:
        words.say("/host_network", True, part.source("/spec/hostNetwork"))
    for field, key in (("imagePullSecrets", "image_pull_secrets"), ("schedulingGates", "scheduling_gates")):
        names = [text(one, "/name") for _, one in items(spec, f"/{field}") if text(one, "/name")]
        if key == "scheduling_gates":
            names = [name for name in names if not name.startswith(f"{GROUP}/")]
        if names:
            words.say(f"/{key}", list(dict.fromkeys(names)), part.source(f"/spec/{field}"))
    for number, one in items(spec, "/resourceClaims"):
        claim = {"template": text(one, "/resourceClaimTemplateName")} if "resourceClaimTemplateName" in one else {
            "claim": text(one, "/resourceClaimName")}  # fmt: skip
        words.say(f"/resource_claims/{escape(text(one, '/name'))}", claim, part.source(f"/spec/resourceClaims/{number}"))


def _security(words: Words, part: Part, spec: Tree, container: Tree, number: int) -> None:
    pod, own = mapping(spec, "/securityContext"), mapping(container, "/securityContext")
    merged, at_main = {**pod, **own}, f"/spec/containers/{number}/securityContext"
    for field, key in (("runAsUser", "user"), ("runAsGroup", "group"), ("fsGroup", "fs_group")):
        if (value := whole(merged, f"/{field}")) is not None:
            words.say(f"/security/{key}", value, part.source(f"{at_main if field in own else '/spec/securityContext'}/{field}"))
    if merged.get("runAsNonRoot") is True and not merged.get("runAsUser"):
        words.say("/security/root", False, part.source("/spec/securityContext"))
    for field, key in (("privileged", "privileged"), ("readOnlyRootFilesystem", "read_only_root")):
        if own.get(field) is True:
            words.say(f"/security/{key}", True, part.source(f"{at_main}/{field}"))
    if added := texts(own, "/capabilities/add"):
        words.say("/security/capabilities", [name.removeprefix("CAP_") for name in added], part.source(f"{at_main}/capabilities"))


def _life(words: Words, part: Part, spec: Tree, container: Tree, number: int) -> None:
    at_main = f"/spec/containers/{number}"
    grace = whole(spec, "/terminationGracePeriodSeconds")
    if grace:
        words.say(
            "/grace",
            f"{grace}s" if grace % 60 or grace < 120 else f"{grace // 60}m",
            part.source("/spec/terminationGracePeriodSeconds"),
        )
    meets = {str(variable(one)) for _, one in items(container, "/env") if text(one, "/name") == "MASTER_PORT"}
    for index, one in items(container, "/ports"):
        if (port := whole(one, "/containerPort")) and str(port) not in meets:
            name = text(one, "/name") or f"port-{port}"
            words.say(f"/ports/{escape(name)}", port, part.source(f"{at_main}/ports/{index}"))
    for field, key in (("startupProbe", "started"), ("readinessProbe", "ready"), ("livenessProbe", "alive")):
        if probe := _probe(mapping(container, f"/{field}"), container):
            words.say(f"/probes/{key}", probe, part.source(f"{at_main}/{field}"))
    hook = mapping(container, "/lifecycle/preStop")
    if command := texts(hook, "/exec/command"):
        words.say("/pre_stop/command", command, part.source(f"{at_main}/lifecycle"))
    elif pause := whole(hook, "/sleep/seconds"):
        words.say("/pre_stop/sleep", f"{pause}s", part.source(f"{at_main}/lifecycle"))
    elif path := text(hook, "/httpGet/path"):
        port = _port(mapping(hook, "/httpGet").get("port"), container)
        if port:
            words.say("/pre_stop", {"http": path, "port": port}, part.source(f"{at_main}/lifecycle"))


def _probe(stated: Tree, container: Tree) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if command := texts(stated, "/exec/command"):
        said["command"] = command
    elif port := _port(mapping(stated, "/httpGet").get("port") or mapping(stated, "/tcpSocket").get("port"), container):
        if path := text(stated, "/httpGet/path"):
            said["http"] = path
        said["port"] = port
    else:
        return {}
    if after := whole(stated, "/initialDelaySeconds"):
        said["after"] = f"{after}s"
    if (every := whole(stated, "/periodSeconds")) and every != 10:
        said["every"] = f"{every}s"
    if (failures := whole(stated, "/failureThreshold")) and failures != 3:
        said["failures"] = failures
    return said


def _port(stated: Any, container: Tree) -> int | None:
    """A port by its number, or by the name that the container has for it."""
    by_name = {text(one, "/name"): whole(one, "/containerPort") for _, one in items(container, "/ports")}
    return by_name.get(stated) if isinstance(stated, str) else stated if isinstance(stated, int) else None


def _metadata(words: Words, part: Part) -> None:
    for field in ("labels", "annotations"):
        for key, value in mapping(part.template, f"/metadata/{field}").items():
            if key in PLACE or has_secret(str(value)):
                continue
            words.say(f"/pod_{field}/{escape(key)}", scalar(value), part.source(f"/metadata/{field}/{escape(key)}"))


def _containers(
    words: Words, part: Part, spec: Tree, main: Tree, number: int, secret: str, hidden: list[tuple[str, str]]
) -> None:
    """Those beside the one that trains."""
    volumes = {text(one, "/name"): one for _, one in items(spec, "/volumes")}
    shared = {text(one, "/name"): (text(one, "/mountPath"), one.get("subPath")) for _, one in items(main, "/volumeMounts")}
    found = [("initContainers", index, one) for index, one in items(spec, "/initContainers")]
    found += [("containers", index, one) for index, one in items(spec, "/containers") if index != number]
    said = [_beside(field, _shown(one, volumes, secret, hidden), volumes, shared) for field, _, one in found]
    if said:
        words.say("/containers", said, part.source("/spec"))


def _shown(one: Tree, volumes: Mapping[str, Tree], secret: str, hidden: list[tuple[str, str]]) -> Tree:
    """Without secrets in plain text and mounts of volumes that somebody else puts into the pod, and with amounts, which every
    container of a run states, as requests and limits at once.
    """
    stated, env = dict(one), list[Any]()
    if mounts := [mount for _, mount in items(one, "/volumeMounts")]:
        stated["volumeMounts"] = [mount for mount in mounts if text(mount, "/name") in volumes]
    for variable_ in one.get("env") or ():
        name, value = text(variable_, "/name"), text(variable_, "/value")
        if is_secret(name, value):
            hidden.append((name, ""))
            variable_ = {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}}
        env.append(variable_)
    amounts = {**_LEAST, **asked(one)}
    return {**stated, **({"env": env} if env else {}), "resources": {"requests": dict(amounts), "limits": dict(amounts)}}


_LEAST = {"cpu": "500m", "memory": "512Mi"}
"""Of a container that says nothing of what it needs."""


Shared = Mapping[str, tuple[str, Any]]
"""Volume -> where the container that trains has it, and below which path of it."""


def _beside(field: str, one: Tree, volumes: Mapping[str, Tree], shared: Shared) -> dict[str, Any]:
    sidecar = field == "initContainers" and one.get("restartPolicy") == "Always"
    kind = "sidecar" if sidecar else "init" if field == "initContainers" else "beside"
    mounts = [mount for _, mount in items(one, "/volumeMounts")]
    used = dict.fromkeys(text(mount, "/name") for mount in mounts)
    alike = used.keys() - {text(mount, "/name") for mount in mounts if not _is_shared(mount, shared)}
    known = [name for name in used if name in volumes]
    own = [{"name": name, "same_as": shared[name][0]} if name in alike else dict(volumes[name]) for name in known]
    ends = {"ends_itself": True} if kind == "beside" else {}
    if simple := _simple(one, volumes, shared):
        return {"name": text(one, "/name"), "kind": kind, "image": text(one, "/image"), **simple, **ends}
    kept = {key: value for key, value in one.items() if not (sidecar and key == "restartPolicy")}
    if alike:  # a volume that is shared comes with its path
        kept["volumeMounts"] = [
            {key: value for key, value in mount.items() if key != "subPath" or mount["name"] not in alike} for mount in mounts
        ]
    return {"kind": kind, "container": kept, **({"volumes": own} if own else {}), **ends}


def _is_shared(mount: Tree, shared: Shared) -> bool:
    return text(mount, "/name") in shared and shared[text(mount, "/name")][1] == mount.get("subPath")


_SIMPLE = frozenset({
    "name", "image", "command", "args", "env", "volumeMounts", "resources", "restartPolicy", "terminationMessagePolicy",
})  # fmt: skip
"""Fields that the shorter words say, or that follow from them."""


def _simple(one: Tree, volumes: Mapping[str, Tree], shared: Shared) -> dict[str, Any] | None:
    """In the shorter words, where these say all of it."""
    limits, requests = mapping(one, "/resources/limits"), mapping(one, "/resources/requests")
    equal = limits.keys() == {"cpu", "memory"} and dict(requests or limits) == dict(limits)
    env = {text(each, "/name"): variable(each) for _, each in items(one, "/env")}
    if not equal or not one.keys() <= _SIMPLE or one.get("terminationMessagePolicy") == "File" or None in env.values():
        return None
    mounts: dict[str, Any] = {}
    for _, mount in items(one, "/volumeMounts"):
        name, path = text(mount, "/name"), text(mount, "/mountPath")
        read_only = {"read_only": True} if mount.get("readOnly") is True else {}
        alike = _is_shared(mount, shared)
        said = {"same_as": shared[name][0], **read_only} if alike else mount_of(volumes.get(name, {}), mount)
        if said is None or "claim" in said or ("subPath" in mount and not alike):
            return None
        mounts[path] = said
    parts = {"command": texts(one, "/command"), "args": texts(one, "/args"), "env": env, "mounts": mounts}
    return {
        **{key: value for key, value in parts.items() if value},
        "cpu": _number(limits["cpu"]),
        "memory": _number(limits["memory"], "memory"),
    }
