"""TF_CONFIG: the list of all tasks and this pod's own, as an operator writes it for TensorFlow.

The chief is node 0, and worker i follows; without a chief worker 0 is it, as ``MultiWorkerMirroredStrategy`` has it
(tensorflow/python/distribute/multi_worker_util.py). The training operator sets the variable only where there is more than one pod
(kubeflow/training-operator, pkg/controller.v1/tensorflow/tensorflow.go).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainwright_trainer.contract.spec import World
from trainwright_trainer.supervisor.place import Control, PodPlace, bind_address, host_name, mismatch

TF_CONFIG_ENV = "TF_CONFIG"
_ROLES = ("chief", "worker")


@dataclass(frozen=True, slots=True)
class Tasks:
    """The tasks of a run, by node index."""

    addresses: tuple[str, ...]
    """``host:port`` of each; empty for a run of one pod without the variable."""
    node: int

    @property
    def first(self) -> tuple[str, str]:
        """Host and port of node 0."""
        if not self.addresses:
            return "127.0.0.1", "0"
        host, _, port = self.addresses[0].rpartition(":")
        return host, port


def tasks(environ: Mapping[str, str], world: World) -> Tasks:
    """Read and check ``TF_CONFIG``.

    Raises :class:`Refusal` with TOPOLOGY_MISMATCH where it is missing from a run of several pods, cannot be read, lists other
    tasks than ``world.nodes``, or has tasks that do not train: a parameter server, or an evaluator, for which the others would
    wait (tensorflow#46169).
    """
    text = environ.get(TF_CONFIG_ENV)
    if not text:
        if world.nodes == 1:
            return Tasks((), 0)
        raise mismatch(
            f"{TF_CONFIG_ENV} is not set in this pod and world.nodes is {world.nodes}; an operator such as TFJob's sets it"
        )
    cluster, kind, index = _read(text)
    if others := sorted(role for role in cluster if role not in _ROLES and cluster[role]):
        raise mismatch(
            f"{TF_CONFIG_ENV} lists {' and '.join(others)}, and MultiWorkerMirroredStrategy knows chief and worker alone; "
            "remove those replicas from the job"
        )
    by_role = {role: _addresses(role, cluster.get(role, [])) for role in _ROLES}
    addresses = tuple(address for role in _ROLES for address in by_role[role])
    if len(addresses) != world.nodes:
        raise mismatch(
            f"{TF_CONFIG_ENV} lists {len(addresses)} tasks and world.nodes is {world.nodes}; "
            "make the job's replicas agree with it"
        )
    if kind not in _ROLES or not 0 <= index < len(by_role[kind]):
        raise mismatch(f"{TF_CONFIG_ENV} says that this pod is {kind} {index}, which is not in its own list of tasks")
    return Tasks(addresses, index + (len(by_role["chief"]) if kind == "worker" else 0))


def tf_place(environ: Mapping[str, str], world: World) -> PodPlace:
    """Where this pod stands by its ``TF_CONFIG``. Raises as :func:`tasks` does."""
    found = tasks(environ, world)
    control = None
    if world.control_port is not None and world.nodes > 1:
        control = Control(found.first[0], world.control_port, world.nodes)
    return PodPlace(found.node, bind_address(environ), host_name(environ), control)


def _read(text: str) -> tuple[dict[str, Any], str, int]:
    try:
        document = json.loads(text)
        cluster, task = dict(document["cluster"]), document["task"]
        return cluster, str(task["type"]), int(task["index"])
    except (ValueError, TypeError, KeyError) as error:
        raise mismatch(
            f"{TF_CONFIG_ENV} cannot be read ({type(error).__name__}: {error}); it must be JSON with cluster and task, "
            "as TensorFlow documents it"
        ) from None


def _addresses(role: str, listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list):
        raise mismatch(
            f"{TF_CONFIG_ENV} lists the {role} tasks as {type(listed).__name__} and not as a list; "
            "remove enableDynamicWorker from the job: every worker must know all others"
        )
    return tuple(map(str, listed))
