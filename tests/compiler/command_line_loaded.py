"""What the processes of ``command_line`` are forked from: commands that are loaded, and validators that each process would build
anew. A command loads what it needs beyond.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

import trainwright.cli.apply
import trainwright.cli.check
import trainwright.cli.diff
import trainwright.cli.main
import trainwright.cli.synth
import trainwright.cli.validate  # noqa: F401


def kinds(of: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for kind in of.__subclasses__():
        yield kind
        yield from kinds(kind)


for model in list(kinds(BaseModel)):
    model.model_rebuild()
