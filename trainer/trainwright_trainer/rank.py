"""Entry point of one rank: ``python -m trainwright_trainer.rank``.

Started by the supervisor, or by torchrun on a machine of one's own.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Mapping
from typing import NoReturn

from trainwright_trainer.contract.exit_codes import ExitCode
from trainwright_trainer.failures import cause_of, code_of, own_code
from trainwright_trainer.lifecycle.link import Link, open_link
from trainwright_trainer.lifecycle.messages import ATTEMPT_ENV
from trainwright_trainer.log import configure, get_log
from trainwright_trainer.place import place_from
from trainwright_trainer.supervisor.specification import read_specification, refuse_missing, specification_path


def main() -> NoReturn:
    """Train, and end with the documented code. Ends hard: a stuck collective or a library's thread must not hold the process."""
    faulthandler.enable()
    # No model, configuration or tokenizer is ever fetched; without this a missing file would mean a wait for the network.
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    code = run(os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(environment: Mapping[str, str]) -> ExitCode:
    """One attempt of one rank; every error becomes a code, a cause and a log line."""
    configure("unknown", "unknown", environment.get(ATTEMPT_ENV))
    link = open_link(environment)
    link.phase("starting")
    try:
        return _train(environment, link)
    except BaseException as error:
        return _fail(error, environment, link)


def _train(environment: Mapping[str, str], link: Link) -> ExitCode:
    spec = read_specification(specification_path(environment)).spec
    refuse_missing(spec)
    place = place_from(environment, spec.world)
    configure(spec.run, spec.identity, environment.get(ATTEMPT_ENV), place.node, place.rank)
    # Torch and transformers take seconds to import; the link answers meanwhile that there is nothing to save yet.
    from trainwright_trainer.assembly import assemble

    loop = assemble(spec, place, link, environment)
    outcome = loop.run()
    link.result(outcome.code, step=outcome.step)
    loop.close()
    return outcome.code


def _fail(error: BaseException, environment: Mapping[str, str], link: Link) -> ExitCode:
    rank = environment.get("RANK", "")
    code, cause = code_of(error), cause_of(error, int(rank) if rank.isdecimal() else None)
    get_log().error("rank_failed", code=int(code), reason=cause.message, exc_info=error if own_code(error) is None else None)
    link.result(code, cause)
    return code


if __name__ == "__main__":
    main()
