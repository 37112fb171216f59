"""Fixed names and numbers that the compiler renders and the trainer expects."""

SPEC_ENV = "TRAINWRIGHT_SPEC"
"""Environment variable with the path of the run specification."""
SPEC_DIRECTORY = "/etc/trainwright"
SPEC_FILE = "run.json"
DEEPSPEED_FILE = "ds_config.json"
"""DeepSpeed's own configuration, beside the specification in the same ConfigMap."""
SECRET_DIRECTORY = "/run/secrets/trainwright"  # noqa: S105 - a path
SECRET_FILE = "control"  # noqa: S105 - a name
"""The secret by which the pods of a run know each other, where the cluster's profile names one."""
BIND_ENV = "TRAINWRIGHT_BIND_ADDRESS"
"""Environment variable with the address to listen on: the pod's own IP."""
ROLE_ENV = "TRAINWRIGHT_ROLE"
"""Environment variable that holds ``launcher`` or ``worker``, under an operator that says so in none of its own."""
TERMINATION_PATH_ENV = "TRAINWRIGHT_TERMINATION_PATH"
"""Environment variable with another place for the termination message than the kubelet's."""
CHECKPOINT_ENV = "TRAINWRIGHT_CHECKPOINT_DIRECTORY"
"""Environment variable that tells a program which is not ours where its run's checkpoints go."""
RESUME_ENV = "TRAINWRIGHT_RESUME_DIRECTORY"
"""Environment variable that tells such a program a directory to start from, which it only reads."""
TRAINER_COMMAND = ("trainwright-trainer",)
"""Our program, in an image that has it."""
SUPERVISE_COMMAND = (*TRAINER_COMMAND, "supervise")
BROUGHT_FOLDER = "/trainwright-supervisor"
"""Where a pod finds the supervisor that it brings along, if its image has none."""
IMAGE_FOLDER = "/self"
"""The same folder in its own image, whose root it is: a link to the root, for Python looks for its library in no root."""
HAND_FOLDER = "lib/hand"
"""Below that folder: what a script's own Python imports of us, and no more, for ``PYTHONPATH``."""
BRING_MODULE = "trainwright_trainer.supervisor.bring"
"""Copies it there, from its own image."""


def brought_python(folder: str) -> tuple[str, ...]:
    """The Python of such a folder, by the loader and libraries beside it: neither the image nor its variables matter to it."""
    return f"{folder}/lib/ld.so", "--library-path", f"{folder}/lib", f"{folder}/bin/python3", "-I"


def brought_command(folder: str) -> tuple[str, ...]:
    """Our program in such a folder."""
    return *brought_python(folder), "-m", "trainwright_trainer"


RANK_COMMAND = ("python", "-m", "trainwright_trainer.rank")
"""One rank, where a launcher starts the ranks and not the supervisor."""

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

EXIT_MARGIN_SECONDS = 5.0
"""The end of a grace period, which no save may take: the supervisor's own 3 seconds, and a rank's to get out.

It is in the trainer's own budget for a save, and in what an alert compares a measured save with.
"""
