"""The RayCluster of a RayJob and its submitter, and the pods of a RayCluster (ray-project/kuberay at v1.7).

ray-operator/controllers/ray/common/{pod,job,service}.go and batchscheduler/. Left out, where an object asks for them: the
autoscaler's container, fault tolerance of the GCS, tokens, TLS, the history server, and the submitter as a container of the head.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import ROUND_CEILING
from typing import Any

import yaml

from trainwright.manifest.gang import SCHEDULERS
from trainwright.objects.formats import amount
from trainwright.objects.requests import requested
from trainwright.operators.job.pods import pods as pods_of_job
from trainwright.operators.kuberay.releases import FLAG, KUBERAY
from trainwright.operators.operator import Around, Awaited, Made, Pod, Size, Tree, child

CREATED = {"app.kubernetes.io/created-by": "kuberay-operator"}
PORTS = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}
"""Of a head whose container names none."""
BASH = ["/bin/bash", "-c", "--"]
AGENT_PORT = 52365
SUBMITTER = "submitter"
"""It is made when the cluster is ready: all its pods are (rayjob_controller.go, Initializing)."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108  # a mount, no temporary file


def pods(manifest: Mapping[str, Any], around: Around) -> Made:
    return _of_cluster(manifest, around) if manifest["kind"] == "RayCluster" else _of_job(manifest, around)


def resized(manifest: Mapping[str, Any], around: Around, size: Size) -> Tree:
    """Ray takes its options at their word, and starts no node with GPUs that it does not see."""
    smaller: Tree = copy.deepcopy(dict(manifest))
    spec = smaller["spec"]["rayClusterSpec"] if manifest["kind"] == "RayJob" else smaller["spec"]
    for group in spec.get("workerGroupSpecs", ()):
        size.fewer(group, "replicas", "minReplicas", "maxReplicas")
    if size.processes is not None:
        for group in (spec["headGroupSpec"], *spec.get("workerGroupSpecs", ())):
            group["rayStartParams"] = {**group.get("rayStartParams", {}), "num-gpus": "0"}
    return smaller


def _origin(job: Mapping[str, Any]) -> dict[str, str]:
    return {"ray.io/originated-from-cr-name": job["metadata"]["name"], "ray.io/originated-from-crd": "RayJob"}


def _of_job(job: Mapping[str, Any], around: Around) -> Made:
    """The cluster exists as long as the job runs. Ids of a submission end in letters of their own."""
    of_job, mode = job["metadata"], job["spec"].get("submissionMode", "K8sJobMode")
    labels = {**of_job.get("labels", {}), **_origin(job), "ray.io/job-submission-mode": mode}
    metadata = {"labels": labels, **({"annotations": of_job["annotations"]} if of_job.get("annotations") else {})}
    name = f"{of_job['name']}-{around.suffix}"
    cluster = child(job, "RayCluster", name, "ray.io/v1", metadata=metadata, spec=copy.deepcopy(job["spec"]["rayClusterSpec"]))
    made = _of_cluster(cluster, around)
    identifier = {"ray.io/node-type": "head", "ray.io/identifier": f"{of_job['name']}-head"}
    service = child(job, "Service", f"{of_job['name']}-head-svc", metadata={"labels": {**_origin(job), **identifier}}, spec={
        **_head_service(cluster), "selector": {**_head_labels(cluster), "app.kubernetes.io/name": "kuberay"},
    })  # fmt: skip
    objects = [*_pod_group(job, around), cluster, service, *made.objects]
    if mode != "K8sJobMode":
        return Made(made.pods, objects)
    limit = (job["spec"].get("submitterConfig") or {}).get("backoffLimit", 2)
    submitter = child(job, "Job", of_job["name"], "batch/v1", metadata={"labels": {**_origin(job), **CREATED}}, spec={
        "backoffLimit": limit, "template": _submitter(job, cluster, around),
    })  # fmt: skip
    [started] = pods_of_job(submitter, around).pods
    ready = tuple(Awaited(role, "Ready") for role in dict.fromkeys(pod.role for pod in made.pods))
    return Made([*made.pods, replace(started, role=SUBMITTER, after=ready)], [*objects, submitter])


def _submitter(job: Mapping[str, Any], cluster: Tree, around: Around) -> Tree:
    spec, submission = job["spec"], f"{job['metadata']['name']}-{around.suffix}"
    template: Tree = copy.deepcopy(spec.get("submitterPodTemplate")) or {"spec": {
        "restartPolicy": "Never",
        "containers": [{
            "name": "ray-job-submitter",
            "image": spec["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "200Mi"}},
        }],
    }}  # fmt: skip
    metadata, container = template.setdefault("metadata", {}), template["spec"]["containers"][0]
    metadata["labels"] = {**metadata.get("labels", {}), **_origin(job), **CREATED}
    dashboard = f"{_head_host(cluster)}:{_ports(cluster).get('dashboard', PORTS['dashboard'])}"
    if not container.get("command"):
        container |= {"command": ["/bin/bash", "-ce", "--"], "args": [_submission(spec, f"http://{dashboard}", submission)]}
    told = {"PYTHONUNBUFFERED": "1", "RAY_DASHBOARD_ADDRESS": dashboard, "RAY_JOB_SUBMISSION_ID": submission}
    container.setdefault("env", []).extend({"name": name, "value": value} for name, value in told.items())
    _schedule(template["spec"], metadata, job, "submitter", around)
    return template


def _submission(spec: Mapping[str, Any], address: str, submission: str) -> str:
    """What the submitter runs: it waits for the dashboard, submits unless that has been done, and follows the log."""
    probe = f"r=urllib.request.urlopen('{address}/api/gcs_healthz', timeout=10); exit(0 if b'success' in r.read() else 1)"
    environment, metadata = _environment(spec), spec.get("metadata")
    counts = {"cpus": spec.get("entrypointNumCpus"), "gpus": spec.get("entrypointNumGpus")}
    options = [
        *(f"--{name}-json {_quoted(value)}" for name, value in (("runtime-env", environment), ("metadata", metadata)) if value),
        f"--submission-id {submission}",
        *(f"--entrypoint-num-{name} {count:f}" for name, count in counts.items() if count),
        *([f"--entrypoint-resources {json.dumps(spec['entrypointResources'])}"] if spec.get("entrypointResources") else []),
    ]
    return (
        f'until python -c "import urllib.request; {probe}" >/dev/null 2>&1 ; '
        f'do echo "Waiting for Ray Dashboard GCS to become healthy at {address} ..." ; sleep 2 ; done ; '
        f"if ! ray job status --address {address} {submission} >/dev/null 2>&1 ; "
        f"then ray job submit --address {address} --no-wait {' '.join(options)} -- {spec.get('entrypoint', '').strip()} ; fi ; "
        f"ray job logs --address {address} --follow {submission}"
    )


def _environment(spec: Mapping[str, Any]) -> object:
    try:
        return yaml.safe_load(spec.get("runtimeEnvYAML", ""))
    except yaml.YAMLError:
        raise ValueError("runtimeEnvYAML is not YAML") from None


def _quoted(value: object) -> str:
    return json.dumps(json.dumps(value, separators=(",", ":"), sort_keys=True))


def _of_cluster(cluster: Mapping[str, Any], around: Around) -> Made:
    head = cluster["spec"]["headGroupSpec"]
    made = [_pod(cluster, "head", "headgroup", head, 0, around)]
    for group in cluster["spec"].get("workerGroupSpecs", ()):
        made += [_pod(cluster, "worker", group["groupName"], group, index, around) for index in range(_workers(group))]
    metadata = {"labels": _head_labels(cluster)}
    service = child(cluster, "Service", _head_name(cluster), metadata=metadata, spec=_head_service(cluster))
    of_job = cluster["metadata"].get("labels", {}).get("ray.io/originated-from-crd") == "RayJob"
    return Made(made, [service, *([] if of_job and around.gangs.get(KUBERAY.name) == "volcano" else _pod_group(cluster, around))])


def _workers(group: Mapping[str, Any]) -> int:
    least, most = group.get("minReplicas", 0), group.get("maxReplicas", 2**31 - 1)
    return 0 if group.get("suspend") else min(max(group.get("replicas", 0), least), most) * int(group.get("numOfHosts", 1))


def _head_name(cluster: Mapping[str, Any]) -> str:
    own = cluster["spec"]["headGroupSpec"].get("headService", {}).get("metadata", {}).get("name")
    return str(own or f"{cluster['metadata']['name']}-head-svc")


def _head_host(cluster: Mapping[str, Any]) -> str:
    return f"{_head_name(cluster)}.{cluster['metadata'].get('namespace', 'default')}.svc.cluster.local"


def _head_labels(cluster: Mapping[str, Any]) -> dict[str, str]:
    """What the head's Service selects. Pods keep an ``app.kubernetes.io/name`` of their own, and the Service then takes that."""
    template = cluster["spec"]["headGroupSpec"]["template"].get("metadata", {}).get("labels", {})
    name = cluster["metadata"]["name"]
    return {
        "ray.io/cluster": name, "ray.io/node-type": "head", "ray.io/identifier": f"{name}-head",
        "app.kubernetes.io/name": template.get("app.kubernetes.io/name", "kuberay"), **CREATED,
    }  # fmt: skip


def _ports(cluster: Mapping[str, Any]) -> dict[str, int]:
    container = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    return {port.get("name", f"{port['containerPort']}-port"): port["containerPort"] for port in container.get("ports", ())}


def _head_service(cluster: Mapping[str, Any]) -> Tree:
    ports = {"metrics": PORTS["metrics"], **(_ports(cluster) or PORTS)}
    return {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": _head_labels(cluster),
        "ports": [{"name": name, "port": port, "appProtocol": "tcp"} for name, port in sorted(ports.items())],
    }


def _pod(cluster: Mapping[str, Any], kind: str, group: str, spec: Mapping[str, Any], index: int, around: Around) -> Pod:
    """One pod, whose container starts Ray.

    Args:
        kind: ``head`` or ``worker``.
        group: of workers, or ``headgroup``.
        spec: of the group.
        index: among its pods.
    """
    name, template = cluster["metadata"]["name"], copy.deepcopy(spec["template"])
    pod, own, parameters = template["spec"], template.get("metadata", {}), dict(spec.get("rayStartParams", {}))
    container = pod["containers"][0]
    of_head, host = cluster["spec"]["headGroupSpec"].get("rayStartParams", {}), _head_host(cluster)
    gcs = str(of_head.get("port", PORTS["gcs-server"]))
    ip = {"FQ_RAY_IP": host, "RAY_IP": _head_name(cluster)}
    if kind == "worker":
        pod["initContainers"] = [*pod.get("initContainers", []), _waiting(container, f"{host}:{gcs}")]
    if all(port.get("name") != "metrics" for port in container.get("ports", ())):
        container.setdefault("ports", []).append({"name": "metrics", "containerPort": PORTS["metrics"]})
    command = _start(kind, parameters, container, f"{host}:{gcs}")
    _mount_shared_memory(pod, container, parameters)
    overwrite = cluster["metadata"].get("annotations", {}).get("ray.io/overwrite-container-cmd") == "true"
    said = " ".join([*container.get("command", ()), *container.get("args", ())])
    if not overwrite and "ray start" not in said:
        limited = f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {command}"
        container |= {"command": BASH, "args": [f"{said}  && {limited}" if said else limited]}
    for one in pod.get("initContainers", ()):
        one.setdefault("env", []).extend({"name": key, "value": value} for key, value in ip.items())
    container.setdefault("env", []).extend(_variables(kind, cluster, container, command, ip, gcs))
    _probe(kind, container, parameters, str(cluster["spec"].get("rayVersion", "")))
    labels = {
        "ray.io/is-ray-node": "yes", "ray.io/identifier": f"{name}-{kind}", "app.kubernetes.io/name": "kuberay", **CREATED,
        **own.get("labels", {}), "ray.io/cluster": name, "ray.io/node-type": kind, "ray.io/group": group,
        **({"ray.io/worker-group-replica-index": str(index // spec.get("numOfHosts", 1))} if kind == "worker" else {}),
    }  # fmt: skip
    annotations = {**own.get("annotations", {}), **({"ray.io/ft-enabled": "false"} if kind == "head" else {})}
    prefix = f"{(name if kind == 'head' else f'{name}-{group}')[:_LONGEST]}-{kind}-"
    metadata = {"generateName": prefix, "labels": labels, **({"annotations": annotations} if annotations else {})}
    _schedule(pod, metadata, cluster, group, around)
    made = child(cluster, "Pod", f"{prefix}{around.suffix}", metadata=metadata, spec=pod)
    if kind == "head":
        return Pod("head", 0, _head_name(cluster), made)
    kept = name[: max(1, _LONGEST - len(group) - 1)]  # a stand-in: KubeRay cuts the group off too, and draws the rest
    return Pod(group, index, f"{kept}-{group}-worker-{index}", made)


_LONGEST = 50
"""Of a pod's name, before what it is and five drawn characters (utils.PodName)."""


def _waiting(container: Tree, address: str) -> Tree:
    """The container that waits for the head, with what the worker's own has around it."""
    check = f"ray health-check --address {address}"
    script = f"""
SECONDS=0
while true; do
\tif (( SECONDS <= 120 )); then
\t\tif {check} > /dev/null 2>&1; then
\t\t\techo "GCS is ready."
\t\t\tbreak
\t\tfi
\t\techo "$SECONDS seconds elapsed: Waiting for GCS to be ready."
\telse
\t\tif {check}; then
\t\t\techo "GCS is ready. Any error messages above can be safely ignored."
\t\t\tbreak
\t\tfi
\t\techo "$SECONDS seconds elapsed: Still waiting for GCS to be ready. For troubleshooting, refer to the FAQ at \
https://docs.ray.io/en/master/cluster/kubernetes/troubleshooting.html."
\tfi
\tsleep 5
done
"""
    fields = ("image", "imagePullPolicy", "securityContext", "env", "volumeMounts")
    copied: Tree = copy.deepcopy({field: container[field] for field in fields if field in container})
    resources = {"cpu": "200m", "memory": "256Mi"}
    indented = "\n".join(f"\t\t\t\t\t{line}" if line else line for line in script.split("\n")[:-1]) + "\n\t\t\t\t"
    return {
        "name": "wait-gcs-ready",
        **copied,
        "command": BASH,
        "args": [indented],
        "resources": {"limits": resources, "requests": dict(resources)},
    }


def _start(kind: str, parameters: dict[str, str], container: Tree, address: str) -> str:
    """The command, and in ``parameters`` its options: those of the run win."""
    limits, requests = ((container.get("resources") or {}).get(field) or {} for field in ("limits", "requests"))
    gpus = next((value for name, value in sorted(limits.items()) if name.endswith("gpu")), None)
    found = {
        **({"address": address} if kind == "worker" else {"dashboard-host": "0.0.0.0"}),  # noqa: S104  # as KubeRay writes it
        "metrics-export-port": str(PORTS["metrics"]),
        "dashboard-agent-listen-port": str(AGENT_PORT),
        **_whole("num-cpus", limits.get("cpu") or requests.get("cpu")),
        **_whole("memory", limits.get("memory")),
        **_whole("num-gpus", gpus),
    }
    parameters |= {"block": "true", **{key: value for key, value in found.items() if key not in parameters}}
    return f"ray start {'--head ' if kind == 'head' else ''}{''.join(_options(parameters))}"


def _options(parameters: Mapping[str, str]) -> Iterator[str]:
    for name, value in sorted(parameters.items()):
        switch = value.lower() in ("true", "false") and name not in ("log-color", "include-dashboard", "include-log-monitor")
        if not switch or value.lower() == "true":
            yield f" --{name} " if switch else f" --{name}={value} "


def _whole(name: str, value: object) -> dict[str, str]:
    number = amount(value)
    return {name: str(number.to_integral_value(ROUND_CEILING))} if number else {}


def _mount_shared_memory(pod: Tree, container: Tree, parameters: Mapping[str, str]) -> None:
    if "plasma-directory" in parameters or any(one["mountPath"] == SHARED_MEMORY for one in container.get("volumeMounts", ())):
        return
    limit = requested([(1, {"containers": [container]})]).get("memory")
    if all(volume["name"] != "shared-mem" for volume in pod.get("volumes", ())):
        directory = {"medium": "Memory", **({"sizeLimit": limit} if limit else {})}
        pod.setdefault("volumes", []).append({"name": "shared-mem", "emptyDir": directory})
    container.setdefault("volumeMounts", []).append({"name": "shared-mem", "mountPath": SHARED_MEMORY})


def _variables(
    kind: str, cluster: Mapping[str, Any], container: Tree, command: str, ip: Mapping[str, str], gcs: str
) -> list[Tree]:
    there = {variable["name"] for variable in container.get("env", ())}
    fields = {
        "RAY_CLUSTER_NAME": "metadata.labels['ray.io/cluster']", "RAY_CLUSTER_NAMESPACE": "metadata.namespace",
        "RAY_CLOUD_INSTANCE_ID": "metadata.name", "RAY_NODE_TYPE_NAME": "metadata.labels['ray.io/group']",
    }  # fmt: skip
    missing = {
        "RAY_PORT": gcs,
        "RAY_ADDRESS": f"{'127.0.0.1' if kind == 'head' else ip['FQ_RAY_IP']}:{gcs}",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
    }
    crd = cluster["metadata"].get("labels", {}).get("ray.io/originated-from-crd", "RayCluster")
    tags = {"RAY_USAGE_STATS_EXTRA_TAGS": f"kuberay_version=nightly;kuberay_crd={crd}"} if kind == "head" else {}
    disk = {"RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1"}
    return [
        *({"name": name, "value": value} for name, value in (ip if kind == "worker" else {}).items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
        {"name": "KUBERAY_GEN_RAY_START_CMD", "value": command},
        *({"name": name, "value": value} for name, value in missing.items() if name not in there),
        *({"name": name, "value": value} for name, value in tags.items()),
        *({"name": name, "value": value} for name, value in disk.items() if name not in there),
    ]


def _probe(kind: str, container: Tree, parameters: Mapping[str, str], version: str) -> None:
    """One address since Ray 2.53; before that, and where no version is stated, wget."""
    port, seconds = int(parameters["dashboard-agent-listen-port"]), 5 if kind == "head" else 2
    asked = [f"wget --tries 1 -T 2 -q -O- http://localhost:{port}/api/local_raylet_healthz | grep success"]
    if kind == "head":
        dashboard = parameters.get("dashboard-port", PORTS["dashboard"])
        asked.append(f"wget --tries 1 -T 10 -q -O- http://localhost:{dashboard}/api/gcs_healthz | grep success")
    major, minor = ([*(int(part) for part in version.split(".")[:2] if part.isdigit()), 0, 0])[:2]
    how = {"httpGet": {"path": "/api/healthz", "port": port}} if (major, minor) >= (2, 53) else {
        "exec": {"command": ["bash", "-c", " && ".join(asked)]}
    }  # fmt: skip
    for name, first, failures in (("livenessProbe", 30, 120), ("readinessProbe", 10, 10)):
        times = {"initialDelaySeconds": first, "timeoutSeconds": seconds, "periodSeconds": 5, "failureThreshold": failures}
        container.setdefault(name, {**times, **copy.deepcopy(how)})


def _group_name(owner: Mapping[str, Any], gang: str) -> str:
    """Volcano's is the RayJob's; the one of coscheduling is the cluster's."""
    name = owner["metadata"]["name"]
    labels = owner["metadata"].get("labels", {})
    return f"ray-{labels.get('ray.io/originated-from-cr-name', name)}-pg" if gang == "volcano" else str(name)


def _schedule(pod: Tree, metadata: Tree, owner: Mapping[str, Any], group: str, around: Around) -> None:
    """The scheduler of the flag, whatever the template says, and the group."""
    flag, labels = around.gangs.get(KUBERAY.name), owner["metadata"].get("labels", {})
    if not flag:
        return
    pod["schedulerName"] = FLAG.scheduler(flag, pod.get("schedulerName"))
    gang = FLAG.groups_for(flag)
    if gang == "volcano" or (gang and "ray.io/gang-scheduling-enabled" in labels):
        SCHEDULERS[gang].join(metadata, _group_name(owner, gang))
    if gang == "volcano":
        metadata["annotations"]["volcano.sh/task-spec"] = group
        copied = ("volcano.sh/queue-name", "ray.io/priority-class-name")
        metadata["labels"] |= {key: labels[key] for key in copied if labels.get(key)}


def _pod_group(owner: Mapping[str, Any], around: Around) -> list[Tree]:
    """Head and workers must start together; a submitter counts only for what it asks for, since it waits for them."""
    gang, labels = FLAG.groups_for(around.gangs.get(KUBERAY.name)), owner["metadata"].get("labels", {})
    is_job = owner["kind"] == "RayJob"
    spec = owner["spec"]["rayClusterSpec"] if is_job else owner["spec"]
    counted = [(1, spec["headGroupSpec"]["template"]["spec"])]
    counted += [(_workers(group), group["template"]["spec"]) for group in spec.get("workerGroupSpecs", ())]
    members = sum(count for count, _ in counted)
    if gang == "coscheduling" and "ray.io/gang-scheduling-enabled" in labels and not is_job:
        group = {"minMember": members, "minResources": requested(counted)}
        return [child(owner, "PodGroup", _group_name(owner, gang), SCHEDULERS[gang].api_version, spec=group)]
    if gang != "volcano":
        return []
    if is_job and owner["spec"].get("submissionMode", "K8sJobMode") == "K8sJobMode" and owner["spec"].get("submitterPodTemplate"):
        counted.append((1, owner["spec"]["submitterPodTemplate"]["spec"]))
    group = {"minMember": members, "minResources": requested(counted)}
    group |= {"queue": labels["volcano.sh/queue-name"]} if "volcano.sh/queue-name" in labels else {}
    group |= {"priorityClassName": labels["ray.io/priority-class-name"]} if "ray.io/priority-class-name" in labels else {}
    return [child(owner, "PodGroup", _group_name(owner, gang), SCHEDULERS[gang].api_version, spec=group)]
