"""``trainwright-trainer``: what a pod's container runs."""

from __future__ import annotations

import sys

from trainwright_trainer.supervisor import signals


def main() -> None:
    """Entry point of the program."""
    if sys.argv[1:2] in (["supervise"], ["ray"], ["train"]):
        signals.hold()  # before the imports, which take a good part of a second; the supervisor lets them through
    from trainwright_trainer.commands.app import app

    app()
