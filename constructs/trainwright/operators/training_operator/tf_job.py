"""TFJob of the Kubeflow Training Operator (kubeflow.org/v1): workers that know each other by TF_CONFIG, perhaps with a chief."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trainwright.cluster import Cluster
from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.handshake import Binding, Gang, Needs, Refusal, Rendezvous
from trainwright.manifest.kinds import GroupKind, ObjectKind, Owned
from trainwright.manifest.provenance import Tree
from trainwright.manifest.template.scheduling import top_metadata
from trainwright.operators.base import BROUGHT_BACK_ALONE, KnownOperator, Rule, Target, Template, admitted, further_roles
from trainwright.operators.training_operator import run_policy
from trainwright.operators.training_operator.releases import TRAINING_OPERATOR
from trainwright.plan import Resolution
from trainwright.rendezvous.tensorflow import CONTAINER, EVALUATOR, PORT, tasks_of

if TYPE_CHECKING:
    from trainwright.findings.context import Context

KIND = GroupKind(run_policy.GROUP, "TFJob")
INDEX_LABEL = "metadata.labels['training.kubeflow.org/replica-index']"
"""Set on every pod (training-operator v1.9, pkg/controller.v1/common/pod.go)."""
REPLICAS = run_policy.ReplicaSpecs(
    KIND,
    "tfReplicaSpecs",
    {
        "Chief": "the first node: it writes what is written once",
        "Worker": "the nodes; worker 0 is chief where no other is",
        "PS": "parameter servers: they hold the variables, and the workers ask them",
        "Evaluator": "evaluates checkpoints beside the training, and ends with it",
    },
)


def several_pods(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """It sets TF_CONFIG where there is more than one pod (tfjob_controller.go)."""
    if sum(role.pods for role in resolution.binding.roles) == 1:
        message = "one pod gets no TF_CONFIG: the strategy trains on this pod alone, and a program that reads the variable fails"
        yield found("TW422", context.locate.run("/topology/nodes"), message, "raise nodes, or waive this where one pod is meant")


def evaluator_in_the_cluster(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator lists its Evaluator with the tasks that meet (tensorflow.go, genClusterSpec), and the coordinator connects to
    each of them (ParameterServerStrategy, connect_to_cluster)."""
    if EVALUATOR in context.run.roles:
        message = "the operator lists the evaluator in TF_CONFIG's cluster, and the coordinator waits for a server on it"
        fix = "let the program remove cluster.evaluator from TF_CONFIG before it makes its strategy, then waive this"
        yield found("TW331", context.locate.run(f"/roles/{EVALUATOR}"), message, f"{fix}; or use target volcano-job")


class TFJob(Target):
    """Pods ``<name>-chief-0`` and ``<name>-worker-<i>``, each behind a headless Service of its own name.

    Parameter servers are pods ``<name>-ps-<i>``, where a topology asks for them, and beside them a further role ``evaluator`` is
    the operator's. Not beside workers that mirror each other: the operator lists it in TF_CONFIG's cluster, and they wait for
    every task there (tensorflow#46169).
    """

    name = "tf-job"
    title = "TFJob"
    kind = KIND
    operator: KnownOperator | None = TRAINING_OPERATOR
    kueue: str | None = "kubeflow.org/tfjob"
    queue_writes: tuple[str, ...] = admitted(".spec.tfReplicaSpecs[].template")
    hides_unready = run_policy.HIDES_UNREADY
    minimum_kubernetes = (1, 29)
    templates: Mapping[str, Template] = REPLICAS.templates
    reserved_labels: tuple[str, ...] = run_policy.RESERVED_LABELS
    rules: tuple[Rule, ...] = (several_pods, evaluator_in_the_cluster)

    def bind(self, needs: Needs, cluster: Cluster) -> Binding | Refusal:
        if not needs.talk:
            return Refusal("the operator makes tasks that meet, and ends the run with the first worker", BROUGHT_BACK_ALONE)
        if needs.rendezvous is not Rendezvous.TF_CONFIG:
            return self.lacks("the operator only sets TF_CONFIG", needs)
        further, tasks = needs.further, tasks_of(needs)
        if [one.name for one in further] == [EVALUATOR] and not tasks.parameter_servers:
            reason = "workers that mirror each other wait for every task in TF_CONFIG, and an evaluator never joins them"
            return Refusal(reason, "remove the role, and evaluate in the workers", (EVALUATOR,))
        if further and tasks.parameter_servers and [one.name for one in further] != [EVALUATOR]:
            others = tuple(one.name for one in further if one.name != EVALUATOR)
            reason = "beside parameter servers the operator has one more role, an evaluator"
            return Refusal(reason, "call the role evaluator", others)
        if ordered := tuple(one.name for one in further if one.starts != "with" or one.must_end):
            reason = "the operator starts all pods at once, and ends the run with the chief"
            return Refusal(reason, "remove starts and must_end", ordered)
        beside = [one for one in further_roles(needs, "{name}-{role}-{index}", INDEX_LABEL) if one.name == EVALUATOR]
        roles = (*tasks.roles(needs).values(), *(one._replace(container=CONTAINER) for one in beside))
        return Binding(
            roles=roles,
            rank_zero_host="{name}-chief-0" if tasks.chief else "{name}-worker-0",
            rendezvous_port=PORT,
            port_name="tfjob-port",
            finds_container=True,
            injects=_INJECTED if sum(role.pods for role in roles) > 1 else {},
            recovery=run_policy.RECOVERY,
            peer_list=("TF_CONFIG", f'"{{host}}.{{namespace}}.svc:{PORT}",'),
            gang=Gang.OPERATOR,
            generated_names=tuple(f"{{name}}-{role.name}-{role.pods - 1}" for role in roles),
        )

    def lower(self, resolution: Resolution) -> list[Tree]:
        return [_job(resolution)]

    kinds: tuple[ObjectKind, ...] = (
        run_policy.training_kind(
            REPLICAS,
            reasons={"/spec/successPolicy": "the run is done when the chief is, or worker 0 where there is no chief"},
            owned=(
                Owned(r"/spec/successPolicy", "when the run is done", "remove it: workers end after the chief"),
                Owned(r"/spec/enableDynamicWorker", "the list of workers", "remove it: every worker must know all others"),
            ),
        ),
    )


TARGET: Target = TFJob()

_INJECTED = {"TF_CONFIG": "addresses of all tasks, and the pod's own place among them"}
"""Appended after the run's own, in container `tensorflow`, where there is more than one pod
(pkg/controller.v1/tensorflow/tfjob_controller.go)."""


def _job(resolution: Resolution) -> Tree:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": top_metadata(resolution),
        "spec": {
            "runPolicy": run_policy.run_policy(resolution, run_policy.backoff_limit(resolution)),
            "successPolicy": "",
            "tfReplicaSpecs": REPLICAS.lower(resolution, run_policy.restart_policy),
        },
    }
