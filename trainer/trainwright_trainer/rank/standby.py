"""A rank that has everything imported and waits for an attempt: ``python -m trainwright_trainer.rank.standby DESCRIPTOR``.

From the descriptor comes one JSON object: the environment variables that the attempt brings. Nothing that belongs to an attempt
exists before, no connection and no context of a GPU. The end of the file means that nobody needs it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from trainwright_trainer.contract.spec_file import read_specification, specification_path
from trainwright_trainer.contract.training import Training
from trainwright_trainer.observe.log import configure, get_log
from trainwright_trainer.rank import __main__ as rank
from trainwright_trainer.rank.place import place_from

ENGINES = ("ddp", "fsdp2")
"""Those that import nothing which looks at a GPU."""


def main(descriptor: int) -> None:
    """Wait, and then be the rank."""
    rank.settle()
    import_module("trainwright_trainer.training.assembly")  # torch, and transformers
    spec = read_specification(specification_path(os.environ)).spec
    work, place = spec.work, place_from(os.environ, spec.world)
    configure(spec.run, spec.identity, None, place.node, place.rank)
    if isinstance(work, Training) and work.engine in ENGINES:
        for name in _modules(work):
            with suppress(ImportError):  # the rank itself says what its image lacks
                import_module(name)
    get_log().info("standby_ready")
    with os.fdopen(descriptor) as words:
        said = words.readline()
    if said:
        os.environ.update(json.loads(said))
        rank.main()


def _modules(work: Training) -> Iterator[str]:
    """What a rank of this work imports besides, before its first step."""
    yield f"trainwright_trainer.engine.{work.engine}"
    if name := getattr(work.model, "architecture", None):
        yield f"transformers.models.{name}.modeling_{name}"


if __name__ == "__main__":
    main(int(sys.argv[1]))
