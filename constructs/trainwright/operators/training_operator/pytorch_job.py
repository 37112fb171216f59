"""PyTorchJob of the Kubeflow Training Operator (kubeflow.org/v1): a master and workers, or elastic workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trainwright.cluster import Cluster
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.handshake import Binding, Gang, Needs, Refusal, Rendezvous, Role
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.provenance import Tree, Why
from trainwright.manifest.template.scheduling import top_metadata
from trainwright.operators.base import BROUGHT_BACK_ALONE, AddedContainer, KnownOperator, Rule, Target, Template, admitted
from trainwright.operators.training_operator import run_policy
from trainwright.operators.training_operator.releases import TRAINING_OPERATOR
from trainwright.plan import Resolution

if TYPE_CHECKING:
    from trainwright.findings.context import Context

KIND = GroupKind(run_policy.GROUP, "PyTorchJob")
REPLICAS = run_policy.ReplicaSpecs(
    KIND,
    "pytorchReplicaSpecs",
    {"Master": "the first node: the others find it by its name", "Worker": "the other nodes; all nodes of an elastic run"},
)


INIT = AddedContainer("init-pytorch", "alpine:3.10", f"{REPLICAS.pointer}/Worker/template", f"{REPLICAS.pointer}/Master")
"""Before each worker the operator runs a container that looks up the master; pods of an elastic run, which has no master, get
none (pkg/controller.v1/pytorch/initcontainer.go; the image in pkg/config/config.go)."""


def init_container_is_admitted(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """It has no security context of its own, and an image that is not the run's."""
    cluster = context.cluster
    namespace = cluster.namespaces.get(context.run.namespace)
    installed = cluster.operators.get(TRAINING_OPERATOR.name)
    workers = resolution.needs.rendezvous is Rendezvous.STATIC and resolution.needs.nodes > 1
    if not workers or namespace is None or installed is None:
        return
    if namespace.pod_security == "restricted" and not installed.restricted_containers:
        message = f"pod security restricted of namespace {context.run.namespace} refuses the operator's container init-pytorch"
        fix = (
            "give it a restricted security context by the operator's flag --pytorch-init-container-template-file, and write "
            "operators.training-operator.restricted_containers: true; or choose another target, or a namespace of level baseline"
        )
        yield found("TW454", context.locate.cluster("/operators/training-operator"), message, fix)
    image = installed.init_image or INIT.image
    if not cluster.allows(image):
        message = f"cluster {cluster.cluster} does not allow image {image}, of which the operator makes container {INIT.name}"
        fix = (
            f"copy it to {cluster.registries[0]}, name the copy by the operator's flag --pytorch-init-container-image, and write "
            f"it as operators.training-operator.init_image; or add {image} to registries; or choose another target"
        )
        yield found("TW454", context.locate.cluster("/operators/training-operator/init_image"), message, fix)


class PyTorchJob(Target):
    """Pods ``<name>-master-0`` and ``<name>-worker-<i>``, each behind a headless Service of its own name."""

    name = "pytorch-job"
    title = "PyTorchJob"
    kind = KIND
    operator: KnownOperator | None = TRAINING_OPERATOR
    kueue: str | None = "kubeflow.org/pytorchjob"
    queue_writes: tuple[str, ...] = admitted(".spec.pytorchReplicaSpecs[].template")
    hides_unready = run_policy.HIDES_UNREADY
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, Template] = REPLICAS.templates
    adds: tuple[AddedContainer, ...] = (INIT,)
    reserved_labels: tuple[str, ...] = run_policy.RESERVED_LABELS
    rules: tuple[Rule, ...] = (init_container_is_admitted,)

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if not needs.talk:
            return Refusal("the operator makes ranks that meet, and ends the run with the first of them", BROUGHT_BACK_ALONE)
        if needs.rendezvous is Rendezvous.C10D:
            return _elastic(needs)
        if needs.rendezvous is not Rendezvous.STATIC:
            return self.lacks("the operator sets what torchrun reads", needs)
        return Binding(
            roles=run_policy.master_and_workers(needs.nodes, "pytorch"),
            rank_zero_host="{name}-master-0",
            node_index_env="PET_NODE_RANK",
            port_name="pytorchjob-port",
            finds_container=True,
            injects={**_INJECTED, **_INJECTED_STATIC},
            recovery=run_policy.RECOVERY,
            gang=Gang.OPERATOR,
            generated_names=("{name}-master-0", f"{{name}}-worker-{max(0, needs.nodes - 2)}"),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [_job(resolution)]

    kinds: tuple[ObjectKind, ...] = (
        run_policy.training_kind(
            REPLICAS,
            reasons={
                "/spec/elasticPolicy": "nodes may come and go between these sizes",
                "/spec/elasticPolicy/rdzvBackend": "torch's own store, on worker 0: ranks are numbered as they come",
                "/spec/elasticPolicy/rdzvConf": "a lost node is noticed in about 8 s; with torch's defaults it takes 45 s",
            },
            owned=(
                Owned(r"/spec/nprocPerNode", "the ranks in a pod", "change topology"),
                Owned(r"/spec/elasticPolicy.*", "how the run may grow and shrink", "change topology.elastic"),
            ),
        ),
    )


TARGET: Target = PyTorchJob()

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
        port_name="pytorchjob-port",
        finds_container=True,
        injects={**_INJECTED, **_INJECTED_ELASTIC},
        recovery=run_policy.RECOVERY._replace(
            first_ends="the first pod that ends with 0 ends the run, and the operator deletes the others: what one rank saves "
            "alone at the end may be lost. torchrun waits 300 s for the other nodes, another program must wait itself",
        ),
        gang=Gang.OPERATOR,
        generated_names=(f"{{name}}-worker-{needs.elastic.maximum - 1}",),
    )


def _job(resolution: Resolution) -> Tree:
    needs = resolution.needs
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": top_metadata(resolution),
        "spec": {
            "runPolicy": run_policy.run_policy(resolution, run_policy.backoff_limit(resolution)),
            "nprocPerNode": Why(str(needs.processes_per_node), "run:/topology", "a number: with auto the world size counts pods"),
            **_elastic_policy(resolution),
            "pytorchReplicaSpecs": REPLICAS.lower(resolution, run_policy.restart_policy),
        },
    }


def _elastic_policy(resolution: Resolution) -> Tree:
    elastic = resolution.needs.elastic
    if elastic is None:
        return {}
    metrics, asked = [dict(one) for one in elastic.metrics], "as asked: an autoscaler adds and removes workers by them"
    by = {"metrics": Why(metrics, "run:/topology/elastic/metrics", asked)} if metrics else {}
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
            **by,
        }
    }
