"""Releases of Kueue, and what each can do."""

from __future__ import annotations

from trainwright.cluster.addons import Releases
from trainwright.operators.base import Feature

RELEASES = Releases((0, 15), (0, 19))
"""From 0.15 on the API is v1beta2."""
CRD = "workloads.kueue.x-k8s.io"
"""By which a cluster shows that it is installed."""
CLAIMS = Feature((0, 18), "pods with resource claims", "keps/2941-DRA")
ASKS_TRAINER = Feature((0, 17), "TrainJobs of Trainer 2.2 or newer, and of no older one", "kubernetes-sigs/kueue#11931")
FEATURES = (ASKS_TRAINER, CLAIMS)
