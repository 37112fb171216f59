"""PyTorchJob of the Kubeflow Training Operator (kubeflow.org/v1): a master and workers, or elastic workers."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.handshake import Binding, Gang, Guarantee, Needs, OperatorName, Refusal, Rendezvous, Role
from trainwright.manifest import volumes
from trainwright.manifest.pod import template_constants
from trainwright.manifest.provenance import Owned, Tree, Why
from trainwright.manifest.scheduling import top_labels
from trainwright.plan import Resolution
from trainwright.target import kubeflow
from trainwright.target.base import Releases, Unshared
from trainwright_trainer.contract.layout import RENDEZVOUS_PORT

KIND = "PyTorchJob"
REPLICAS = "/spec/pytorchReplicaSpecs"


class PyTorchJob(Unshared):
    """Pods ``<name>-master-0`` and ``<name>-worker-<i>``, each behind a headless Service of its own name."""

    name = "pytorch-job"
    title = "PyTorchJob"
    operator: OperatorName | None = "training-operator"
    releases: Releases | None = kubeflow.RELEASES
    kueue = "kubeflow.org/pytorchjob"
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, tuple[str, str]] = {
        "master": (KIND, f"{REPLICAS}/Master/template"),
        "worker": (KIND, f"{REPLICAS}/Worker/template"),
    }
    mutable: Mapping[str, tuple[str, ...]] = {}

    def bind(self, needs: Needs) -> Binding | Refusal:
        if needs.rendezvous is Rendezvous.C10D:
            return _elastic(needs)
        if needs.rendezvous is not Rendezvous.STATIC:
            reason = f"the operator tells pods what torchrun reads, which makes no rendezvous of kind {needs.rendezvous.value}"
            return Refusal(reason, "choose a target whose operator makes it")
        master = Role(name="master", pods=1, host="{name}-master-{index}", container="pytorch")
        workers = Role(name="worker", pods=needs.nodes - 1, host="{name}-worker-{index}", container="pytorch")
        return Binding(
            roles=(master, workers) if needs.nodes > 1 else (master,),
            rank_zero_host="{name}-master-0",
            rendezvous_port=RENDEZVOUS_PORT,
            node_index_env="PET_NODE_RANK",
            port_name="pytorchjob-port",
            injects={**_INJECTED, **_INJECTED_STATIC},
            counts_init_failures=kubeflow.COUNTS_INIT_FAILURES,
            gang=Gang.OPERATOR,
            guarantees=frozenset(Guarantee),
            generated_names=("{name}-master-0", f"{{name}}-worker-{max(0, needs.nodes - 2)}"),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [*volumes.configuration(resolution), _job(resolution)]

    constants: Mapping[str, str] = {
        **volumes.CONSTANTS,
        **kubeflow.constants(KIND),
        "PyTorchJob/spec/elasticPolicy": "nodes may come and go between these sizes",
        "PyTorchJob/spec/elasticPolicy/rdzvBackend": "torch's own store, on worker 0: ranks are numbered as they come",
        "PyTorchJob/spec/elasticPolicy/rdzvConf": "a lost node is noticed in about 8 s; with torch's defaults it takes 45 s",
        "PyTorchJob/spec/pytorchReplicaSpecs": "the pods of the run",
        "PyTorchJob/spec/pytorchReplicaSpecs/Master": "the first node: the others find it by its name",
        "PyTorchJob/spec/pytorchReplicaSpecs/Worker": "the other nodes; all nodes of an elastic run",
        **template_constants(f"{KIND}{REPLICAS}/Master/template"),
        **template_constants(f"{KIND}{REPLICAS}/Worker/template"),
    }

    owned: Mapping[str, tuple[Owned, ...]] = {
        "ConfigMap": volumes.OWNED,
        KIND: (
            *kubeflow.owned(REPLICAS, "Master|Worker"),
            Owned(r"/spec/nprocPerNode", "the ranks in a pod", "change topology"),
            Owned(r"/spec/elasticPolicy.*", "how the run may grow and shrink", "change topology.elastic"),
        ),
    }


_INJECTED = {
    "PYTHONUNBUFFERED": "1",
    "PET_NPROC_PER_NODE": "nprocPerNode",
    "PET_NNODES": "the number of pods, or min:max of an elastic run",
}
_INJECTED_STATIC = {
    "MASTER_ADDR": "the master's name",
    "MASTER_PORT": "the master's port",
    "PET_MASTER_ADDR": "the master's name",
    "PET_MASTER_PORT": "the master's port",
    "WORLD_SIZE": "pods x nprocPerNode",
    "RANK": "the pod's number, not the rank's",
    "PET_NODE_RANK": "the pod's number: the master is 0, worker i is i + 1",
}
_INJECTED_ELASTIC = {
    "PET_RDZV_ENDPOINT": "worker 0 and its port",
    "PET_RDZV_BACKEND": "c10d",
    "PET_MAX_RESTARTS": "maxRestarts",
    "PET_RDZV_CONF": "rdzvConf",
    "PET_RDZV_ID": "nothing: the run does not set it",
    "PET_STANDALONE": "nothing: the run does not set it",
}
"""Variables that the operator appends after the run's own, so that a run's is lost (pkg/controller.v1/pytorch/envvar.go)."""


def _elastic(needs: Needs) -> Binding:
    """Workers only: with a master the operator counts the workers alone, and the master joins a rendezvous that is full."""
    assert needs.elastic is not None  # noqa: S101 - a c10d rendezvous is asked for by elastic topologies alone
    return Binding(
        roles=(Role(name="worker", pods=needs.nodes, host="{name}-worker-{index}", container="pytorch"),),
        rank_zero_host="{name}-worker-0",
        rendezvous_port=RENDEZVOUS_PORT,
        node_index_env=None,
        port_name="pytorchjob-port",
        injects={**_INJECTED, **_INJECTED_ELASTIC},
        counts_init_failures=kubeflow.COUNTS_INIT_FAILURES,
        gang=Gang.OPERATOR,
        guarantees=frozenset(Guarantee),
        generated_names=(f"{{name}}-worker-{needs.elastic.maximum - 1}",),
    )


def _job(resolution: Resolution) -> Tree:
    plan, needs = resolution.plan, resolution.needs
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": KIND,
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": top_labels(resolution)},
        "spec": {
            "runPolicy": kubeflow.run_policy(resolution),
            "nprocPerNode": Why(str(needs.processes_per_node), "run:/topology", "a number: with auto the world size counts pods"),
            **_elastic_policy(resolution),
            "pytorchReplicaSpecs": kubeflow.replica_specs(resolution),
        },
    }


def _elastic_policy(resolution: Resolution) -> Tree:
    elastic = resolution.needs.elastic
    if elastic is None:
        return {}
    return {
        "elasticPolicy": {
            "minReplicas": Why(elastic.minimum, "run:/topology/elastic/min_nodes", "with fewer nodes the run waits"),
            "maxReplicas": Why(elastic.maximum, "run:/topology/elastic/max_nodes", "more nodes are not let in"),
            "rdzvBackend": "c10d",
            "maxRestarts": Why(resolution.run.restarts, "run:/restarts", "failures of ranks before an agent gives up"),
            "rdzvConf": [
                {"key": "last_call_timeout", "value": str(elastic.last_call_seconds)},
                {"key": "keep_alive_interval", "value": str(elastic.keep_alive_seconds)},
                {"key": "keep_alive_max_attempt", "value": str(elastic.keep_alive_attempts)},
            ],
        }
    }
