"""How many cores a pod may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright_trainer.rank import place as module
from trainwright_trainer.rank.place import available_cpus


@pytest.mark.parametrize(("quota", "cpus"), [("max 100000", None), ("50000 100000", 1), ("100000 100000", 1), ("nonsense", None)])
def test_a_cpu_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cpus: int | None) -> None:
    monkeypatch.setattr(module, "_CPU_QUOTA", tmp_path / "none")
    unlimited = available_cpus()
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(module, "_CPU_QUOTA", tmp_path / "cpu.max")
    assert available_cpus() == (unlimited if cpus is None else cpus)
