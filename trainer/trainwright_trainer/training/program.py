"""The program of one rank: from the environment to the documented exit code, whichever library trains."""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.contract.spec_file import read_specification, specification_path
from trainwright_trainer.observe.log import configure
from trainwright_trainer.rank.ending import attempt, leave
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.messages import ATTEMPT_ENV
from trainwright_trainer.rank.place import Place, place_from
from trainwright_trainer.training.loop import Loop


@dataclass(frozen=True, slots=True)
class Program:
    """What one kind of run brings along. Nothing heavy is imported before :attr:`assemble` is called."""

    find_place: Callable[[RunSpec, Mapping[str, str]], Place]
    """Where this process stands. Raises :class:`RankError` where the work is of another kind or the environment is wrong."""
    assemble: Callable[[RunSpec, Place, Link, Mapping[str, str]], Loop]
    """Meets the other ranks and builds the loop. Raises :class:`RankError` for what cannot be had here."""


def main(program: Program) -> NoReturn:
    """Train, and end with the documented code. Ends hard: a stuck collective or a library's thread must not hold the process."""
    faulthandler.enable()
    leave(run(program, os.environ))


def run(program: Program, environment: Mapping[str, str]) -> ExitCode:
    """One attempt of one rank; every error becomes a code, a cause and a log line."""
    return attempt(partial(_train, program), environment)


def _train(program: Program, environment: Mapping[str, str], link: Link) -> ExitCode:
    spec = read_specification(specification_path(environment)).spec
    place = program.find_place(spec, environment)
    configure(spec.run, spec.identity, environment.get(ATTEMPT_ENV), place.node, place.rank)
    # Libraries take seconds to import; the link answers meanwhile that there is nothing to save yet.
    loop = program.assemble(spec, place, link, environment)
    outcome = loop.run()
    link.result(outcome.code, step=outcome.step)
    with suppress(Exception):  # all is said; another rank may be gone while this one still says good-bye
        loop.close()
    return outcome.code


def _assemble_torch(spec: RunSpec, place: Place, link: Link, environment: Mapping[str, str]) -> Loop:
    from trainwright_trainer.training.assembly import assemble

    return assemble(spec, place, link, environment)


TORCH = Program(lambda spec, environment: place_from(environment, spec.world), _assemble_torch)
"""The program of ``work.kind: trainer``, but for engine ``tensorflow``."""
