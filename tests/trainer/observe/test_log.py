"""One JSON object a line for machines, a short line for people."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog

from trainwright_trainer.observe import log


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Other tests read what the logger writes to the standard output of their own."""
    yield
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    log.configure("digits", "digits-1a2b", attempt="abc", node=1, rank=3)
    log.get_log().info("step", step=120, loss=0.3121, broken=float("nan"))
    log.get_log().warning("checkpoint_not_removed", reason="fünf")
    first, second = [json.loads(line) for line in output.getvalue().splitlines()]
    assert list(first)[:7] == ["ts", "level", "event", "run", "attempt", "node", "rank"]
    assert first["ts"].endswith("Z")
    assert (first["level"], first["event"], first["loss"], first["broken"]) == ("info", "step", 0.3121, "nan")
    assert (second["level"], second["reason"]) == ("warning", "fünf")


def test_an_exception_stays_on_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    log.configure("digits", "digits-1a2b")
    try:
        raise ValueError("no\nway")
    except ValueError as error:
        log.get_log().error("rank_failed", exc_info=error)
    [line] = output.getvalue().splitlines()
    assert "ValueError: no\nway" in json.loads(line)["exception"]
    assert "node" not in json.loads(line)


def test_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    output = Terminal()
    monkeypatch.setattr(sys, "stdout", output)
    log.configure("digits", "digits-1a2b", attempt="abc", node=0, rank=0)
    log.get_log().info("step", step=120, loss=0.312149, samples_per_second=51234.0, epoch=None)
    log.get_log().error("peer_lost", reason="silence")
    first, second = output.getvalue().splitlines()
    assert first.partition(" ")[2] == "node 0 rank 0  step  step 120  loss 0.3121  samples_per_second 51234"
    assert second.endswith("ERROR peer lost  reason silence")


def test_a_later_configuration_reaches_loggers_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", output)
    log.configure("digits", "digits-1a2b")
    logger = log.get_log()
    log.configure("digits", "digits-1a2b", attempt="second")
    logger.info("started")
    assert json.loads(output.getvalue())["attempt"] == "second"
