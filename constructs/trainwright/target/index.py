"""The completion index of a Job's pods, by which targets that are made of Jobs number their nodes."""

from __future__ import annotations

from trainwright.handshake import Rendezvous

INDEX_VARIABLES = {Rendezvous.STATIC: "PET_NODE_RANK", Rendezvous.DMLC_TRACKER: "DMLC_TASK_ID"}
"""What a program that our supervisor does not start reads its pod's index from; other rendezvous need more than an index."""

INDEX_LABEL = "metadata.labels['batch.kubernetes.io/job-completion-index']"
"""Set by the Job controller (feature PodIndexLabel, on by default since Kubernetes 1.28)."""

INJECTED = {"JOB_COMPLETION_INDEX": "the pod's completion index, set by the Job controller"}
