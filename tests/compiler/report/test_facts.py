"""The stated facts of a plan: complete, in ASCII, and in one order."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import Data, compiled
from tests.compiler.fleets import fleet
from tests.compiler.projects import ROOT
from tests.compiler.test_edits import CLUSTER, EDITS

from trainwright.project.load import load_cluster
from trainwright.report.facts import plan_facts, profile_facts, with_products
from trainwright.report.values import LONGEST, rate


@pytest.mark.parametrize("field", sorted(EDITS.keys() - {"workload.decay_fraction"}))
def test_every_edit_of_a_run_changes_a_fact(field: str) -> None:
    before, after = (plan_facts(compiled(edit, CLUSTER)) for edit in ({}, EDITS[field]))
    assert before != after


def test_facts_are_ascii_on_one_line_and_not_too_long() -> None:
    for built in fleet().runs.values():
        for key, value in plan_facts(built.compiled).items():
            assert (key + str(value)).isascii()
            assert (key + str(value)).isprintable()
            assert len(str(value)) <= LONGEST + len("... (sha256 0123456789ab)")


@pytest.mark.parametrize(
    ("value", "shown"),
    [("名前\n", "\\u540d\\u524d\\n"), ("", ""), ("'", "'"), ("x" * 200, "x" * LONGEST + "... (sha256 3c2dc7a1cd8b)")],
)
def test_text_that_a_line_cannot_hold_is_written_so_that_two_values_still_differ(value: str, shown: str) -> None:
    facts = plan_facts(compiled({"env": {"TEXT": value}}))
    if len(value) < LONGEST:
        assert facts["env.TEXT"] == shown
    else:
        assert str(facts["env.TEXT"]).startswith("x" * LONGEST + "... (sha256 ")
        assert facts != plan_facts(compiled({"env": {"TEXT": f"{value}x"}}))


def test_no_secret_is_a_fact() -> None:
    facts = plan_facts(compiled({"env": {"TOKEN": {"secret": "hugging-face", "key": "token"}}}))
    assert {key: value for key, value in facts.items() if key.startswith("env.TOKEN")} == {
        "env.TOKEN.secret": "hugging-face", "env.TOKEN.key": "token",
    }


@pytest.mark.parametrize(
    ("value", "shown"), [(3e-4, "3.0e-4"), (2e-5, "2.0e-5"), (0.1, "1.0e-1"), (3e-4 * 2**0.5, "4.24264e-4"), (10.0, "1.0e1")]
)
def test_a_rate_reads_as_people_write_it(value: float, shown: str) -> None:
    assert rate(value) == shown


@pytest.mark.parametrize(
    ("target", "hours"),
    [("indexed-job", "384"), ("job-set", "384 an attempt"), ("ray-job", "384 an attempt"), ("of another release", "384")],
)
def test_gpu_hours_are_those_of_an_attempt_where_the_deadline_is(target: str, hours: str) -> None:
    assert with_products({"target": target, "gpus": 16, "deadline": "1d"})["gpu_hours"] == f"at most {hours}"


EDITED: Data = {
    "overrides": {"pod": {"node": {"runtimeClassName": "nvidia"}}},
    "waivers": [{"code": "TW305", "reason": "built anew every night", "expires": "2031-01-01"}],
    "queue": "gold",
    "attempt": 2,
}


def test_facts_stand_in_the_order_in_which_a_reviewer_reads_them(snapshot: SnapshotAssertion) -> None:
    facts = plan_facts(compiled(EDITED, CLUSTER))
    assert "\n".join(f"{key}: {value}" for key, value in facts.items()) == snapshot


def test_a_profile_is_its_leaves_by_their_paths() -> None:
    facts = profile_facts(load_cluster(ROOT / "charts" / "clusters" / "h100-ib.yaml"))
    assert facts["node_pools/h100/cpus"] == "192"
    assert facts["monitoring/dashboard"] == "{}", "what is on with its defaults counts"
    assert facts["storage_classes/nfs-csi/access"] == "ReadWriteOnce, ReadOnlyMany, ReadWriteMany"
    assert facts["node_pools/h100-spot/taints/1/key"] == "example.com/spot"
