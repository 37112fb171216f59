"""Checkpoints of a script: every rank writes its own files, and one commit makes them the newest that verifies.

The work is the supervisor's, who hashes, commits, verifies and cleans up as it does for our trainer. Without one, this process
does the same where it is alone, with our package.
"""

from __future__ import annotations

import atexit
import os
import secrets
import time
from pathlib import Path
from typing import NamedTuple

from trainwright_trainer.run.hand import hand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trainwright_trainer.checkpoint.keeper import Keeper

DIRECTORY_ENV = "TRAINWRIGHT_CHECKPOINT_DIRECTORY"


class CheckpointError(RuntimeError):
    """A checkpoint could not be made or found; all ranks get the same sentence. What was committed before is untouched."""


class Checkpoint(NamedTuple):
    """A commit that verified."""

    step: int
    path: Path
    """Its folder: read what is there, and change nothing."""


class Checkpoints:
    """All ranks make the same calls in the same order, and each returns when all have made it."""

    def __init__(self) -> None:
        self._requests = 0
        self._draft: Checkpoint | None = None
        self._began = 0.0
        self._keeper: Keeper | None = None

    def draft(self, step: int | None = None) -> Path:
        """An empty folder, the same for all ranks, in which every rank writes files of its own.

        Args:
            step: Default: the last that :func:`run.step` was told.

        Raises :class:`CheckpointError`, also where this attempt committed the step already.
        """
        step = hand().at_step if step is None else step
        if step is None:
            raise CheckpointError("a checkpoint is of a step: call run.step() before, or give draft() the number")
        hand().phase("saving")
        self._began = time.monotonic()
        self._draft = self._answered("draft", step)
        assert self._draft is not None  # noqa: S101 - a draft that could not be made raises
        return self._draft.path

    def commit(self, step: int | None = None) -> None:
        """Make the draft a checkpoint, now that this rank has written and closed its files. When it returns, it is durable.

        Args:
            step: That of the draft; for who reads the script.

        Raises :class:`CheckpointError`.
        """
        draft, self._draft = self._draft, None
        if draft is None:
            raise CheckpointError("there is no draft to commit: call draft() before, and write into its folder")
        if step not in (None, draft.step):
            raise CheckpointError(f"the draft is of step {draft.step}, and commit says {step}: give draft() that number")
        self._answered("commit", draft.step)
        mine = hand()
        mine.committed = draft.step
        if mine.link is not None:
            mine.flush()
            mine.link.committed(draft.step, max(1e-6, time.monotonic() - self._began))

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that verifies, byte by byte; damaged ones are set aside. None where nothing was committed yet.

        Call it once, before the first step. Where all that was committed is damaged, the run ends with 13.
        """
        mine = hand()
        mine.phase("restoring")
        found = self._answered("newest", 0)
        if found is not None:
            mine.at_step = mine.committed = found.step
            if mine.link is not None:
                mine.link.committed(found.step, 0.0)
        return found

    def _answered(self, what: str, step: int) -> Checkpoint | None:
        link = hand().link
        if link is None:
            return self._here(what, step)
        self._requests += 1
        given = link.ask({"type": "wanted", "request": self._requests, "what": what, "step": step})
        if given.get("error"):
            raise CheckpointError(given["error"])
        return Checkpoint(given["step"], Path(given["path"])) if given.get("path") else None

    def _here(self, what: str, step: int) -> Checkpoint | None:
        """By this process, which has no supervisor."""
        if hand().world.size > 1:
            raise CheckpointError(
                f"{hand().world.size} ranks need a supervisor to commit together: start them by `trainwright rehearse`, or one"
            )
        keeper = self._own_keeper()
        try:
            found = getattr(keeper, what)(*(() if what == "newest" else (step,)))
        except Exception as error:
            raise CheckpointError(str(error)) from error
        return None if found is None else Checkpoint(found.step, Path(found.path))

    def _own_keeper(self) -> Keeper:
        if self._keeper is None:
            try:
                from trainwright_trainer.checkpoint.keeper import Keeper
            except ImportError as error:
                raise CheckpointError(
                    f"checkpoints outside of a run need our package ({error}): pip install trainwright-trainer"
                ) from None
            directory = os.path.abspath(os.environ.get(DIRECTORY_ENV, "checkpoints"))
            self._keeper = Keeper(directory, "by-hand", secrets.token_hex(6), 1)
            atexit.register(self._keeper.close)
        return self._keeper
