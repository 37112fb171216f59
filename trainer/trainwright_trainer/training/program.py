"""The entry of a replicated run: from the environment to the documented exit code."""

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
from trainwright_trainer.observe.log import configure
from trainwright_trainer.rank.ending import attempt, leave
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.messages import ATTEMPT_ENV
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.specification import read_specification, specification_path
from trainwright_trainer.training.replicated_loop import Loop


@dataclass(frozen=True, slots=True)
class Program:
    """What one kind of replicated run brings along. Nothing heavy is imported before :attr:`assemble` is called."""

    find_place: Callable[[RunSpec, Mapping[str, str]], Place]
    """Where this process stands. Raises :class:`RankError` where the work is of another kind or the environment is wrong."""
    assemble: Callable[[RunSpec, Place, Link, Mapping[str, str]], Loop]
    """Meets the other ranks and builds the loop."""


def main(program: Program) -> NoReturn:
    """Train, and end with the documented code. Ends hard: a stuck collective or a library's thread must not hold the process."""
    faulthandler.enable()
    leave(attempt(partial(_train, program), os.environ))


def _train(program: Program, environment: Mapping[str, str], link: Link) -> ExitCode:
    spec = read_specification(specification_path(environment)).spec
    place = program.find_place(spec, environment)
    configure(spec.run, spec.identity, environment.get(ATTEMPT_ENV), place.node, place.rank)
    loop = program.assemble(spec, place, link, environment)
    outcome = loop.run()
    link.result(outcome.code, step=outcome.step)
    with suppress(Exception):  # all is said; another rank may be gone while this one still says good-bye
        loop.close()
    return outcome.code
