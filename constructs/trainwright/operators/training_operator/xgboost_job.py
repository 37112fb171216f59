"""XGBoostJob of the Kubeflow Training Operator (kubeflow.org/v1): a master, where the tracker runs, and workers."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.cluster import Cluster
from trainwright.handshake import Binding, Gang, Needs, Refusal, Rendezvous
from trainwright.manifest.kinds import GroupKind, ObjectKind
from trainwright.manifest.provenance import Tree
from trainwright.manifest.template.scheduling import top_metadata
from trainwright.operators.base import BROUGHT_BACK_ALONE, KnownOperator, Target, Template, admitted
from trainwright.operators.training_operator import run_policy
from trainwright.operators.training_operator.releases import TRAINING_OPERATOR
from trainwright.plan import Resolution

KIND = GroupKind(run_policy.GROUP, "XGBoostJob")
REPLICAS = run_policy.ReplicaSpecs(
    KIND,
    "xgbReplicaSpecs",
    {
        "Master": "the first node, where the tracker listens; the others find it by its name",
        "Worker": "the other nodes",
    },
)


class XGBoostJob(Target):
    """Pods ``<name>-master-0`` and ``<name>-worker-<i>``, each behind a headless Service of its own name."""

    name = "xgboost-job"
    title = "XGBoostJob"
    kind = KIND
    operator: KnownOperator | None = TRAINING_OPERATOR
    kueue: str | None = "kubeflow.org/xgboostjob"
    queue_writes: tuple[str, ...] = admitted(".spec.xgbReplicaSpecs[].template")
    hides_unready = run_policy.HIDES_UNREADY
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, Template] = REPLICAS.templates
    reserved_labels: tuple[str, ...] = run_policy.RESERVED_LABELS

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if not needs.talk:
            return Refusal("the operator makes ranks that meet, and ends the run with the first of them", BROUGHT_BACK_ALONE)
        if needs.rendezvous is not Rendezvous.DMLC_TRACKER:
            return self.lacks("the operator only numbers its pods", needs)
        several = needs.nodes > 1
        return Binding(
            roles=run_policy.master_and_workers(needs.nodes, "xgboost"),
            rank_zero_host="{name}-master-0",
            node_index_env="RANK",
            port_name="xgboostjob-port",
            finds_container=True,
            injects={**_INJECTED, **(_INJECTED_WITH_WORKERS if several else {})},
            recovery=run_policy.RECOVERY,
            peer_list=("WORKER_ADDRS", "{host},"),
            gang=Gang.OPERATOR,
            generated_names=("{name}-master-0", *((f"{{name}}-worker-{needs.nodes - 2}",) if several else ())),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [_job(resolution)]

    kinds: tuple[ObjectKind, ...] = (run_policy.training_kind(REPLICAS, reasons={}, owned=()),)


TARGET: Target = XGBoostJob()

_INJECTED = {
    "PYTHONUNBUFFERED": "1",
    "MASTER_ADDR": "the master's name",
    "MASTER_PORT": "the master's port",
    "WORLD_SIZE": "the number of pods",
    "RANK": "the pod's number: the master is 0, worker i is i + 1",
}
_INJECTED_WITH_WORKERS = {
    "WORKER_PORT": "the workers' port",
    "WORKER_ADDRS": "the workers' names, meant for LightGBM",
}
"""Variables that the operator appends after the run's own (pkg/controller.v1/xgboost/xgboost.go). None of them is one of
XGBoost's own DMLC_*: nothing here starts a tracker."""


def _job(resolution: Resolution) -> Tree:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "XGBoostJob",
        "metadata": top_metadata(resolution),
        "spec": {
            "runPolicy": run_policy.run_policy(resolution, run_policy.backoff_limit(resolution)),
            "xgbReplicaSpecs": REPLICAS.lower(resolution, run_policy.restart_policy),
        },
    }
