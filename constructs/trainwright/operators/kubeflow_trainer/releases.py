"""Releases of Kubeflow Trainer, and what each can do."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.cluster.addons import Releases
from trainwright.operators.base import Crd, Feature, KnownOperator
from trainwright.plan import Resolution

GROUP = "trainer.kubeflow.org"
_TYPES = "pkg/apis/trainer/v1alpha1/trainjob_types.go"

PATCHES = Feature((2, 1), "a TrainJob patches labels, mounts, volumes and placement of its pods", _TYPES)
VOLCANO = Feature(
    (2, 1), "gangs of Volcano, by `podGroupPolicy.volcano` of a runtime", "pkg/apis/trainer/v1alpha1/trainingruntime_types.go"
)
RUNTIME_PATCHES = Feature((2, 2), "these patches are `runtimePatches`, and no more `podTemplateOverrides`", _TYPES)
GRACE_PERIOD = Feature((2, 3), "a TrainJob patches the grace period of its pods", "kubeflow/trainer#3324")
DEADLINE = Feature((2, 2), "`activeDeadlineSeconds` of a TrainJob", _TYPES)
LIMITS = Feature((2, 2), "limits of arguments, variables and the image's name of a TrainJob", _TYPES)
POLICIES = Feature((2, 2), "policies for JAX and XGBoost", "pkg/runtime/framework/plugins")
ADMITTED = Feature((2, 2), "what Kueue reads from 0.17 on", "kubernetes-sigs/kueue#11931")

TRAINER = KnownOperator(
    "trainer",
    Releases((2, 0), (2, 3)),
    Crd("trainjobs.trainer.kubeflow.org", "v1alpha1"),
    features=(PATCHES, VOLCANO, RUNTIME_PATCHES, DEADLINE, LIMITS, POLICIES, ADMITTED, GRACE_PERIOD),
)

POD_FIELDS: Mapping[str, Feature] = {
    **dict.fromkeys(("/metadata/labels", "/metadata/annotations"), PATCHES),
    "/spec/terminationGracePeriodSeconds": GRACE_PERIOD,
    **dict.fromkeys(
        (
            "/spec/nodeSelector",
            "/spec/affinity",
            "/spec/tolerations",
            "/spec/serviceAccountName",
            "/spec/imagePullSecrets",
            "/spec/containers/0/volumeMounts",
            "/spec/volumes",
        ),
        PATCHES,
    ),
}
"""What a TrainJob patches of its pods. Everything else is the runtime's, and with 2.0 all of it: two runs that differ in nothing
else share it."""

MOST_ITEMS, LONGEST_ARGUMENT, LONGEST_IMAGE = 128, 65_536, 500
"""Of ``spec.trainer``: arguments and variables, characters of an argument, and of the image (trainjob_types.go)."""


def trainer_has(feature: Feature, resolution: Resolution) -> bool:
    """Of the operator in the cluster; the newest known one where the profile names none, which is a finding of its own."""
    installed = resolution.cluster.operators.get(TRAINER.name)
    return installed is None or feature.of(installed.version)
