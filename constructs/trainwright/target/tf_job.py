"""TFJob of the Kubeflow Training Operator (kubeflow.org/v1): workers that know each other by TF_CONFIG, perhaps with a chief."""

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

KIND = "TFJob"
REPLICAS = "/spec/tfReplicaSpecs"
PORT = 2222
"""What TensorFlow's servers listen on by the operator's default."""


class TFJob(Unshared):
    """Pods ``<name>-chief-0`` and ``<name>-worker-<i>``, each behind a headless Service of its own name.

    No Evaluator and no parameter server: the operator lists both in TF_CONFIG's cluster, and MultiWorkerMirroredStrategy waits
    for every task there (tensorflow#46169).
    """

    name = "tf-job"
    title = "TFJob"
    operator: OperatorName | None = "training-operator"
    releases: Releases | None = kubeflow.RELEASES
    kueue = "kubeflow.org/tfjob"
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, tuple[str, str]] = {
        "chief": (KIND, f"{REPLICAS}/Chief/template"),
        "worker": (KIND, f"{REPLICAS}/Worker/template"),
    }
    mutable: Mapping[str, tuple[str, ...]] = {}

    def bind(self, needs: Needs) -> Binding | Refusal:
        if needs.rendezvous is not Rendezvous.TF_CONFIG:
            reason = f"the operator sets TF_CONFIG and nothing else, which makes no rendezvous of kind {needs.rendezvous.value}"
            return Refusal(reason, "choose a target whose operator makes it")
        chief = Role(name="chief", pods=1, host="{name}-chief-{index}", container="tensorflow")
        others = needs.nodes - needs.chief
        workers = Role(name="worker", pods=others, host="{name}-worker-{index}", container="tensorflow")
        roles = ((chief,) if needs.chief else ()) + ((workers,) if others else ())
        return Binding(
            roles=roles,
            rank_zero_host="{name}-chief-0" if needs.chief else "{name}-worker-0",
            rendezvous_port=PORT,
            node_index_env=None,  # a pod's own place is in TF_CONFIG
            port_name="tfjob-port",
            injects=_INJECTED if needs.nodes > 1 else {},
            counts_init_failures=kubeflow.COUNTS_INIT_FAILURES,
            peer_list=("TF_CONFIG", f'"{{host}}.{{namespace}}.svc:{PORT}",'),
            gang=Gang.OPERATOR,
            guarantees=frozenset(Guarantee),
            generated_names=tuple(f"{{name}}-{role.name}-{role.pods - 1}" for role in roles),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [*volumes.configuration(resolution), _job(resolution)]

    constants: Mapping[str, str] = {
        **volumes.CONSTANTS,
        **kubeflow.constants(KIND),
        f"{KIND}/spec/successPolicy": "the run is done when the chief is, or worker 0 where there is no chief",
        f"{KIND}{REPLICAS}": "the pods of the run",
        f"{KIND}{REPLICAS}/Chief": "the first node: it writes what is written once",
        f"{KIND}{REPLICAS}/Worker": "the nodes; worker 0 is chief where no other is",
        **template_constants(f"{KIND}{REPLICAS}/Chief/template"),
        **template_constants(f"{KIND}{REPLICAS}/Worker/template"),
    }

    owned: Mapping[str, tuple[Owned, ...]] = {
        "ConfigMap": volumes.OWNED,
        KIND: (
            *kubeflow.owned(REPLICAS, "Chief|Worker"),
            Owned(r"/spec/successPolicy", "when the run is done", "remove it: workers end after the chief"),
            Owned(r"/spec/enableDynamicWorker", "the list of workers", "remove it: every worker must know all others"),
        ),
    }


_INJECTED = {"TF_CONFIG": "addresses of all tasks, and the pod's own place among them"}
"""Appended after the run's own, in container `tensorflow`, where there is more than one pod
(pkg/controller.v1/tensorflow/tfjob_controller.go)."""


def _job(resolution: Resolution) -> Tree:
    plan = resolution.plan
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": KIND,
        "metadata": {"name": plan.name, "namespace": plan.namespace, "labels": top_labels(resolution)},
        "spec": {
            "runPolicy": kubeflow.run_policy(resolution),
            "successPolicy": "",
            "tfReplicaSpecs": kubeflow.replica_specs(resolution),
        },
    }
