"""The Job that copies a data set into a claim, once."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from trainwright.findings.locate import escape
from trainwright.identity import short_hash
from trainwright.manifest.data import hub
from trainwright.manifest.data.store import credentials, said_by, settings
from trainwright.manifest.kinds import GroupKind, ObjectKind
from trainwright.manifest.labels import FOUNDATION, MANAGED, namespace_of
from trainwright.manifest.limits import literal
from trainwright.manifest.provenance import Tree, Why, split
from trainwright.manifest.template.scheduling import pool_placement
from trainwright.manifest.template.security import container_security, pod_security
from trainwright.plan import Resolution
from trainwright.plan.model import DataPlan
from trainwright.plan.security import OWN
from trainwright.plan.stated import rank_mount
from trainwright.run import Preparation, Run

VOLUME = "/volume"
LONGEST_CLAIM = 40
"""Characters of a claim's name that go into the Job's; its pods' names must be DNS labels."""


def fetch_jobs(resolution: Resolution) -> list[Tree]:
    """One Job for each data set, named after its content: runs that state the same source share it, and an edit is another Job.

    It lives in the foundation, which can be synced before the runs are, so that no GPU waits for a download.
    """
    jobs = {job_name(resolution, data): data for data in resolution.plan.data}
    return [_job(resolution, name, data) for name, data in jobs.items()]


def job_name(resolution: Resolution, data: DataPlan) -> str:
    """The claim, and a hash of the Job's spec, since a Job cannot be changed."""
    claim = data.claim.replace(".", "-")[:LONGEST_CLAIM].rstrip("-")
    return f"data-{claim}-{short_hash(split(_spec(resolution, data))[0])}"


def _job(resolution: Resolution, name: str, data: DataPlan) -> Tree:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": Why(name, _source(data), "the claim, and a hash of all that is in the Job: a finished Job is never changed"),
            "namespace": namespace_of(resolution.plan),
            "labels": {**MANAGED, **FOUNDATION},
        },
        "spec": _spec(resolution, data),
    }


def _spec(resolution: Resolution, data: DataPlan) -> Tree:
    run, cluster = resolution.run, resolution.cluster
    preparation = run.prepare[data.path]
    pool = next((name for name, pool in cluster.node_pools.items() if pool.gpu is None), next(iter(cluster.node_pools)))
    claim = {"claimName": Why(data.claim, f"{rank_mount(run, data.mount)}/claim", "the claim that the run mounts there")}
    return {
        "backoffLimit": 10,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
        },
        "template": {
            "metadata": {"labels": {**MANAGED, "sidecar.istio.io/inject": "false"}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 30,
                **pool_placement(pool, cluster.node_pools[pool]),
                **_identity(run, data, preparation),
                "enableServiceLinks": False,
                "securityContext": pod_security(OWN),
                "containers": [_container(data, preparation)],
                "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": claim}],
            },
        },
    }


def _identity(run: Run, data: DataPlan, preparation: Preparation) -> Tree:
    """The service account, for the cloud only: clouds issue tokens in their own ways, and the Job never calls the API server."""
    identity: Tree = {}
    if preparation.service_account:
        reason = "the account that the cloud lets in"
        identity["serviceAccountName"] = Why(preparation.service_account, f"{_source(data)}/service_account", reason)
    identity["automountServiceAccountToken"] = False
    if run.image_pull_secrets:
        secrets = [{"name": name} for name in run.image_pull_secrets]
        identity["imagePullSecrets"] = Why(secrets, "run:/image_pull_secrets", "as asked")
    return identity


def _container(data: DataPlan, preparation: Preparation) -> Tree:
    source = _source(data)
    amounts = {
        "cpu": Why(str(preparation.cpu), f"{source}/cpu", "transfers side by side, and digests of what was copied"),
        "memory": Why(str(preparation.memory), f"{source}/memory", "buffers of the transfers, and the list of one folder"),
    }
    return {
        "name": "fetch",
        "image": Why(preparation.image, f"{source}/image", "as asked"),
        **(hub.told(preparation, source, _folder(data)) if preparation.store == "hf" else _rclone(data, preparation, source)),
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": container_security(OWN),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "data", "mountPath": VOLUME}],  # noqa: S108
    }


@cache
def _script() -> str:
    return Path(__file__).with_name("fetch.sh").read_text(encoding="utf-8")


def _folder(data: DataPlan) -> str:
    return literal(posixpath.join(VOLUME, data.folder))


def _rclone(data: DataPlan, preparation: Preparation, source: str) -> Tree:
    """What copies out of an object store: the script, and what it and rclone are told."""
    return {
        "command": ["/bin/sh", "-c", _script()],
        "env": [*_environment(data, preparation), *settings(preparation, source)],
    }


def _environment(data: DataPlan, preparation: Preparation) -> list[Why]:
    source = _source(data)
    reason = "a folder of its own for each source: what a run reads never changes under it"
    path = f"store:{preparation.source.partition('://')[2]}"
    return [
        Why({"name": "SOURCE", "value": literal(path)}, f"{source}/source", "bucket and prefix, as rclone writes them"),
        Why({"name": "FOLDER", "value": _folder(data)}, source, reason),
        Why({"name": "ORIGIN", "value": literal(preparation.source)}, f"{source}/source", "for messages, and for the marker"),
        Why({"name": "CREDENTIALS", "value": credentials(preparation)}, source, "for messages: who reads"),
        Why({"name": "HOME", "value": "/tmp"}, "trainwright", "the root file system is read-only"),  # noqa: S108
    ]


def said(job: Mapping[str, Any], key: str) -> dict[str, Any]:
    """What a run says to get a Job that fetches: the way back of the above.

    Args:
        job: as it was emitted.
        key: the name of the data's own folder, which alone knows the revision.
    """
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    of_hub = container["command"][0] == hub.PROGRAM
    told = hub.said_by(container["command"], container["env"]) if of_hub else said_by(container["env"])
    stated = {"image": container["image"], **told, **container["resources"]["requests"]}
    if account := pod.get("serviceAccountName"):
        stated["service_account"] = account
    again = (number for number in range(2, 1000) if short_hash(Preparation(**stated, revision=number).content) == key)
    if of_hub or short_hash(Preparation(**stated).content) == key:
        return stated
    return {**stated, "revision": next(again, 1)}


def fetches_into(job: Mapping[str, Any], claim: str, folder: str) -> bool:
    """Whether an object is the Job that fills a folder of a claim."""
    pod = (job.get("spec") or {}).get("template", {}).get("spec", {})
    claims = {one.get("persistentVolumeClaim", {}).get("claimName") for one in pod.get("volumes", ())}
    told = [
        word
        for one in pod.get("containers", ())
        for word in (*(one.get("command") or ()), *(each.get("value") for each in one.get("env") or ()))
    ]
    return job.get("kind") == "Job" and claim in claims and literal(posixpath.join(VOLUME, folder)) in told


def _source(data: DataPlan) -> str:
    return f"run:/prepare/{escape(data.path)}"


_POD = "/spec/template/spec"

FETCH_JOB = ObjectKind(
    GroupKind("batch", "Job"),
    reasons={
        "": "fetches a data set once, for all runs of the namespace that read it",
        "/metadata": "in the namespace of the runs that read the data",
        "/metadata/labels": "by these it is found, and known as part of the foundation",
        "/spec/backoffLimit": "a pod that fails leaves what it copied to the next one, which may wait for up to ten minutes",
        "/spec/podReplacementPolicy": "a new pod starts when the old one has ended: two would copy the same files",
        "/spec/podFailurePolicy": "a pod that was evicted or drained costs no try",
        "/spec/template": "the pod that copies",
        "/spec/template/metadata": "no labels of a run: neither its Services nor its monitors mean this pod",
        f"{_POD}/restartPolicy": "a failed pod is replaced by a new one, which podFailurePolicy asks for",
        f"{_POD}/terminationGracePeriodSeconds": "a transfer that is told to end does so at once",
        f"{_POD}/automountServiceAccountToken": "copying needs no access to the API server; clouds bring tokens of their own",
        f"{_POD}/enableServiceLinks": "variables for every Service of the namespace would be noise, and can collide",
        f"{_POD}/securityContext": "as strict as the `restricted` pod security standard; the user whom the runs read as",
        f"{_POD}/containers": "one container: the tool that copies",
        f"{_POD}/containers/0/command": "copies, compares, and writes the marker last; finds the marker and ends the next time",
        f"{_POD}/containers/0/env": "what the tool is told",
        f"{_POD}/containers/0/resources": "requests equal limits",
        f"{_POD}/containers/0/terminationMessagePolicy": "the last lines of the log say what is wrong",
        f"{_POD}/containers/0/securityContext": "as strict as the `restricted` standard, with a read-only root file system",
        f"{_POD}/containers/0/volumeMounts": "scratch, and the whole volume: the script makes folders, as the user it runs as",
        f"{_POD}/volumes": "scratch, and the claim",
    },
)
