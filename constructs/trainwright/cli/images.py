"""``trainwright images``: push the image that pods bring the supervisor from."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.session import Exit, output, say, stop
from trainwright.images import ImageError, push, read_archive

MISSING = "`trainwright images` needs oras, which speaks with registries: pip install 'trainwright[images]'"


def command(
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="What `make image` wrote with --archive.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Where it goes: registry.example.com/tools/supervisor:0.2.0.")],
) -> None:
    """Push the image of an OCI archive to a registry, without Docker, and print what to write into a profile.

    Needs no daemon and no root. Credentials are those that `docker login` and others leave in ~/.docker/config.json. Ends with 3
    where the registry cannot be reached, or takes nothing from you.
    """
    with tempfile.TemporaryDirectory(prefix="trainwright-images-") as folder:
        try:
            image = push(read_archive(archive, Path(folder)), name)
        except ImportError:
            stop(MISSING, Exit.ENVIRONMENT)
        except ImageError as error:
            stop(str(error), Exit.ENVIRONMENT)
    say("It is there. In the profile of each cluster that pulls from there:")
    output(f"supervisor:\n  image: {image}")
