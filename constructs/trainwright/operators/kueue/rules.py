"""Kueue: what its webhooks refuse of objects in a queue.

pkg/controller/jobs/job/job_webhook.go and pkg/controller/jobframework/tas_validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.findings.locate import escape
from trainwright.manifest.kinds import GroupKind
from trainwright.manifest.pods import pods_in
from trainwright.objects.fields import mapping, number
from trainwright.objects.problem import Objection, written

JOB = GroupKind("batch", "Job")
QUEUE, LEAST = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/job-min-parallelism"
TOPOLOGIES = tuple(f"kueue.x-k8s.io/podset-{name}-topology" for name in ("required", "preferred", "unconstrained"))


def queued(manifest: Mapping[str, Any]) -> Iterator[Objection]:
    notes, queue = mapping(manifest, "/metadata/annotations"), mapping(manifest, "/metadata/labels").get(QUEUE)
    if queue is None and QUEUE in notes:
        message = "Kueue reads the queue from a label, and not from here: the object starts at once, outside of any quota"
        yield Objection(f"/metadata/annotations/{escape(QUEUE)}", message, f"write {QUEUE} under `labels`", "TW714")
    if queue is None:
        return
    least, most = str(notes.get(LEAST, "")), number(manifest, "/spec/parallelism", 1)
    if LEAST in notes and GroupKind.of(manifest) == JOB and not (re.fullmatch("[0-9]{1,9}", least) and 0 < int(least) < most):
        message = f"the least parallelism is {written(notes[LEAST])}, and must be above 0 and below parallelism ({most})"
        yield Objection(f"/metadata/annotations/{escape(LEAST)}", message, "write a smaller number, or remove it")
    for pod in pods_in(manifest):
        asked = [name for name in TOPOLOGIES if name in mapping(pod.template, "/metadata/annotations")]
        if len(asked) > 1:
            place = f"{pod.pointer.removesuffix('/spec')}/metadata/annotations/{escape(asked[1])}"
            yield Objection(place, f"pods have one kind of topology, and these ask for {len(asked)}", f"keep {asked[0]}")
