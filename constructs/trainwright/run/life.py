"""How a script or a command lives: what tells that it is well, what comes before its end, what it listens on."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from trainwright.model import Model
from trainwright.run.containers import HttpPath, PortNumber, Probe
from trainwright.run.workload import Command
from trainwright.units import Duration

PortName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=15, examples=["metrics"])]
"""As IANA writes names of services."""

DEFAULT_GRACE_SECONDS = 60
"""Between SIGTERM and SIGKILL, where a run states nothing."""

ONLY_UNKNOWN = ("probes", "pre_stop", "ports", "deadline", "ttl")
"""Fields of a run that are for a program which nobody here knows; of our trainer the plan says it."""


class Probes(Model):
    """What tells whether a command is well. A script's supervisor has probes of its own."""

    started: Probe | None = None
    """What must be well before the other two count."""
    ready: Probe | None = None
    """What must be well before others are sent to it. Never progress of training: peers would wait for each other."""
    alive: Probe | None = None
    """What must stay well; otherwise the container is killed, which counts as a failure."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.started is None and self.ready is None and self.alive is None:
            raise ValueError("it says nothing; give started, ready or alive, or remove it")
        return self


class PreStop(Model):
    """What happens in the container before SIGTERM: a command ends, a port is asked, or time passes. The grace includes it."""

    command: Command | None = None
    """A program in the container."""
    http: HttpPath | None = None
    """Path that is asked for, on `port`."""
    port: PortNumber | None = None
    """Number of a port, for `http`."""
    sleep: Duration | None = None
    """Time to wait; less than the grace."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = [way for way in (self.command, self.http, self.sleep) if way is not None]
        if len(ways) != 1 or (self.http is None) != (self.port is None):
            raise ValueError("it says nothing, or more than one thing; give one of command, http with its port, and sleep")
        return self
