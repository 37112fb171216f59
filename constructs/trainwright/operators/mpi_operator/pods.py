"""The workers of an MPIJob, the Job of its launcher, and what is beside them (kubeflow/mpi-operator at v0.8).

pkg/controller/{mpi_job_controller,podgroup}.go, after the controller's own defaults (pkg/apis/kubeflow/v2beta1/default.go).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainwright.manifest.gang import SCHEDULERS
from trainwright.objects.requests import requested
from trainwright.operators.job.pods import pods as pods_of_job
from trainwright.operators.mpi_operator.releases import FLAG, MPI_OPERATOR
from trainwright.operators.operator import Around, Awaited, Made, Pod, Size, Tree, child
from trainwright.rendezvous.mpi import HOSTFILE

LABEL, OPERATOR = "training.kubeflow.org/", MPI_OPERATOR.name
RETRY = "-o ConnectionAttempts=10"
OF_IMPLEMENTATION: Mapping[str, Mapping[str, str | None]] = {
    "OpenMPI": {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_orte_default_hostfile": HOSTFILE, "OMPI_MCA_plm_rsh_args": RETRY,
        "OMPI_MCA_orte_set_default_slots": None,
    },
    "Intel": {"I_MPI_HYDRA_HOST_FILE": HOSTFILE, "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": RETRY, "I_MPI_PERHOST": None},
    "MPICH": {"HYDRA_HOST_FILE": HOSTFILE, "HYDRA_LAUNCH_EXTRA_ARGS": RETRY},
}  # fmt: skip
"""Variables of the launcher; None stands for the slots of a worker."""
NO_GPUS = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
"""Of a launcher that holds no ranks."""


def pods(manifest: Mapping[str, Any], around: Around) -> Made:
    """Workers first, and all of them running: ``discover_hosts.sh`` lists those that run."""
    spec, name = manifest["spec"], manifest["metadata"]["name"]
    namespace, is_worker = manifest["metadata"].get("namespace", "default"), bool(spec.get("runLauncherAsWorker"))
    workers = [_worker(manifest, index, around) for index in range(_workers(spec))]
    app = {"labels": {"app": name}}
    launcher = child(manifest, "Job", f"{name}-launcher", "batch/v1", metadata=app, spec={
        **{key: spec["runPolicy"][key] for key in POLICY if key in spec.get("runPolicy", {})},
        "template": _launcher(manifest, around),
        "podReplacementPolicy": "Failed",
    })  # fmt: skip
    [started] = pods_of_job(launcher, around).pods
    waits = (Awaited("worker", "Ready"),) if spec.get("launcherCreationPolicy") == "WaitForWorkersReady" and workers else ()
    names = [*([f"{name}-launcher"] if is_worker else []), *(worker.manifest["metadata"]["name"] for worker in workers)]
    hosts = [f"{one}.{name}.{namespace}.svc" for one in names]
    slots, between = spec.get("slotsPerWorker", 1), " slots=" if spec.get("mpiImplementation", "OpenMPI") == "OpenMPI" else ":"
    data = {
        "hostfile": "".join(f"{host}{between}{slots}\n" for host in hosts),
        "discover_hosts.sh": "#!/bin/sh\n" + "".join(f"echo {host}\n" for host in sorted(hosts)),
    }
    keys = {"ssh-privatekey": "", "ssh-publickey": ""}
    service: Tree = {"clusterIP": "None", "selector": {f"{LABEL}operator-name": OPERATOR, f"{LABEL}job-name": name}}
    service |= {"publishNotReadyAddresses": True} if is_worker else {}
    return Made([*workers, replace(started, role="launcher", host=f"{name}-launcher.{name}", after=waits)], [
        child(manifest, "Service", name, metadata=app, spec=service),
        child(manifest, "ConfigMap", f"{name}-config", metadata=app, data=data),
        child(manifest, "Secret", f"{name}-ssh", metadata=app, type="kubernetes.io/ssh-auth", data=keys),
        launcher,
        *_pod_group(manifest, around),
    ])  # fmt: skip


def resized(manifest: Mapping[str, Any], around: Around, size: Size) -> Tree:
    job: Tree = copy.deepcopy(dict(manifest))
    spec = job["spec"]
    size.fewer(spec["mpiReplicaSpecs"].get("Worker", {}), "replicas", taken=bool(spec.get("runLauncherAsWorker")))
    if size.processes:
        spec["slotsPerWorker"] = size.processes
    return job


POLICY = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
"""What the launcher's Job takes from ``runPolicy``."""


def _workers(spec: Mapping[str, Any]) -> int:
    return int(spec["mpiReplicaSpecs"].get("Worker", {}).get("replicas", 0))


def _worker(manifest: Mapping[str, Any], index: int, around: Around) -> Pod:
    name, padded = f"{manifest['metadata']['name']}-worker-{index}", bool(manifest["spec"].get("runLauncherAsWorker"))
    template = _template(manifest, "worker", around)
    template["metadata"]["labels"][f"{LABEL}replica-index"] = str(index + padded)
    spec = template["spec"]
    spec["hostname"] = name
    domain = f"{manifest['metadata']['name']}.{manifest['metadata'].get('namespace', 'default')}.svc.cluster.local"
    dns = spec.setdefault("dnsConfig", {})
    dns["searches"] = [*dns.get("searches", []), domain]
    if not {"command", "args"} & spec["containers"][0].keys():
        spec["containers"][0]["command"] = ["/usr/sbin/sshd", "-De"]
    pod = child(manifest, "Pod", name, metadata=template["metadata"], spec=spec)
    return Pod("worker", index, f"{name}.{manifest['metadata']['name']}", pod)


def _launcher(manifest: Mapping[str, Any], around: Around) -> Tree:
    spec, name = manifest["spec"], manifest["metadata"]["name"]
    template = _template(manifest, "launcher", around)
    template["spec"]["hostname"] = f"{name}-launcher"
    if spec.get("runLauncherAsWorker"):
        template["metadata"]["labels"][f"{LABEL}replica-index"] = "0"
    no_gpus = {} if spec.get("runLauncherAsWorker") else NO_GPUS
    told = {**OF_IMPLEMENTATION[spec.get("mpiImplementation", "OpenMPI")], **no_gpus}
    container = template["spec"]["containers"][0]
    slots = str(spec.get("slotsPerWorker", 1))
    container["env"] += [{"name": key, "value": slots if value is None else value} for key, value in told.items()]
    container["volumeMounts"].append({"name": "mpi-job-config", "mountPath": "/etc/mpi"})
    files = {"hostfile": 0o444, "discover_hosts.sh": 0o555}
    items = [{"key": file, "path": file, "mode": mode} for file, mode in files.items()]
    template["spec"]["volumes"].append({"name": "mpi-job-config", "configMap": {"name": f"{name}-config", "items": items}})
    template["metadata"]["ownerReferences"] = child(manifest, "Pod", name)["metadata"]["ownerReferences"]
    return template


def _template(manifest: Mapping[str, Any], role: str, around: Around) -> Tree:
    """Of a role, with what both have: labels, the name of the Service, and keys."""
    name, replicas = manifest["metadata"]["name"], manifest["spec"]["mpiReplicaSpecs"][role.capitalize()]
    template: Tree = copy.deepcopy(replicas["template"])
    metadata, spec = template.setdefault("metadata", {}), template["spec"]
    told = {f"{LABEL}operator-name": OPERATOR, f"{LABEL}job-name": name, f"{LABEL}job-role": role}
    metadata["labels"] = {**metadata.get("labels", {}), **told}
    if flag := around.gangs.get(OPERATOR):
        spec["schedulerName"] = FLAG.scheduler(flag, spec.get("schedulerName"))
        if gang := FLAG.groups_for(flag):
            SCHEDULERS[gang].join(metadata, name)
    spec["subdomain"] = name
    if spec.get("hostNetwork"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    policy = replicas.get("restartPolicy", {"launcher": "OnFailure", "worker": "Never"}[role])
    spec["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    container, mount = spec["containers"][0], manifest["spec"].get("sshAuthMountPath", "/root/.ssh")
    container.setdefault("env", []).append({"name": "K_MPI_JOB_ROLE", "value": role})
    container.setdefault("volumeMounts", []).append({"name": "ssh-auth", "mountPath": mount})
    files = {"id_rsa": "ssh-privatekey", "id_rsa.pub": "ssh-publickey", "authorized_keys": "ssh-publickey"}
    secret: Tree = {"secretName": f"{name}-ssh", "items": [{"key": key, "path": path} for path, key in files.items()]}
    secret |= {"defaultMode": 0o600} if mount == "/root/.ssh" else {}
    spec.setdefault("volumes", []).append({"name": "ssh-auth", "secret": secret})
    return template


def _pod_group(manifest: Mapping[str, Any], around: Around) -> list[Tree]:
    """The launcher is in it, and counts before the workers where not all must start."""
    gang, name, spec = FLAG.groups_for(around.gangs.get(OPERATOR)), manifest["metadata"]["name"], manifest["spec"]
    if not gang:
        return []
    policy, roles = spec.get("runPolicy", {}).get("schedulingPolicy", {}), spec["mpiReplicaSpecs"]
    least = policy.get("minAvailable", _workers(spec) + 1)
    counts = {"Launcher": 1, "Worker": min(_workers(spec), least - 1)}
    asked = requested((counts[role], replicas["template"]["spec"]) for role, replicas in roles.items())
    group = {"minMember": least, "minResources": policy.get("minResources") or asked}
    if gang != "volcano":
        group["scheduleTimeoutSeconds"] = policy.get("scheduleTimeoutSeconds", 0)
        return [child(manifest, "PodGroup", name, SCHEDULERS[gang].api_version, spec=group)]
    classes = [roles[role]["template"]["spec"].get("priorityClassName") for role in ("Launcher", "Worker") if role in roles]
    annotated = manifest["metadata"].get("annotations", {}).get("scheduling.volcano.sh/queue-name")
    wanted = {
        "queue": policy.get("queue") or annotated,
        "priorityClassName": next(filter(None, [policy.get("priorityClass"), *classes]), None),
    }
    group |= {key: value for key, value in wanted.items() if value}
    return [child(manifest, "PodGroup", name, SCHEDULERS[gang].api_version, spec=group)]
