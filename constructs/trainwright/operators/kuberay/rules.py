"""KubeRay: the checks of its controllers (ray-operator/controllers/ray/utils/validation.go at v1.7).

Only names have a webhook, and that is optional: the rest ends as status ValidationFailed and an Event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, number, text
from trainwright.objects.metadata import label_problems, not_a_service_label
from trainwright.objects.problem import Objection

LONGEST_CLUSTER, LONGEST_JOB = 53, 47
PARAMETERS = ("num-cpus", "num-gpus", "memory", "resources")
"""rayStartParams that state what ``resources`` states."""


def ray_job(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    yield from _name(manifest, "RayJob", LONGEST_JOB)
    cluster, selected = mapping(manifest, "/spec/rayClusterSpec"), mapping(manifest, "/spec/clusterSelector")
    if not cluster and not selected:
        yield Objection("/spec/rayClusterSpec", "a RayJob needs a cluster", "add rayClusterSpec, or clusterSelector")
    if selected and not text(manifest, "/spec/clusterSelector/ray.io~1cluster"):
        yield Objection("/spec/clusterSelector", "the selector names no cluster", "add `ray.io/cluster: NAME`")
    if (environment := text(manifest, "/spec/runtimeEnvYAML")) and (reason := _not_an_environment(environment)):
        yield Objection("/spec/runtimeEnvYAML", f"the text {reason}", "write keys and values, such as `pip: [torch]`")
    yield from _ending(manifest)
    yield from _submission(manifest, bool(selected))
    if cluster:
        yield from _cluster(manifest, "/spec/rayClusterSpec")


def ray_cluster(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    yield from _name(manifest, "RayCluster", LONGEST_CLUSTER)
    yield from _cluster(manifest, "/spec")


def _name(manifest: Mapping[str, Any], kind: str, longest: int) -> Iterator[Objection]:
    name = text(manifest, "/metadata/name")
    if len(name) > longest:
        message = f"the name of a {kind} has at most {longest} characters, and {name} has {len(name)}"
        yield Objection("/metadata/name", message, "shorten it")
    elif reason := not_a_service_label(name):
        yield Objection("/metadata/name", f"the name {name} of a {kind} {reason}", "choose another name")


def _not_an_environment(text: str) -> str:
    import yaml

    try:
        read = yaml.safe_load(text)
    except yaml.YAMLError:
        return "is not YAML"
    return "" if read is None or isinstance(read, dict) else "is not a mapping"


def _ending(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    ends = at(manifest, "/spec/shutdownAfterJobFinishes") is True
    if at(manifest, "/spec/suspend") is True and not ends:
        message = "only a RayJob that shuts its cluster down can be suspended"
        yield Objection("/spec/suspend", message, "add `shutdownAfterJobFinishes: true`")
    ttl = number(manifest, "/spec/ttlSecondsAfterFinished", 0)
    if ttl < 0 or (ttl > 0 and not ends):
        message = "a negative time" if ttl < 0 else "a time after which nothing is deleted"
        fix = "write 0 or more" if ttl < 0 else "add `shutdownAfterJobFinishes: true`"
        yield Objection("/spec/ttlSecondsAfterFinished", f"ttlSecondsAfterFinished is {message}", fix)
    if mapping(manifest, "/spec/deletionStrategy").get("deletionRules") and ends:
        message = "deletionRules and shutdownAfterJobFinishes both say when the cluster is deleted"
        yield Objection("/spec/deletionStrategy/deletionRules", message, "keep one of the two")
    if number(manifest, "/spec/activeDeadlineSeconds", 1) <= 0:
        fix = "write a number above 0, or remove it"
        yield Objection("/spec/activeDeadlineSeconds", "activeDeadlineSeconds must be above 0", fix)
    if number(manifest, "/spec/backoffLimit", 0) < 0:
        yield Objection("/spec/backoffLimit", "backoffLimit cannot be negative", "write 0 or more")


def _submission(manifest: Mapping[str, Any], selected: bool) -> Iterator[Objection]:
    mode = text(manifest, "/spec/submissionMode", "K8sJobMode")
    retries = number(manifest, "/spec/backoffLimit", 0)
    if selected and at(manifest, "/spec/suspend") is True:
        yield Objection("/spec/suspend", "a RayJob on a selected cluster cannot be suspended", "remove it")
    if retries > 0 and (mode == "InteractiveMode" or selected):
        where = "InteractiveMode" if mode == "InteractiveMode" else "a selected cluster"
        yield Objection("/spec/backoffLimit", f"a RayJob with {where} cannot be retried", "remove backoffLimit")
    if mode != "SidecarMode":
        return
    for field in ("submitterPodTemplate", "submitterConfig", "clusterSelector"):
        if at(manifest, f"/spec/{field}") is not None:
            yield Objection(f"/spec/{field}", f"SidecarMode has no {field}: the submitter runs in the head's pod", "remove it")
    head = "/spec/rayClusterSpec/headGroupSpec/template/spec/restartPolicy"
    if text(manifest, head, "Never") != "Never":
        yield Objection(head, "in SidecarMode the head's pod is not restarted", "write Never")


def _cluster(manifest: Mapping[str, Any], spec: str) -> Iterator[Objection]:
    head = f"{spec}/headGroupSpec"
    yield from _group(manifest, head, "the head")
    scaled = at(manifest, f"{spec}/enableInTreeAutoscaling") is True
    names: set[str] = set()
    for index, group in items(manifest, f"{spec}/workerGroupSpecs"):
        place, name = f"{spec}/workerGroupSpecs/{index}", text(group, "/groupName")
        yield from _group(manifest, place, f"worker group {name}")
        yield from _size(group, place, name)
        if name in names:
            yield Objection(f"{place}/groupName", f"two worker groups are named {name}", "choose another name")
        names.add(name)
        if scaled and group.get("suspend") is True:
            yield Objection(f"{place}/suspend", f"worker group {name} cannot be suspended and scaled", "remove one of the two")
    if scaled and text(manifest, f"{spec}/autoscalerOptions/version") == "v2":
        groups = [head, *(f"{spec}/workerGroupSpecs/{index}" for index, _ in items(manifest, f"{spec}/workerGroupSpecs"))]
        for place in (f"{group}/template/spec/restartPolicy" for group in groups):
            if text(manifest, place, "Never") != "Never":
                yield Objection(place, "version v2 of the autoscaler replaces pods, which do not restart", "write Never")
    for index, variable in items(manifest, f"{head}/template/spec/containers/0/env"):
        if text(variable, "/name") == "RAY_enable_autoscaler_v2" and text(variable, "/value") in ("1", "true") and not scaled:
            pointer = f"{head}/template/spec/containers/0/env/{index}"
            message = "the autoscaler is turned on here and off in the spec"
            yield Objection(pointer, message, "write `enableInTreeAutoscaling: true`")
    yield from _storage(manifest, spec)


def _group(manifest: Mapping[str, Any], place: str, shown: str) -> Iterator[Objection]:
    if not any(True for _ in items(manifest, f"{place}/template/spec/containers")):
        yield Objection(f"{place}/template/spec/containers", f"{shown} has no container", "add one; the first is Ray's")
    parameters = mapping(manifest, f"{place}/rayStartParams")
    stated = [name for name in PARAMETERS if parameters.get(name)]
    if stated and mapping(manifest, f"{place}/resources"):
        yield Objection(f"{place}/rayStartParams/{stated[0]}", f"{shown} states its resources twice", "keep `resources`")
    if "labels" in parameters:
        yield Objection(f"{place}/rayStartParams/labels", "labels are not a start parameter any more", "write them into `labels`")
    for problem in label_problems(mapping(manifest, f"{place}/labels"), f"{place}/labels"):
        yield Objection(problem.pointer, problem.message, problem.fix)


def _size(group: Mapping[str, Any], place: str, name: str) -> Iterator[Objection]:
    least, most = number(group, "/minReplicas", 0), number(group, "/maxReplicas", 2**31 - 1)
    replicas = number(group, "/replicas", least)
    if least > most:
        message = f"worker group {name} has a minimum of {least} and a maximum of {most}"
        yield Objection(f"{place}/minReplicas", message, "swap them")
    elif replicas > most or (replicas and replicas < least):  # 0 is the default (utils/util.go, GetWorkerGroupDesiredReplicas)
        limit = "maxReplicas" if replicas > most else "minReplicas"
        message = f"worker group {name} asks for {replicas} replicas, and {limit} of it start: {min(max(replicas, least), most)}"
        yield Objection(f"{place}/replicas", message, f"write the same number in replicas and {limit}", "TW714")


def _storage(manifest: Mapping[str, Any], spec: str) -> Iterator[Objection]:
    """Redis for a head that survives: in one place, gcsFaultToleranceOptions."""
    options, head = mapping(manifest, f"{spec}/gcsFaultToleranceOptions"), f"{spec}/headGroupSpec"
    enabled = text(manifest, "/metadata/annotations/ray.io~1ft-enabled")
    if options and enabled:
        pointer = "/metadata/annotations/ray.io~1ft-enabled"
        yield Objection(pointer, "fault tolerance is configured twice", "keep gcsFaultToleranceOptions")
    if options and text(manifest, f"{head}/rayStartParams/redis-password"):
        pointer = f"{head}/rayStartParams/redis-password"
        yield Objection(pointer, "the password of Redis is set twice", "keep gcsFaultToleranceOptions")
    for index, variable in items(manifest, f"{head}/template/spec/containers/0/env"):
        name = text(variable, "/name")
        twice = bool(options) and name in ("REDIS_PASSWORD", "RAY_REDIS_ADDRESS")
        if twice or (name == "RAY_REDIS_ADDRESS" and enabled.lower() != "true") or name == "REDIS_USERNAME":
            pointer = f"{head}/template/spec/containers/0/env/{index}"
            yield Objection(pointer, f"{name} does not belong here", "use only gcsFaultToleranceOptions")
