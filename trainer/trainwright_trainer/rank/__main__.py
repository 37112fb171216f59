"""Entry point of one rank: ``python -m trainwright_trainer.rank``.

Started by the supervisor, or by torchrun on a machine of one's own.
"""

from __future__ import annotations

import os
from typing import NoReturn

from trainwright_trainer.training import program


def settle() -> None:
    """What libraries read when they are imported."""
    # No model, configuration or tokenizer is ever fetched; without this a missing file would mean a wait for the network.
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def main() -> NoReturn:
    """Train, and end with the documented code."""
    settle()
    program.main(program.TORCH)


if __name__ == "__main__":
    main()
