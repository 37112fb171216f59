"""Releases of KubeRay."""

from __future__ import annotations

from trainwright.cluster.addons import Releases
from trainwright.operators.base import Crd, GangFlag, KnownOperator

FLAG = GangFlag(schedulers={"volcano": "volcano", "scheduler-plugins": "scheduler-plugins-scheduler"})
KUBERAY = KnownOperator("kuberay", Releases((1, 3), (1, 7)), Crd("rayjobs.ray.io", "v1"), FLAG)
"""From 1.3 on the entrypoint keeps its quotes (kuberay #2949), and a submitter that is lost finds its job again (#2154). The
schedulers are constants of ray-operator/controllers/ray/batchscheduler."""
