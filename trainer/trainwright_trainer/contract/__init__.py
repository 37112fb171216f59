"""The seam between compiler and trainer: pydantic only, no torch.

The compiler renders a :class:`RunSpec` and reads the tables (exit codes, metrics, layout); the trainer obeys them.
"""

from trainwright_trainer.contract.boosting import Boosting
from trainwright_trainer.contract.exit_codes import (
    EXIT_CODES,
    IN_PLACE,
    Cause,
    Disposition,
    ExitCode,
    TerminationMessage,
    codes_with,
)
from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.contract.spec import (
    API_VERSION,
    ElasticRendezvous,
    Lifecycle,
    MPIRendezvous,
    RayRendezvous,
    Rendezvous,
    RunSpec,
    Script,
    StaticRendezvous,
    TFConfigRendezvous,
    TrackerRendezvous,
    World,
)
from trainwright_trainer.contract.training import Training

__all__ = [
    "API_VERSION", "EXIT_CODES", "IN_PLACE", "METRICS", "Boosting", "Cause", "Disposition", "ElasticRendezvous", "ExitCode",
    "Lifecycle", "MPIRendezvous", "RayRendezvous", "Rendezvous", "RunSpec", "Script", "StaticRendezvous", "TFConfigRendezvous",
    "TerminationMessage", "TrackerRendezvous", "Training", "World", "codes_with",
]
