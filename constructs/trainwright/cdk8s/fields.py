"""The fields of a run as keyword arguments, for constructs that state the topology themselves."""

# No `from __future__ import annotations` here: with it a TypedDict does not know which of its keys are required.

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict

from cdk8s import Chart
from constructs import Construct

from trainwright.cdk8s.plus import Placed, VolumeOfPlus, without_plus
from trainwright.cluster import Cluster
from trainwright.findings import CompileError
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator
from trainwright.handshake import TargetName
from trainwright.reading import validate_data
from trainwright.run import (
    AnyContainer,
    Batch,
    BoostingWorkload,
    Checkpoints,
    CommandWorkload,
    EnvSource,
    EnvValue,
    ExitCodes,
    Initializers,
    LearningRate,
    Mount,
    NodeAffinity,
    Overrides,
    Placement,
    PodAffinity,
    Preflight,
    Preparation,
    PreStop,
    Probes,
    ResourceClaim,
    Resources,
    RoleParts,
    Run,
    ScriptWorkload,
    TrainerWorkload,
    Waiver,
    Watchdog,
)
from trainwright.security import Security
from trainwright.units import Duration


class RunFields(TypedDict, total=False):
    """All of :class:`trainwright.run.Run` but cluster and topology, with its names and meanings.

    Mounts and containers may be dictionaries, as a run file writes them, and objects of cdk8s-plus.
    """

    run: str
    """Default: the construct's id."""
    namespace: str
    """Default: the chart's namespace."""
    team: Required[str]
    image: Required[str]
    workload: Required[TrainerWorkload | BoostingWorkload | ScriptWorkload | CommandWorkload]
    trainer_version: str
    batch: Batch
    learning_rate: LearningRate
    checkpoints: Checkpoints
    target: TargetName
    runtime: str
    initializer: Initializers
    supervisor: Literal["image", "brought", "none"]
    node_pool: str
    mounts: Mapping[str, Mount | VolumeOfPlus | Mapping[str, Any]]
    prepare: Mapping[str, Preparation]
    files: Mapping[str, str | Mapping[str, Any]]
    file_modes: Mapping[str, str]
    file_folders: Sequence[str]
    host_network: bool
    placement: Placement
    node_affinity: NodeAffinity
    pod_affinity: PodAffinity
    pod_anti_affinity: PodAffinity
    scheduling_gates: Sequence[str]
    runtime_class: str
    queue: str
    priority: str
    gang: bool
    resources: Resources
    roles: Mapping[str, RoleParts]
    containers: Sequence[AnyContainer | Placed | Mapping[str, Any]]
    env: Mapping[str, EnvValue]
    env_from: Sequence[EnvSource]
    security: Security
    service_account: str
    image_pull_secrets: Sequence[str]
    resource_claims: Mapping[str, ResourceClaim]
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod_labels: Mapping[str, str]
    pod_annotations: Mapping[str, str]
    restarts: int
    on_disruption: Literal["restart", "fail"]
    exit_codes: Sequence[ExitCodes]
    peer_wait: Duration | str
    peer_lost: Duration | str
    recovery: Literal["in-place", "whole-job"]
    recovery_wait: Duration | str
    node_lost: Duration | str
    grace: Duration | str
    probes: Probes
    pre_stop: PreStop
    ports: Mapping[str, int]
    deadline: Duration | str
    ttl: Duration | str
    watchdog: Watchdog
    preflight: Preflight
    attempt: int
    state: Literal["active", "done"]
    overrides: Overrides
    waivers: Sequence[Waiver]


def run_from_fields(
    scope: Construct, id: str, cluster: Cluster, topology: Mapping[str, Any], fields: RunFields, locate: Locator
) -> Run:
    """The run that keyword arguments describe; its name is ``id`` and its namespace the chart's where they do not say.

    Raises:
        CompileError: with one finding for each argument that is wrong or missing.
    """
    defaults: dict[str, Any] = {"run": id, "namespace": Chart.of(scope).namespace}
    data = {**defaults, **without_plus(fields, locate), "cluster": cluster.cluster, "topology": topology}
    if data["namespace"] is None:
        fix = "give the Chart a namespace, or pass namespace="
        raise CompileError([found("TW106", locate.run("/namespace"), f"{id} has no namespace", fix)])
    try:
        return validate_data(Run, data, locate.run_file, locate.run_positions)
    except CompileError as error:
        raise error from None  # the findings say it all; pydantic's own error above them would bury them
