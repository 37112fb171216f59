"""Facts about the pods of a run: what they do, what they wait for, and how they ended (:mod:`trainwright.live.facts`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from trainwright.live.case import Case, LivePod
from trainwright.live.ends import End, ends_of, first_failure
from trainwright.live.placement import is_ready
from trainwright.live.rows import Fact
from trainwright.live.snapshot import NODE, POD, Object
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.labels import in_foundation
from trainwright.manifest.pods import containers_of, pods_in
from trainwright.objects.fields import items, mapping, text, texts, whole
from trainwright.operators.operator import status
from trainwright_trainer.contract.exit_codes import Disposition

_OWN_FINALIZERS = ("batch.kubernetes.io/", "foregroundDeletion", "orphan", "kubernetes.io/", "kueue.x-k8s.io/", "ray.io/")
"""Of Kubernetes, Kueue and KubeRay, which take them away by themselves."""


def yes(value: object) -> str:
    return "yes" if value else ""


def foreign(finalizers: Sequence[str]) -> list[str]:
    return [name for name in finalizers if not name.startswith(_OWN_FINALIZERS)]


def pod_facts(case: Case) -> Iterator[Fact]:
    nodes = {str(one["metadata"]["name"]): one for one in case.snapshot.of(NODE)}
    for pod in case.pods:
        node, disruption = nodes.get(pod.node), pod.condition("DisruptionTarget")
        hit = text(disruption, "/status") == "True"
        metadata = pod.manifest["metadata"]
        fields = {
            "pod": pod.name, "role": pod.role, "label": case.label(pod.name), "state": pod.state, "node": pod.node,
            "unready": yes(not is_ready(node) if node else pod.node and nodes),
            "cordoned": yes(node and mapping(node, "/spec").get("unschedulable")),
            "why": text(disruption, "/reason") if hit else "", "words": text(disruption, "/message") if hit else "",
            "deleting": yes(pod.deleting), "held": ", ".join(foreign(texts(metadata, "/finalizers"))),
            "kubelet": text(pod.manifest, "/status/reason"), "said": text(pod.manifest, "/status/message"),
            "nominated": text(pod.manifest, "/status/nominatedNodeName"),
        }  # fmt: skip
        yield Fact("pod", fields, f"Pod/{pod.name}: {_shown_pod(fields)}")


def _shown_pod(fields: Mapping[str, str]) -> str:
    parts = [
        fields["state"],
        f"on {fields['node']}" if fields["node"] else "",
        f"DisruptionTarget {fields['why']}: {fields['words']}" if fields["why"] else "",
        f"finalizer {fields['held']}" if fields["held"] else "",
        f"{fields['kubelet']}: {fields['said']}" if fields["kubelet"] else "",
    ]
    return ", ".join(filter(None, parts))


def container_facts(case: Case, written: Sequence[Object]) -> Iterator[Fact]:
    pulls: dict[str, str] = {}
    for event in case.events:
        if text(event, "/reason") in ("Failed", "InspectFailed") and "pull image" in text(event, "/message"):
            pulls[text(event, "/involvedObject/name")] = text(event, "/message")
    meant = [image for one in written for pod in pods_in(one) for _, c in containers_of(pod.spec) if (image := text(c, "/image"))]
    for pod in case.pods:
        images = {text(c, "/name"): text(c, "/image") for _, c in containers_of(pod.manifest["spec"])}
        for kind, one in pod.containers() if not pod.ended else ():
            name, waiting, last = text(one, "/name"), mapping(one, "/state/waiting"), mapping(one, "/lastState/terminated")
            if kind == "init" and "running" in mapping(one, "/state"):
                yield Fact("awaits", {"pod": pod.name, "name": name}, f"Pod/{pod.name}: init container {name} runs")
            end = next((end for end in ends_of(pod) if end.container == name), None)
            reason, image = text(waiting, "/reason"), images.get(name, "")
            if not reason:
                continue
            pull = pulls.get(pod.name, "") if reason in ("ErrImagePull", "ImagePullBackOff") else ""
            fields = {
                "pod": pod.name, "name": name, "init": yes(kind == "init"), "reason": reason, "image": image, "node": pod.node,
                "message": " ".join(filter(None, (text(waiting, "/message"), pull))), "differs": _differs(image, meant),
                "restarts": str(whole(one, "/restartCount", 0)), "code": str(whole(last, "/exitCode", 0) if last else ""),
                "kubelet": text(last, "/reason"), "last": end.message if end else "",
                "variable": _variable(pod, name, text(waiting, "/message")), "arch": arch(case, pod.node),
            }  # fmt: skip
            shows = f"Pod/{pod.name}: {name} waits, {reason}: {text(waiting, '/message') or pull}".rstrip(": ")
            yield Fact(
                "container",
                fields,
                shows if not last else f"{shows}; it ended with {fields['code']}: {fields['last']}".rstrip(": "),
            )


def _differs(image: str, meant: Sequence[str]) -> str:
    """In what an image is another one than the files of the run have; empty where they have it, or are not known."""
    if not meant or image in meant:
        return ""
    names = {re.split(r"@|:(?=[^/]*$)", one)[0] for one in meant}
    return "tag or digest" if re.split(r"@|:(?=[^/]*$)", image)[0] in names else "repository"


def _variable(pod: LivePod, container: str, message: str) -> str:
    """The variable that comes from a ConfigMap or Secret that a message names."""
    named = re.search(r'(?:configmap|secret) "([^"]+)"|in (?:ConfigMap|Secret) \S+/(\S+)', message)
    for _, one in containers_of(pod.manifest["spec"]) if named else ():
        for _, entry in items(one, "/env") if text(one, "/name") == container else ():
            sources = mapping(entry, "/valueFrom")
            names = {text(sources, f"/{kind}/name") for kind in ("configMapKeyRef", "secretKeyRef")}
            if named and (named[1] or named[2]) in names:
                return text(entry, "/name")
    return ""


def arch(case: Case, node: str) -> str:
    one = next((one for one in case.snapshot.of(NODE) if one["metadata"]["name"] == node), None)
    return str(mapping(one, "/metadata/labels").get("kubernetes.io/arch", "")) if one else ""


def end_facts(case: Case) -> Iterator[Fact]:
    failed = [pod for pod in case.pods if pod.phase in ("Failed", "Succeeded") or pod.deleting]
    first = first_failure(failed)
    if first is None:
        succeeded = [end for pod in failed for end in ends_of(pod)]
        first = succeeded[0] if succeeded else None
    if first:
        yield _end("end", case, first, failed)
    before = first_failure(case.replaced)
    if before:
        yield _end("before", case, before, case.replaced)


def _end(kind: str, case: Case, end: End, failed: Sequence[LivePod]) -> Fact:
    said, row = end.said, end.meaning if end.ours else None
    pod = next((pod for pod in failed if pod.name == end.pod), None)
    alike = [
        one.pod for pod in failed for one in ends_of(pod)
        if one.pod != end.pod and not one.consequence and (one.code, one.message) == (end.code, end.message)
    ]  # fmt: skip
    others_ended = [one.pod for pod in failed for one in ends_of(pod) if one.code and one.pod != end.pod and one.consequence]
    disruption = pod.condition("DisruptionTarget") if pod else {}
    log = case.snapshot.logs.get(f"{end.pod}/{end.container}", "")
    fields = {
        "pod": end.pod, "label": case.label(end.pod) if not end.told_by else end.number, "node": end.node, "code": str(end.code),
        "ours": yes(row), "kind": said.cause.kind if said and said.cause else "", "message": end.message, "kubelet": end.reason,
        "word": row.reason if row else "", "meaning": row.meaning if row else "", "remedy": row.remedy if row else "",
        "permanent": yes(row and row.disposition is Disposition.PERMANENT),
        "rank": str(said.cause.rank) if said and said.cause and said.cause.rank is not None else "",
        "committed": str(said.committed_step) if said and said.committed_step is not None else "",
        "steps": str(said.step) if said and said.step is not None else "",
        "who": f" ({case.named(alike)} alike)" if alike else "",
        "followers": f"; {case.named(others_ended)} ended because of it" if others_ended else "",
        "why": text(disruption, "/reason") if text(disruption, "/status") == "True" else "", "told": end.told_by,
        "log": log.strip().splitlines()[-1] if log.strip() else "", "container": end.container, "arch": arch(case, end.node),
        "signal": _SIGNALS.get(end.code, ""),
    }  # fmt: skip
    teller = f"Pod/{end.told_by} says: node {end.number}" if end.told_by else f"Pod/{end.pod}: {end.container}"
    return Fact(kind, fields, f"{teller} ended with {end.code} {row.reason if row else end.reason}: {end.message}".rstrip(": "))


_SIGNALS = {132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 139: "SIGSEGV"}
"""Exit code -> the signal of a crash, as shells and runtimes report it."""


def _waits(pod: LivePod) -> str:
    """Why a container of a pod cannot be started; empty where it runs, or is just being made."""
    states = [mapping(one, "/state/waiting") for _, one in pod.containers()]
    why = [(text(one, "/reason"), text(one, "/message")) for one in states]
    return next((f"{reason}: {message}" for reason, message in why if re.search("Err|BackOff|Invalid", reason)), "")


def fetch_facts(case: Case) -> Iterator[Fact]:
    """The Jobs that fetch data sets are the foundation's; a pod waits in an init container for those of its claims."""
    if not any(
        True for pod in case.pods for kind, one in pod.containers() if kind == "init" and "running" in mapping(one, "/state")
    ):
        return
    for job in case.snapshot.of(GroupKind("batch", "Job"), case.namespace):
        if not in_foundation(job):
            continue
        pods = [LivePod(one) for one in case.snapshot.below(job) if GroupKind.of(one) == POD]
        phase = status(job, [pod.manifest for pod in pods]).phase
        end = first_failure([pod for pod in pods if pod.phase == "Failed"])
        live = [pod for pod in pods if not pod.ended]
        state = phase if phase in ("done", "failed", "suspended") else "running" if live else "retried" if end else "waiting"
        name = str(job["metadata"]["name"])
        fields = {
            "name": name,
            "state": state,
            "message": end.message.splitlines()[-1] if end and end.message else "",
            "pod": end.pod if end else "",
            "node": live[0].state if live else "",
            "waits": _waits(live[0]) if live else "",
        }
        yield Fact("fetch", fields, f"Job/{name}: {state} {fields['message']}".rstrip())
