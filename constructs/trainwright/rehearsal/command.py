"""``trainwright rehearse`` without its command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from trainwright.rehearsal.console import ConsoleObserver, print_outcome, print_problems
from trainwright.rehearsal.objects import read_manifests
from trainwright.rehearsal.options import Options
from trainwright.rehearsal.outcome import CANNOT_WORK_CODE, USAGE_CODE
from trainwright.rehearsal.problem import CannotWorkError, UsageError
from trainwright.rehearsal.rehearse import rehearse


def rehearse_file(
    path: Path,
    *,
    workspace: Path,
    fresh: bool = False,
    nodes: int | None = None,
    timeout_seconds: float | None = None,
    mounts: Mapping[str, Path] | None = None,
    console: Console | None = None,
) -> int:
    """Rehearse the manifests in a file, and print what happens.

    Args:
        path: A file of ``dist/``: one run's objects.
        workspace: Holds the claims, which stay, and the logs of the last rehearsal.
        fresh: Empty the claims that the pods write to first.
        nodes: At most so many pods.
        timeout_seconds: End the rehearsal as failed after so long.
        mounts: Path in the containers -> folder here that stands for it.
        console: Where to print; standard output by default.

    Returns:
        The exit code: 0 the Job completed, 1 it failed, 2 the request is wrong, 3 the manifests cannot work or this machine
        cannot play them, 143 a signal ended the rehearsal.
    """
    console = console or Console()
    folders = {mount: folder.absolute() for mount, folder in (mounts or {}).items()}
    options = Options(fresh=fresh, nodes=nodes, timeout_seconds=timeout_seconds, mounts=folders)
    observer = ConsoleObserver(console)
    try:
        outcome = rehearse(read_manifests(path), workspace, options, observer)
    except UsageError as error:
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        return USAGE_CODE
    except CannotWorkError as error:
        print_problems(console, error)
        return CANNOT_WORK_CODE
    except OSError as error:
        console.print(f"cannot go on: {error}", markup=False, highlight=False, soft_wrap=True)
        return CANNOT_WORK_CODE
    finally:
        observer.close()
    print_outcome(console, outcome, workspace.absolute())
    return outcome.exit_code
