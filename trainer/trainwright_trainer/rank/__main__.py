"""Entry point of one rank: ``python -m trainwright_trainer.rank``.

Started by the supervisor, or by torchrun on a machine of one's own.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Mapping
from typing import NoReturn

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.observe.log import configure
from trainwright_trainer.rank.ending import attempt, leave
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.messages import ATTEMPT_ENV
from trainwright_trainer.rank.place import place_from
from trainwright_trainer.rank.specification import read_specification, specification_path


def main() -> NoReturn:
    """Train, and end with the documented code. Ends hard: a stuck collective or a library's thread must not hold the process."""
    faulthandler.enable()
    # No model, configuration or tokenizer is ever fetched; without this a missing file would mean a wait for the network.
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    leave(run(os.environ))


def run(environment: Mapping[str, str]) -> ExitCode:
    """One attempt of one rank; every error becomes a code, a cause and a log line."""
    return attempt(_train, environment)


def _train(environment: Mapping[str, str], link: Link) -> ExitCode:
    spec = read_specification(specification_path(environment)).spec
    place = place_from(environment, spec.world)
    configure(spec.run, spec.identity, environment.get(ATTEMPT_ENV), place.node, place.rank)
    # Torch and transformers take seconds to import; the link answers meanwhile that there is nothing to save yet.
    from trainwright_trainer.training.assembly import assemble

    loop = assemble(spec, place, link, environment)
    outcome = loop.run()
    link.result(outcome.code, step=outcome.step)
    loop.close()
    return outcome.code


if __name__ == "__main__":
    main()
