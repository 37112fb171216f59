"""One construct for each topology, with its fields as typed keywords.

The other keywords are the fields of a run. The run is called like the construct (``id``) and lives in the chart's namespace,
unless ``run`` and ``namespace`` say otherwise. Keep the names of runs unique in a namespace: runs that share one share their
checkpoints.
Every construct raises ``CompileError`` with findings where the run has errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Unpack

from constructs import Construct
from pydantic import JsonValue

from trainwright.cdk8s.fields import RunFields, run_from_fields
from trainwright.cdk8s.job import TrainingJob, caller
from trainwright.cluster import Cluster
from trainwright.rendezvous.mpi import MPIName
from trainwright.topology.ray import AutoscaledPods
from trainwright.topology.torch import ElasticNodes
from trainwright.topology.zero import DeepSpeed, Offload
from trainwright_trainer.contract.engine import DDPSettings, FSDP2Settings


class _TopologyJob(TrainingJob):
    """A run whose topology is of one kind, and is stated by the keywords that are not None."""

    _kind: ClassVar[str]

    def __init__(self, scope: Construct, id: str, cluster: Cluster, fields: RunFields, **topology: Any) -> None:
        stated = {"kind": self._kind, **{key: value for key, value in topology.items() if value is not None}}
        super().__init__(scope, id, cluster=cluster, run=run_from_fields(scope, id, cluster, stated, fields, caller()))


class _NodesJob(_TopologyJob):
    """A run whose topology is so many pods with so many GPUs."""

    def __init__(
        self, scope: Construct, id: str, *, cluster: Cluster, nodes: int, gpus_per_node: int, **fields: Unpack[RunFields]
    ) -> None:
        super().__init__(scope, id, cluster, fields, nodes=nodes, gpus_per_node=gpus_per_node)


class DDPJob(_TopologyJob):
    """A run with torch DistributedDataParallel: every rank holds the whole model."""

    _kind = "ddp"

    def __init__(
        self, scope: Construct, id: str, *, cluster: Cluster, nodes: int, gpus_per_node: int,
        processes_per_node: int | None = None, elastic: ElasticNodes | None = None, mpi: MPIName | None = None,
        ddp: DDPSettings | None = None, **fields: Unpack[RunFields],
    ) -> None:
        """With 0 ``gpus_per_node`` it runs on CPUs, ``processes_per_node`` ranks a pod."""
        super().__init__(
            scope, id, cluster, fields, nodes=nodes, gpus_per_node=gpus_per_node, processes_per_node=processes_per_node,
            elastic=elastic, mpi=mpi, ddp=ddp,
        )


class ZeRO3Job(_TopologyJob):
    """A run with ZeRO-3: ranks share weights, gradients and optimizer state among them."""

    _kind = "zero3"

    def __init__(
        self, scope: Construct, id: str, *, cluster: Cluster, nodes: int, gpus_per_node: int,
        engine: Literal["deepspeed", "fsdp2"], processes_per_node: int | None = None, offload: Offload | None = None,
        deepspeed: DeepSpeed | None = None, fsdp2: FSDP2Settings | None = None, elastic: ElasticNodes | None = None,
        **fields: Unpack[RunFields],
    ) -> None:
        """``deepspeed`` and ``fsdp2`` are the settings of the engine of that name; with ``fsdp2`` nodes may come and go."""
        super().__init__(
            scope, id, cluster, fields, engine=engine, nodes=nodes, gpus_per_node=gpus_per_node,
            processes_per_node=processes_per_node, offload=offload, deepspeed=deepspeed, fsdp2=fsdp2, elastic=elastic,
        )


class _MpirunJob(_TopologyJob):
    """A run whose ranks mpirun starts."""

    def __init__(
        self, scope: Construct, id: str, *, cluster: Cluster, nodes: int, gpus_per_node: int,
        processes_per_node: int | None = None, mpi: MPIName = "openmpi", launcher_is_node: bool = False,
        **fields: Unpack[RunFields],
    ) -> None:
        """``processes_per_node`` are the ranks or slots of a pod: one per GPU, or 1 on CPUs, unless stated. With
        ``launcher_is_node`` the launcher's pod is the first of the nodes.
        """
        super().__init__(
            scope, id, cluster, fields, nodes=nodes, gpus_per_node=gpus_per_node, processes_per_node=processes_per_node,
            mpi=mpi, launcher_is_node=launcher_is_node,
        )


class HorovodJob(_MpirunJob):
    """A run with Horovod on torch, under mpirun."""

    _kind = "horovod"


class MPIJob(_MpirunJob):
    """A run of a program of MPI, which the command's own mpirun starts, on any target that takes it (``target``)."""

    _kind = "mpi"


class MultiWorkerMirroredJob(_TopologyJob):
    """A run with TensorFlow's MultiWorkerMirroredStrategy."""

    _kind = "multi-worker-mirrored"

    def __init__(
        self, scope: Construct, id: str, *, cluster: Cluster, nodes: int, gpus_per_node: int, chief: bool = False,
        **fields: Unpack[RunFields],
    ) -> None:
        """``nodes`` counts the chief too."""
        super().__init__(scope, id, cluster, fields, nodes=nodes, gpus_per_node=gpus_per_node, chief=chief)


class IndependentJob(_NodesJob):
    """A run of pods that do not communicate, each with its own share of the work.

    ``nodes`` counts pods; each has its number in ``NODE_RANK``.
    """

    _kind = "independent"


class ParameterServerJob(_TopologyJob):
    """A run of TensorFlow with parameter servers."""

    _kind = "parameter-server"

    def __init__(
        self, scope: Construct, id: str, *, cluster: Cluster, nodes: int, gpus_per_node: int, parameter_servers: int = 1,
        coordinator: bool = False, **fields: Unpack[RunFields],
    ) -> None:
        """``nodes`` are its workers; with ``coordinator`` a chief without GPUs directs them."""
        super().__init__(
            scope, id, cluster, fields, nodes=nodes, gpus_per_node=gpus_per_node, parameter_servers=parameter_servers,
            coordinator=coordinator,
        )


class JAXJob(_NodesJob):
    """A run of JAX, one process a node.

    Each process drives all GPUs of its pod, or CPUs with 0 ``gpus_per_node``.
    """

    _kind = "jax"


class XGBoostJob(_NodesJob):
    """A run with distributed XGBoost, on any target that takes it (``target``); the first pod runs the tracker too.

    One process drives one GPU, or the CPUs of a pod with 0 ``gpus_per_node``.
    """

    _kind = "xgboost"


class RayJob(_TopologyJob):
    """A run with Ray Train on torch: a head and ``nodes`` workers."""

    _kind = "ray"

    def __init__(
        self, scope: Construct, id: str, *, cluster: Cluster, nodes: int, gpus_per_node: int, version: str | None = None,
        autoscaling: Mapping[str, AutoscaledPods] | None = None, runtime_env: Mapping[str, JsonValue] | None = None,
        head_is_node: bool = False, start_params: Mapping[str, Mapping[str, str]] | None = None,
        **fields: Unpack[RunFields],
    ) -> None:
        """``version`` is the release of Ray in the image, where its tag does not say it; with ``autoscaling``, which is by role,
        workers come and go; ``runtime_env`` is what Ray brings to the pods before a command starts. With ``head_is_node`` the
        head is the first of the nodes; ``start_params`` are further options of ``ray start``, by role.
        """
        super().__init__(
            scope, id, cluster, fields, nodes=nodes, gpus_per_node=gpus_per_node, version=version, autoscaling=autoscaling,
            runtime_env=runtime_env, head_is_node=head_is_node, start_params=start_params,
        )
