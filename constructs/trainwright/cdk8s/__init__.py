"""Trainwright for cdk8s: constructs for a chart author's own app, and the writer of ``dist/``.

Importing this package starts Node. Import it before ``cdk8s``, which otherwise looks for a Node on the PATH only.
"""

import sys

from trainwright.cdk8s.node import NodeError, prepare_node

if "jsii" not in sys.modules:
    prepare_node()

from trainwright.cdk8s.fields import RunFields
from trainwright.cdk8s.job import Monitoring, RunWarning, TrainingJob
from trainwright.cdk8s.plus import beside, init, sidecar
from trainwright.cdk8s.topologies import (
    DDPJob,
    HorovodJob,
    IndependentJob,
    JAXJob,
    MPIJob,
    MultiWorkerMirroredJob,
    ParameterServerJob,
    RayJob,
    XGBoostJob,
    ZeRO3Job,
)
from trainwright.cdk8s.writer import write_files

__all__ = [
    "DDPJob", "HorovodJob", "IndependentJob", "JAXJob", "MPIJob", "Monitoring", "MultiWorkerMirroredJob", "NodeError",
    "ParameterServerJob", "RayJob", "RunFields", "RunWarning", "TrainingJob", "XGBoostJob", "ZeRO3Job", "beside", "init",
    "sidecar", "write_files",
]
