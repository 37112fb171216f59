"""What the process of a supervisor runs: as the program does, with a name server of the test's own where it has one."""

from trainwright_trainer.supervisor import signals

if __name__ == "__main__":
    signals.hold()  # first of all

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

NAMES_ENV = "FAKE_NAMES"
"""A file of JSON: name -> what it is looked up as."""


def run(words: Sequence[str], environment: Mapping[str, str], log: Path) -> NoReturn:
    """In a process that was forked."""
    from tests.forked import become

    signals.hold()
    become(environment, log, log)
    main(words)


def main(words: Sequence[str]) -> NoReturn:
    """Args: the command of each rank as JSON, null for the trainer's, and what stands behind ``supervise --``."""
    look_up = socket.getaddrinfo

    def resolve(host: Any, *rest: Any, **more: Any) -> Any:
        names = json.loads(Path(os.environ[NAMES_ENV]).read_text()) if NAMES_ENV in os.environ else {}
        return look_up(names.get(host, host), *rest, **more)

    socket.getaddrinfo = resolve
    from trainwright_trainer.supervisor.supervise import supervise

    sys.exit(supervise(os.environ, None, words[1:], trainer_command=json.loads(words[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
