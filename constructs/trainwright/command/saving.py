"""Directories that a command names for what it saves."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from itertools import pairwise

from trainwright.command.model import Command

SAVING_OPTIONS = frozenset({
    "output", "output-dir", "output-path", "out-dir", "save", "save-dir", "save-path", "save-folder", "checkpoint-dir",
    "checkpoints-dir", "checkpoint-folder", "ckpt-dir", "default-root-dir", "dump-folder", "backup-dir", "storage-path",
    "exp-dir",
})
"""Options by which programs are told where to save: of transformers (output_dir), Megatron-LM (save), Lightning
(default_root_dir), torchtitan (job.dump_folder), NeMo (exp_manager.exp_dir), and what people call theirs."""
PERHAPS = frozenset({
    "ckpt", "ckpts", "checkpoint", "checkpoints", "ckpt-path", "checkpoint-path", "out", "out-path", "result-dir", "results-dir",
    "results", "work-dir", "model-dir", "log-dir", "logdir", "run-dir", "experiment-dir", "snapshot-path", "export-dir",
})
"""Those that may also name what a program starts from, or what nobody misses."""


def directories(command: Command, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Option, as its last word is called, and absolute path, where the command or the variables of its container say it."""
    for simple in command.simple:
        texts = simple.texts
        words = [word.resolved(env) or word.text for number, word in enumerate(simple.words) if number not in texts]
        pairs = [(one, value) for one, value in pairwise(words) if one.startswith("-") and "=" not in one]
        pairs += [(one, value) for one, equals, value in (word.partition("=") for word in words) if equals]
        for stated, value in pairs:
            option = stated.lstrip("-+").rpartition(".")[2].replace("_", "-").lower()
            if option in SAVING_OPTIONS | PERHAPS and value.startswith("/") and not {"$", "`", "\n"} & {*value}:
                yield option, posixpath.normpath(value)
