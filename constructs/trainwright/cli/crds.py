"""``trainwright crds``: the operators' CustomResourceDefinitions, which `validate` checks custom resources against."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.session import Exit, output, say, stop, watched
from trainwright.cli.validate import project_crds
from trainwright.validate.fetch import PINS, FetchError, fetch_all, read_pins

WITHOUT_NETWORK = (
    "Without a network: fetch them on another machine and copy the folder, or give `trainwright validate --crds` a folder with "
    "your cluster's own (`kubectl get crds -o yaml`)."
)


def command(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Where they go; default: build/crds of the project.")
    ] = None,
    pins: Annotated[Path, typer.Option(metavar="FILE", help="Other addresses and digests, such as those of a mirror.")] = PINS,
) -> None:
    """Fetch the CustomResourceDefinitions of all operators that runs are compiled for.

    Each has an address and a digest that are pinned in this release; a file with another digest is never used. Ends with 3 where
    one cannot be had.
    """
    place = folder or project_crds()
    try:
        rows = read_pins(pins)
        fetched = fetch_all(watched(rows, "fetching CRDs"), place)
    except FetchError as error:
        stop(str(error))
    output(f"{fetched.there} of {len(rows)} CRDs are in {place}, {fetched.new} of them new")
    if fetched.failures:
        say("\n".join(["Not fetched:", *(f"  {failure}" for failure in fetched.failures), WITHOUT_NETWORK]))
        raise typer.Exit(Exit.ENVIRONMENT)
