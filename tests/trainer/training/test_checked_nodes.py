"""Preflight of real ranks, over their own network."""

from __future__ import annotations

from pathlib import Path

from tests.trainer.training.conftest import Ranks, Spec

from trainwright_trainer.contract import ExitCode


def test_two_ranks_check_their_nodes(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    checked = spec(tmp_path / "lineage", duration={"steps": 1})
    checked["lifecycle"]["preflight"] = {"when": "always"}
    leader, _ = ranks.finish(checked)
    [event] = leader.events("preflight")
    assert not leader.events("clock_skew")
    assert event["bus_bytes_per_second"] > 0
    assert event["storage_seconds"] > 0
    assert event["tflops"] > 0
    assert event["memory_bytes_per_second"] > 0
    assert 0 < event["share_of_median"] <= 1  # the slower of the two is at most their mean
    assert event["clock_skew_seconds"] == 0  # rank 0's own


def test_a_network_that_is_too_slow(ranks: Ranks, spec: Spec, tmp_path: Path) -> None:
    checked = spec(tmp_path / "lineage", duration={"steps": 1})
    checked["lifecycle"]["preflight"] = {"when": "always", "min_bus_gigabytes_per_second": 1e6}
    for rank in ranks.finish(checked, code=ExitCode.NODE_UNHEALTHY):
        [event] = rank.events("rank_failed")
        assert "GB/s of an all-reduce, and lifecycle.preflight.min_bus_gigabytes_per_second is 1e+06" in event["reason"]
        assert not rank.events("run_started")
