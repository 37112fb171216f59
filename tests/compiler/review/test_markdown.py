"""Nothing in a comment is what somebody wrote into a run, but in code."""

from __future__ import annotations

import re

import pytest

from trainwright.project.record import Hold, RunRecord
from trainwright.review import Class, FactChange, Review, RunReview, SharedReview
from trainwright.review.fields import FieldChange
from trainwright.review.markdown import markdown
from trainwright.review.model import CodeChange
from trainwright.review.outcome import outcome, training

EVIL = "@acme/platform <b>now</b> [ok](//x)"


def record(identity: str, **facts: str) -> RunRecord:
    hold = Hold(why=EVIL, since="1", kept="", identity="c", release="1") if "hold" in facts else None
    return RunRecord(identity=identity, file="", hold=hold, facts={"checkpoints.by": "own", **facts})


@pytest.mark.parametrize(("before", "after", "change"), [
    (record("a"), record("a", hold="yes"), Class.DATA_AT_RISK), (record("a"), record("a", hold="yes"), Class.HELD),
    (record("a"), record("b", resume_from=f"/data/{EVIL}"), Class.REPLACED),
    (record("a"), record("b", checkpoints=f"/data/{EVIL}"), Class.REPLACED),
])  # fmt: skip
def test_what_happens_to_a_run_stands_in_code(before: RunRecord, after: RunRecord, change: Class) -> None:
    said = outcome("run", before, after)
    assert "@acme" in said
    run = RunReview("run", change, before, after, said, training(before, after))
    assert "@acme" not in outside_of_code(run)


def test_findings_and_what_is_shared_stand_in_code() -> None:
    run = RunReview("run", Class.COSMETIC, None, None, "goes on", "goes on", codes=(CodeChange(EVIL, EVIL, EVIL, EVIL),))
    shared = SharedReview(EVIL, (EVIL,), (FactChange(EVIL, EVIL, EVIL, EVIL),), risk=EVIL, effect=EVIL)
    assert "acme" not in outside_of_code(run, shared)


def test_no_restart_does_not_mean_that_the_run_stays_fenced() -> None:
    gone = FieldChange("NetworkPolicy run", "", "there", None)
    run = RunReview("run", Class.COSMETIC, record("a"), record("a"), "goes on", "goes on", fields=(gone,))
    text = markdown(Review("main", "here", (run,), (), ()))
    assert "NetworkPolicy run: gone" in text
    (meaning,) = [line for line in text.splitlines() if line.startswith("- **no restart**")]
    assert "network policies" in meaning


def outside_of_code(run: RunReview, *shared: SharedReview) -> str:
    text = markdown(Review(EVIL, EVIL, (run,), shared, (EVIL,)))
    assert "@acme" in text
    return re.sub(r"`[^`\n]*`", "", text)
