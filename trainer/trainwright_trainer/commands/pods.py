"""Commands that are a pod: they supervise ranks until the run ends."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from trainwright_trainer.commands.local import local_run, own_port, with_directory
from trainwright_trainer.commands.options import ProcessesOption, SpecOption, given_specification, refusals
from trainwright_trainer.rank.ending import leave
from trainwright_trainer.supervisor.supervise import supervise as run_supervisor


def supervise(
    spec: SpecOption = None,
    program: Annotated[
        list[str] | None,
        typer.Argument(show_default=False, help="After `--`: what a pod under mpirun starts, such as `mpirun …` or `sshd …`."),
    ] = None,
) -> None:
    """Supervise this pod's ranks until the run ends.

    Exit codes: 0 done; 10 to 29 would fail again; 200 to 249 are worth another try. SIGTERM saves a checkpoint and ends the whole
    run. The last log line and the termination message name the cause.
    """
    leave(run_supervisor(os.environ, spec, program or ()))


def ray(spec: SpecOption = None) -> None:
    """Run the driver of a run on a Ray cluster: Ray Train places the ranks, and this supervises them all until the run ends.

    The entrypoint of a RayJob; elsewhere RAY_ADDRESS names the cluster's head. Exit codes, SIGTERM and termination message are
    those of `supervise`.
    """
    leave(run_supervisor(os.environ, spec))


def train(
    spec: SpecOption = None,
    processes: ProcessesOption = None,
    directory: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="Where checkpoints, ledger and COMPLETE marker go, a path or an address. Default: where the run says.",
        ),
    ] = None,
) -> None:
    """Run a whole run on this one machine, without Kubernetes: one pod holds all of its ranks.

    It resumes from what is in the checkpoint directory, and a run that is complete there ends at once. Exit codes, SIGTERM and
    log are those of `supervise`; 10 also for a run that one pod cannot play.
    """
    with refusals(), tempfile.TemporaryDirectory(prefix="trainwright-train-", ignore_cleanup_errors=True) as folder:
        given = given_specification(spec)
        wanted = given.spec if directory is None else with_directory(given.spec, _place(directory))
        with own_port(wanted.http_port) as port:
            run = local_run(wanted, given.path, Path(folder), processes, port)
            if port != wanted.http_port:
                typer.echo(f"note: port {wanted.http_port} is taken here; /metrics is on port {port} instead", err=True)
            code = run_supervisor(run.environment(os.environ), run.path)
    leave(code)


def _place(directory: str) -> str:
    return directory if "://" in directory else os.path.abspath(directory)
