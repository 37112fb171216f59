"""A run on this one machine: its world played by one supervised pod, without Kubernetes."""

from trainwright_trainer.commands.local.pod import LocalPod, PodFailedError
from trainwright_trainer.commands.local.ports import free_port, free_ports, own_port
from trainwright_trainer.commands.local.world import LocalRun, local_run, with_directory

__all__ = ["LocalPod", "LocalRun", "PodFailedError", "free_port", "free_ports", "local_run", "own_port", "with_directory"]
