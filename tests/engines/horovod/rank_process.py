"""A rank of the conformance suite in the environment that mpirun gives: importable by name, so that multiprocessing can fork it.

``run-RANK.json`` in a folder is its specification; its output and its exit code go to files there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import torch
from tests.trainer.training.rank_process import compute_longer_where_told, tell_paces, tell_what_it_holds

from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.training import program


def run_rank(environment: dict[str, str], folder: Path) -> NoReturn:
    number, size = (environment[f"OMPI_COMM_WORLD_{name}"] for name in ("RANK", "SIZE"))
    os.environ.update(environment)
    os.environ.update({
        "RANK": number, "WORLD_SIZE": size, "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": size, "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "none", SPEC_ENV: str(folder / f"run-{number}.json"),
    })
    descriptor = os.open(folder / f"rank-{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    torch.set_num_threads(1)
    tell_what_it_holds()
    tell_paces()
    compute_longer_where_told(os.environ)
    code = program.run(program.TORCH, os.environ)
    (folder / f"rank-{number}.code").write_text(str(int(code)))
    os._exit(0)
