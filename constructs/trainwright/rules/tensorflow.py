"""Rules on TensorFlow's TF_CONFIG and the strategy that reads it."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.handshake import Rendezvous
from trainwright.plan import Resolution
from trainwright.rules.context import Context
from trainwright.run import CommandWorkload, ScriptWorkload


def one_pod(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """The operator sets TF_CONFIG where there is more than one pod (tfjob_controller.go)."""
    if resolution.needs.rendezvous is Rendezvous.TF_CONFIG and resolution.needs.nodes == 1:
        message = "one pod gets no TF_CONFIG: the strategy trains on this pod alone, and a program that reads the variable fails"
        yield found("TW422", context.locate.run("/topology/nodes"), message, "raise nodes, or waive this where one pod is meant")


def keras(context: Context, resolution: Resolution) -> Iterator[Finding]:
    """Keras 3 has no ``fit`` for several workers (keras-team/keras#20585)."""
    opaque = isinstance(context.run.workload, CommandWorkload | ScriptWorkload)
    if context.run.env.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):
        return
    if opaque and resolution.needs.rendezvous is Rendezvous.TF_CONFIG and resolution.needs.nodes > 1:
        message = "model.fit of Keras 3 does not run under MultiWorkerMirroredStrategy"
        fix = 'add TF_USE_LEGACY_KERAS: "1" to env and tf_keras to the image; or write a loop around strategy.run, and waive this'
        yield found("TW429", context.locate.run("/workload/command"), message, fix)


PLAN = (one_pod, keras)
