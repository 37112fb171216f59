"""How a script or a command lives: what tells that it is well, what comes before its end, what it listens on."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainwright.model import DnsLabel, Model
from trainwright.run.containers import HttpPath, PortNumber, Probe
from trainwright.run.workload import Command
from trainwright.units import Duration
from trainwright_trainer.contract.base import ListOf

PortName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$", max_length=15, examples=["metrics"])]
"""As IANA writes names of services."""

DEFAULT_GRACE_SECONDS = 60
"""Between SIGTERM and SIGKILL, where a run states nothing."""

ONLY_UNKNOWN = ("probes", "pre_stop", "ports", "exit_codes", "deadline", "ttl")
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


_Range = Annotated[str, Field(pattern=r"^[0-9]{1,3}-[0-9]{1,3}$", examples=["128-255"])]
Codes = ListOf[Annotated[int, Field(strict=True, ge=0, le=255)] | _Range]


class ExitCodes(Model):
    """What some exit codes of a command mean, in place of a failure that counts. The first entry that fits decides."""

    means: Literal["fail", "ignore", "count"]
    """`fail` ends the run at once, since the same pod would fail again; `ignore` brings the pod back at no cost; `count` takes
    one of the `restarts`.
    """
    codes: Codes = ()
    """Exit codes, and ranges of them."""
    all_but: Codes = ()
    """In their place: every other code than these, and than 0."""
    container: DnsLabel | None = None
    """Whose codes they are. Default: of the container that trains."""

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if bool(self.codes) == bool(self.all_but):
            raise ValueError("it names no codes, or names them twice; give codes, or all_but")
        bounds = [_bounds(code) for code in self.codes or self.all_but]
        if any(first > last or last > 255 or (self.codes and not first) for first, last in bounds):
            raise ValueError("exit codes of a failure are 1 to 255, and a range begins with its lower end")
        return self

    @property
    def numbers(self) -> list[int]:
        """Each code once, in order."""
        bounds = [_bounds(code) for code in self.codes or self.all_but]
        return sorted({code for first, last in bounds for code in range(first, last + 1)})


def _bounds(code: int | str) -> tuple[int, int]:
    first, _, last = str(code).partition("-")
    return int(first), int(last or first)


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
