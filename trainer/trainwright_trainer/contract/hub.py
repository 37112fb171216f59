"""A repository of the Hugging Face Hub at one commit, as runs and ``trainwright-trainer fetch`` name it.

In the Hub's own addresses (huggingface_hub, guides/hf_file_system), whose revision is a commit here.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

NAME = r"[A-Za-z0-9][-A-Za-z0-9._]{0,95}"
ADDRESS = rf"hf://(datasets/)?({NAME}/)?{NAME}"
"""Pattern of what a repository is called, without a revision."""
_AT_COMMIT = re.compile(rf"hf://(datasets/)?((?:{NAME}/)?{NAME})@([0-9a-f]{{40}})")


class HubRepository(NamedTuple):
    kind: Literal["dataset", "model"]
    name: str
    commit: str

    @classmethod
    def at(cls, address: str) -> HubRepository | None:
        """None of what is no address, or names no commit."""
        found = _AT_COMMIT.fullmatch(address)
        return cls("dataset" if found[1] else "model", found[2], found[3]) if found else None


Form = Literal["files", "dataset"]
"""What is made of a repository: its files as they are, or what ``load_dataset`` of datasets makes of them, saved to disk."""
