"""Releases of JobSet."""

from __future__ import annotations

from trainwright.cluster.addons import Releases
from trainwright.operators.base import Crd, KnownOperator

JOB_SET_OPERATOR = KnownOperator("jobset", Releases((0, 8), (0, 13)), Crd("jobsets.jobset.x-k8s.io", "v1alpha2"))
