"""DeepSpeed itself, as it was built: ZeRO-3 over two ranks, with the operators that are in the wheel."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.processes import Processes

RANK = Path(__file__).with_name("rank.py")


NAMES = {"torch": "AdamW", "fused": "FusedAdam", "cpu": "DeepSpeedCPUAdam"}


@pytest.mark.nightly
def test_two_ranks_train_one_model(processes: Processes, tmp_path: Path) -> None:
    extensions = tmp_path / "extensions"
    # torchrun's --standalone takes the host's own name, which need not resolve.
    place = ["--nnodes=1", "--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]
    processes.run(["torchrun", *place, RANK, tmp_path], {"DS_ACCELERATOR": "cpu", "TORCH_EXTENSIONS_DIR": str(extensions)})
    assert not list(extensions.rglob("*.so")), "a rank compiled an operator; put it into tools/engines/recipe.py"
    for adam, optimizer in NAMES.items():
        first, second = (processes.said(rank)[adam] for rank in range(2))
        assert first["optimizer"] == second["optimizer"] == optimizer
        assert first["losses"] == second["losses"]
        assert first["losses"][-1] < first["losses"][0] / 2
        assert first["weights"] == second["weights"]
        for said in (first, second):
            assert said["samples"] == 768
            assert said["outputs"][0] == said["outputs"][1]
