"""Fixed names and numbers that the compiler renders and the trainer expects."""

from __future__ import annotations

SPEC_ENV = "TRAINWRIGHT_SPEC"
"""Environment variable with the path of the run specification."""
SPEC_DIRECTORY = "/etc/trainwright"
SPEC_FILE = "run.json"
BIND_ENV = "TRAINWRIGHT_BIND_ADDRESS"
"""Environment variable with the address to listen on: the pod's own IP."""
TERMINATION_PATH_ENV = "TRAINWRIGHT_TERMINATION_PATH"
"""Environment variable with another place for the termination message than the kubelet's."""
SUPERVISE_COMMAND = ("trainwright-trainer", "supervise")

RENDEZVOUS_PORT = 29500
CONTROL_PORT = 29400
HTTP_PORT = 9400

COMPLETE_MARKER = "COMPLETE"
"""File in the state directory that names the identity which reached its target."""
LEDGER_FILE = "attempts.jsonl"

RANK_ENVIRONMENT = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
)
"""What the supervisor sets for each rank, as torchrun would."""
