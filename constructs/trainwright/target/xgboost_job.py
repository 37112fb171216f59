"""XGBoostJob of the Kubeflow Training Operator (kubeflow.org/v1): a master, where the tracker runs, and workers."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.handshake import Binding, Gang, Guarantee, Needs, OperatorName, Refusal, Rendezvous, Role
from trainwright.manifest import volumes
from trainwright.manifest.pod import template_constants
from trainwright.manifest.provenance import Owned, Tree
from trainwright.manifest.scheduling import top_labels
from trainwright.plan import Resolution
from trainwright.target import kubeflow
from trainwright.target.base import Releases, Unshared
from trainwright_trainer.contract.layout import RENDEZVOUS_PORT

KIND = "XGBoostJob"
REPLICAS = "/spec/xgbReplicaSpecs"


class XGBoostJob(Unshared):
    """Pods ``<name>-master-0`` and ``<name>-worker-<i>``, each behind a headless Service of its own name."""

    name = "xgboost-job"
    title = "XGBoostJob"
    operator: OperatorName | None = "training-operator"
    releases: Releases | None = kubeflow.RELEASES
    kueue = "kubeflow.org/xgboostjob"
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, tuple[str, str]] = {
        "master": (KIND, f"{REPLICAS}/Master/template"),
        "worker": (KIND, f"{REPLICAS}/Worker/template"),
    }
    mutable: Mapping[str, tuple[str, ...]] = {}

    def bind(self, needs: Needs) -> Binding | Refusal:
        if needs.rendezvous is not Rendezvous.DMLC_TRACKER:
            reason = f"the operator numbers its pods for a tracker, which makes no rendezvous of kind {needs.rendezvous.value}"
            return Refusal(reason, "choose a target whose operator makes it")
        master = Role(name="master", pods=1, host="{name}-master-{index}", container="xgboost")
        workers = Role(name="worker", pods=needs.nodes - 1, host="{name}-worker-{index}", container="xgboost")
        several = needs.nodes > 1
        return Binding(
            roles=(master, workers) if several else (master,),
            rank_zero_host="{name}-master-0",
            rendezvous_port=RENDEZVOUS_PORT,
            node_index_env="RANK",
            port_name="xgboostjob-port",
            injects={**_INJECTED, **(_INJECTED_WITH_WORKERS if several else {})},
            counts_init_failures=kubeflow.COUNTS_INIT_FAILURES,
            peer_list=("WORKER_ADDRS", "{host},"),
            gang=Gang.OPERATOR,
            guarantees=frozenset(Guarantee),
            generated_names=("{name}-master-0", *((f"{{name}}-worker-{needs.nodes - 2}",) if several else ())),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [*volumes.configuration(resolution), _job(resolution)]

    constants: Mapping[str, str] = {
        **volumes.CONSTANTS,
        **kubeflow.constants(KIND),
        f"{KIND}{REPLICAS}": "the pods of the run",
        f"{KIND}{REPLICAS}/Master": "the first node, where the tracker listens; the others find it by its name",
        f"{KIND}{REPLICAS}/Worker": "the other nodes",
        **template_constants(f"{KIND}{REPLICAS}/Master/template"),
        **template_constants(f"{KIND}{REPLICAS}/Worker/template"),
    }

    owned: Mapping[str, tuple[Owned, ...]] = {"ConfigMap": volumes.OWNED, KIND: kubeflow.owned(REPLICAS, "Master|Worker")}


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
    plan = resolution.plan
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": KIND,
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": top_labels(resolution)},
        "spec": {
            "runPolicy": kubeflow.run_policy(resolution),
            "xgbReplicaSpecs": kubeflow.replica_specs(resolution),
        },
    }
