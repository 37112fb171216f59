"""A rank under mpirun that says how much it had resident: `mpi_rank.py SPEC FOLDER` writes bytes into FOLDER/RANK."""

import os
import resource
import sys
from pathlib import Path

from trainwright_trainer.contract.layout import SPEC_ENV
from trainwright_trainer.rank.messages import ATTEMPT_ENV
from trainwright_trainer.training import program

if __name__ == "__main__":
    spec, folder = sys.argv[1:]
    rank, size = os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]
    os.environ |= {
        "RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size, "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1", "MASTER_ADDR": "none", "MASTER_PORT": "1", SPEC_ENV: spec, ATTEMPT_ENV: "benchmark",
    }
    code = program.run(program.TORCH, os.environ)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux tells it in KiB
    Path(folder, rank).write_text(str(peak), encoding="utf-8")
    sys.exit(int(code))
