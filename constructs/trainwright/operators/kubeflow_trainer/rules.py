"""Kubeflow Trainer v2: what the webhooks of TrainJob and its runtimes refuse (kubeflow/trainer, pkg/webhooks/ at v2.3).

Whether the runtime exists, and what it makes of the job, only the cluster knows.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import at
from trainwright.objects.fields import items, mapping, number, text
from trainwright.objects.metadata import not_a_service_label
from trainwright.objects.problem import Objection
from trainwright.operators.job.rules import job_problems
from trainwright.operators.jobset.defaults import fill_in_job
from trainwright.operators.jobset.rules import refused_later

RESERVED = frozenset(
    (
        "PET_NNODES",
        "PET_NPROC_PER_NODE",
        "PET_NODE_RANK",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
        "DMLC_TRACKER_URI",
        "DMLC_TRACKER_PORT",
        "DMLC_TASK_ID",
        "DMLC_NUM_WORKER",
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_plm_rsh_args",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
    )
)
"""Variables that the plugins for torch, XGBoost and MPI write; each is refused where its plugin is the runtime's."""

CONTAINERS = {"trainer": "node", "dataset-initializer": "dataset-initializer", "model-initializer": "model-initializer"}
"""Value of the ancestor label -> the container that the operator looks for."""

ANCESTOR = "/template/metadata/labels/trainer.kubeflow.org~1trainjob-ancestor-step"
POLICIES = ("torch", "mpi", "jax", "xgboost", "flux")


def train_job(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    name = text(manifest, "/metadata/name")
    nodes = number(manifest, "/spec/trainer/numNodes", 1)
    longest = f"{name}-node-0-{max(nodes - 1, 0)}-abcde"
    if reason := not_a_service_label(longest):
        message = f"the operator derives pod names such as {longest}, which {reason}"
        yield Objection("/metadata/name", message, "choose a shorter name")
    for index, variable in items(manifest, "/spec/trainer/env"):
        if text(variable, "/name") in RESERVED:
            pointer = f"/spec/trainer/env/{index}/name"
            yield Objection(pointer, f"the operator writes {text(variable, '/name')} itself", "remove it")
    for index, patch in items(manifest, "/spec/runtimePatches"):
        if "/" not in text(patch, "/manager"):
            pointer = f"/spec/runtimePatches/{index}/manager"
            yield Objection(pointer, "a manager is a domain and a path", "write one such as example.com/platform")


def training_runtime(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    jobs = "/spec/template/spec/replicatedJobs"
    for index, job in items(manifest, jobs):
        yield from _ancestor(job, f"{jobs}/{index}")
        made = copy.deepcopy(job)
        fill_in_job(made)
        for problem in job_problems(at(made, "/template")):
            if problem.code == "TW705":  # the operator writes completions and parallelism itself
                yield refused_later(problem, f"{jobs}/{index}/template")
    policies = [name for name in POLICIES if name in mapping(manifest, "/spec/mlPolicy")]
    if len(policies) > 1:
        message = f"a runtime has only one of {', '.join(POLICIES)}"
        yield Objection(f"/spec/mlPolicy/{policies[1]}", message, f"keep {policies[0]}")
    gangs = [name for name in ("coscheduling", "volcano") if name in mapping(manifest, "/spec/podGroupPolicy")]
    if len(gangs) > 1:
        yield Objection("/spec/podGroupPolicy/volcano", "a runtime has only one gang scheduler", "keep coscheduling or volcano")


def _ancestor(job: Mapping[str, Any], place: str) -> Iterator[Objection]:
    wanted = CONTAINERS.get(text(job, ANCESTOR))
    if wanted is None:
        return
    if number(job, "/replicas", 1) != 1:
        message = f"replicated job {text(job, '/name')} must have one replica"
        yield Objection(f"{place}/replicas", message, "write 1, or remove `replicas`")
    pod = "/template/spec/template/spec/containers"
    if not any(text(container, "/name") == wanted for _, container in items(job, pod)):
        message = f"no container of {text(job, '/name')} is named {wanted}, the one that the operator looks for"
        yield Objection(f"{place}{pod}", message, f"name it {wanted}")
