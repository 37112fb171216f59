"""The control channel of a run: between whom it is, and how its ends know each other."""

from __future__ import annotations

from trainwright.cluster import Cluster
from trainwright.handshake import Needs, Rendezvous
from trainwright.plan.model import ControlPlan
from trainwright.run import CommandWorkload, Run
from trainwright_trainer.contract.layout import SECRET_DIRECTORY, SECRET_FILE

_CONNECTED = frozenset({Rendezvous.STATIC, Rendezvous.DMLC_TRACKER, Rendezvous.C10D, Rendezvous.RAY_HEAD})
"""Where supervisors meet over a port. Those of tf-config are not connected, and under mpirun ssh has keys of its own."""


def plan_control(run: Run, cluster: Cluster, needs: Needs) -> ControlPlan | None:
    """None where no supervisor listens for another: one node, tasks of TF_CONFIG, or a command of the run's own."""
    if isinstance(run.workload, CommandWorkload) or needs.most_nodes == 1:
        return None
    if needs.rendezvous is Rendezvous.MPI_HOSTFILE:
        return ControlPlan(None, None, None, "authenticated by the ssh keys that the operator makes for the run")
    if needs.rendezvous not in _CONNECTED:
        return None
    namespace = cluster.namespaces.get(run.namespace)
    if namespace is None or namespace.control_secret is None:
        return ControlPlan(None, None, None, "not authenticated: pods name run and attempt, and prove nothing")
    secret = namespace.control_secret
    shown = f"authenticated by Secret {secret.name}, key {secret.key}"
    return ControlPlan(secret.name, secret.key, f"{SECRET_DIRECTORY}/{SECRET_FILE}", shown)
