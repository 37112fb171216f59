"""What is left of pods whose logs are gone: the ledger beside the checkpoints, and what objects and events say of their ends."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from trainwright.live.case import Case
from trainwright.live.ends import ends_of, meaning_of
from trainwright.live.kubectl import Kubectl
from trainwright.live.snapshot import POD, Object, event_time, time_of
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.pods import containers_of
from trainwright.objects.fields import items, mapping, text
from trainwright.operators.operator import Around, makes_pods, pods
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import LEDGER_FILE, SPEC_FILE
from trainwright_trainer.contract.ledger import AttemptEnded, AttemptStarted, AttemptTimes, events_in

_ROUTINE = ("Scheduled", "Pulling", "Pulled", "Created", "Started", "SuccessfulCreate")
"""Reasons of events that tell of no end."""


class Entry(NamedTuple):
    """One line of the account."""

    at: datetime | None
    says: str

    def __str__(self) -> str:
        return f"{f'{self.at:%Y-%m-%d %H:%M:%S}' if self.at else '':19}  {self.says}"


def path_of(written: Sequence[Object]) -> str:
    """The path of a run's ledger in its pods, or its address; empty for one that keeps none, such as an opaque command.

    Args:
        written: the objects of its file in ``dist/``, among them the ConfigMap with its specification.
    """
    for one in written:
        specification = mapping(one, "/data").get(SPEC_FILE) if one["kind"] == "ConfigMap" else None
        if isinstance(specification, str):
            try:
                directory = RunSpec.model_validate_json(specification).state_directory
            except ValidationError:  # of another release
                return ""
            return f"{directory.rstrip('/')}/{LEDGER_FILE}" if directory else ""
    return ""


def read_ledger(kubectl: Kubectl, case: Case, path: str) -> str:
    """Its text, read in a pod of the run that runs; empty where none has it mounted.

    Raises:
        KubectlError: where it cannot be read, or may not.
    """
    for pod in case.pods:
        running = {text(one, "/name") for _, one in pod.containers() if "running" in mapping(one, "/state")}
        for _, container in containers_of(pod.manifest["spec"]):
            if pod.phase == "Running" and text(container, "/name") in running and _mount(container, path):
                return kubectl.run("exec", pod.name, f"--container={container['name']}", "--", "cat", path)
    return ""


def _mount(container: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    found = [one for _, one in items(container, "/volumeMounts") if path.startswith(f"{text(one, '/mountPath').rstrip('/')}/")]
    return max(found, key=lambda one: len(text(one, "/mountPath")), default=None)


def command_for(case: Case, path: str, written: Sequence[Object]) -> str:
    """The command that prints it where no pod of the run is up: a pod that mounts the same volume, as the run's own do.

    Args:
        case: the run.
        path: of the ledger.
        written: its objects, and those of its foundation, with numbers as numbers.
    """
    if "://" in path:
        return shlex.join(["aws", "s3", "cp", path, "-"])
    carriers = [one for one in written if makes_pods(one) and one["metadata"]["name"] == case.name]
    runtimes = [one for one in written if str(one["kind"]).endswith("TrainingRuntime")]
    for pod in pods(carriers[0], Around(objects=runtimes)).pods if carriers else ():
        for _, container in containers_of(pod.spec):
            mount = _mount(container, path)
            volume = next((one for _, one in items(pod.spec, "/volumes") if mount and one["name"] == mount["name"]), None)
            if mount and volume:
                return _run(case, path, pod.spec, container, {**mount, "readOnly": True}, volume)
    return ""


def _run(
    case: Case, path: str, spec: Mapping[str, Any], like: Mapping[str, Any], mount: Mapping[str, Any], volume: Mapping[str, Any]
) -> str:
    """As little as a quota and the namespace's pod security take, for as the run's own user."""
    kept = ("securityContext", "imagePullSecrets")
    little = {"cpu": "100m", "memory": "64Mi"}
    container = {
        "name": "ledger", "image": like["image"], "command": ["cat", path], "volumeMounts": [mount],
        "resources": {"requests": little, "limits": little},
        **({"securityContext": like["securityContext"]} if "securityContext" in like else {}),
    }  # fmt: skip
    pod = {**{key: spec[key] for key in kept if key in spec}, "containers": [container], "volumes": [volume]}
    return shlex.join([
        "kubectl", "run", f"ledger-{case.name}"[:63].rstrip("-."), f"--namespace={case.namespace}", f"--image={like['image']}",
        "--restart=Never", "--rm", "--attach", "--quiet", f"--overrides={json.dumps({'spec': pod}, separators=(',', ':'))}",
    ])  # fmt: skip


def account(case: Case, ledger: str) -> list[Entry]:
    """All that is known of how its attempts and pods went, in order; what states no time comes first."""
    entries = [*_of_ledger(case, ledger), *_of_pods(case), *_of_conditions(case), *_of_events(case)]
    return sorted(dict.fromkeys(entries), key=lambda one: f"{one.at:%Y-%m-%dT%H:%M:%S}" if one.at else "")


def _of_ledger(case: Case, ledger: str) -> Iterator[Entry]:
    """Of this identity: others may have trained in the same directory."""
    events = [event for event in events_in(ledger) if event.identity == case.name]
    ended = {event.attempt for event in events if isinstance(event, AttemptEnded)}
    last = {event.attempt: event for event in events if isinstance(event, AttemptTimes)}
    for event in events:
        match event:
            case AttemptStarted(committed_step=step):
                yield Entry(event.time, f"ledger: attempt {event.attempt} began {_at_step(step)}")
            case AttemptEnded(code=code, committed_step=step):
                known = meaning_of(code)
                word = f" ({known.reason}: {known.meaning})" if known else ""
                yield Entry(event.time, f"ledger: attempt {event.attempt} ended with {code}{word}, {_at_step(step)}")
            case AttemptTimes(step=step) if event.attempt not in ended and last[event.attempt] is event:
                reached = "" if step is None else f", at step {step}"
                yield Entry(event.time, f"ledger: attempt {event.attempt} was last heard of{reached}; it runs, or was killed")


def _at_step(step: int | None) -> str:
    return "without a commit" if step is None else f"with the commit of step {step}"


def _of_pods(case: Case) -> Iterator[Entry]:
    for end in (end for pod in case.every_pod for end in ends_of(pod) if end.code):
        word = end.meaning.reason if end.ours and end.meaning else end.reason
        yield Entry(end.at, f"{end.pod}: ended with {end.code} {word}: {end.message}".rstrip(": "))


def _of_conditions(case: Case) -> Iterator[Entry]:
    for one in [case.manifest, *case.children] if case.manifest else []:
        if GroupKind.of(one) == POD:
            continue
        for _, condition in items(one, "/status/conditions"):
            if text(condition, "/status") == "True":
                type_, reason, message = (text(condition, f"/{key}") for key in ("type", "reason", "message"))
                says = f"{one['kind']}/{one['metadata']['name']}: {type_} {reason}: {message}".rstrip(": ")
                yield Entry(time_of(text(condition, "/lastTransitionTime")), says)


def _of_events(case: Case) -> Iterator[Entry]:
    """About what is not a pod that is here: those pods have their own status."""
    there = {pod.name for pod in case.every_pod}
    for event in case.events:
        kind, name = text(event, "/involvedObject/kind"), text(event, "/involvedObject/name")
        if (kind != "Pod" or name not in there) and text(event, "/reason") not in _ROUTINE:
            says = f"event {text(event, '/reason')} of {kind}/{name}: {text(event, '/message').strip()}"
            yield Entry(event_time(event), says.rstrip(": "))
