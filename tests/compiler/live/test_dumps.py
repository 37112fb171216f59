"""What is said of states of a real cluster: the cause of each is named, or that it is not known, and never another one."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.live.case import Case
from trainwright.live.decides import Decider
from trainwright.live.diagnose import Diagnosis, diagnose, judge
from trainwright.live.facts import facts_of
from trainwright.live.rows import Fact
from trainwright.live.runs import Expected, case_for, expected, of_cluster, written_for
from trainwright.live.snapshot import Object, read_snapshot
from trainwright.operators.phase import Standing
from trainwright.project.load import Project
from trainwright.project.status import last_records

Data = dict[str, Any]

DUMPS = Path(os.environ.get("TRAINWRIGHT_DUMPS", ""))
pytestmark = pytest.mark.skipif(not DUMPS.name, reason="TRAINWRIGHT_DUMPS names no folder of states of a cluster")
STATES = sorted(path.parent.name for path in DUMPS.glob("*/truth.yaml")) if DUMPS.name else []

CAUSES = {
    "01": "no-room", "02": "no-room", "04": "no-room", "05": "taint", "07": "selector", "08": "affinity", "10": "no-room",
    "100": "kueue-flavor-taint", "101": "kueue-preempted", "103": "kueue-check-pending", "104": "kueue-deactivated",
    "106": "volcano-queue-full", "107": "volcano-gang-room", "109": "volcano-gang-room", "11": "no-room",
    "110": "volcano-aborted",
    "112": "volcano-retries-used", "113": "code", "115": "runs", "116": "webhook-down", "118": "node-unhealthy", "119": "runs",
    "13": "no-room", "14": "no-room", "16": "nobody-provisions", "17": "access-mode", "19": "claim-missing",
    "20": "mount-reference-missing", "22": "pod-security", "23": "pod-security", "25": "quota", "26": "admission-policy",
    "28": "service-account-missing", "29": "reference-missing", "31": "image-differs", "32": "pull-secret-missing",
    "34": "image-platform", "35": "exec-format", "37": "crash-loop-said", "38": "data-fetch-fails", "40": "data-nobody-fetches",
    "41": "sandbox", "43": "code", "44": "code", "46": "code", "47": "code", "49": "mpi-retries-permanent", "50": "code",
    "52": "code",
    "53": "two-runs-one-lineage", "55": "no-room-after-codes", "56": "service-missing", "58": "network-policy", "59": "code",
    "61": "evicted-not-saved", "62": "code", "64": "program-silent", "65": "evicted-by-limit", "67": "preempted-no-node",
    "68": "node-taken", "70": "code", "71": "runs", "73": "mpi-retries-used", "74": "crash-loop-said", "76": "no-controller",
    "77": "no-controller", "79": "suspended-by-hand", "80": "suspended-by-hand", "82": "deadline", "83": "done-before",
    "85": "done",
    "86": "starting", "88": "removed-done", "89": "stuck-finalizer", "91": "program-says", "92": "node-lost-pod-stays",
    "94": "kueue-never-fits", "95": "kueue-local-queue-missing", "97": "kueue-cluster-queue-stopped",
    "98": "kueue-local-queue-stopped",
}  # fmt: skip
"""Number of a state -> the row that says its cause, held against its ``truth.yaml`` by a person."""

SAID = {
    "01": ["2 and 3", "8 nodes", "2 free nodes"], "04": ["chief-0", "1 nvidia.com/gpu"], "05": ["example.com/maintenance"],
    "07": ["h100-8x"], "10": ["cpu", "40"], "13": ["worker-1"], "25": ["team", "1000Gi"], "29": ["DATA_ROOT", "site-settings"],
    "41": ["h100-1"], "43": ["10 (InvalidSpec", "0.1.4"], "47": ["17", "14 (Diverged", "63 pods"], "50": ["Pod 2", "about 10 s"],
    "52": ["No space left", "retries are used up"], "58": ["NetworkPolicy default", "egress"], "61": ["Pod 0", "700", "911"],
    "65": ["worker-0", "2Gi", "shm"], "67": ["pod 1", "f33a5ad7"], "68": ["spot-0", "spot-termination"], "91": ["pod 2",
    "2.parquet"],
    "92": ["h100-1", "pod 1"], "94": ["32", "16"], "101": ["16 more needed"], "103": ["capacity"], "107": ["gang of 4",
    "for 2 of"],
    "118": ["h100-3", "pod 3"],
}  # fmt: skip
"""What must stand in the sentence."""


def number(state: str) -> str:
    return state.partition("-")[0]


@cache
def runs() -> dict[str, Expected]:
    return {one.run: one for one in expected(last_records(PROJECT).runs)}


PROJECT = Project(DUMPS / "project")


@cache
def read(state: str) -> tuple[Case, list[Object], Data]:
    truth = yaml.safe_load((DUMPS / state / "truth.yaml").read_text())
    run = runs()[truth["run"]]
    return case_for(read_snapshot(DUMPS / state / "objects.json"), run), written_for(PROJECT, run), truth


def said(state: str) -> Diagnosis:
    case, written, _ = read(state)
    return diagnose(case, written, runs()[case.run].record.facts, Decider(PROJECT, case.run, case.name))


@pytest.mark.parametrize("state", STATES)
def test_the_cause_is_named(state: str) -> None:
    truth = read(state)[2]
    found = said(state)
    assert found.cause == CAUSES[number(state)], found.says
    assert found.known is not truth["cause"].startswith("unknown")
    assert found.fine is truth["cause"].startswith("Nothing is wrong")
    assert found.evidence
    assert found.next
    assert "{" not in found.says.replace("{example.com/reserved", "")
    assert all(text in found.says for text in SAID.get(number(state), ())), found.says


@pytest.mark.parametrize("state", STATES)
def test_without_a_piece_of_its_evidence_it_is_not_named(state: str) -> None:
    case, written, _ = read(state)
    whole, seen = said(state), facts_of(case, written)
    for piece in whole.facts if whole.known and not whole.fine else ():
        if piece.kind in ("object", "made", "pod", "node"):  # states of objects that are there, and no evidence alone
            continue
        left = {kind: [fact for fact in facts if not _alike(fact, piece)] for kind, facts in seen.items()}
        without = judge(case, left)
        assert without.cause != whole.cause, piece.shows
        if without.known and not without.fine:
            assert not set(map(id, without.facts)) & {id(piece)}


def _alike(fact: Fact, piece: Fact) -> bool:
    """The same thing, of whichever pod."""
    if piece.kind in ("event", "condition"):  # of each pod, or of an object and its child
        return fact.kind == piece.kind and fact.fields["reason"].strip("/") == piece.fields["reason"].strip("/")
    return fact.kind == piece.kind and all(fact.fields.get(name) == piece.fields.get(name) for name in ("name", "why", "code"))


@pytest.mark.parametrize("state", STATES)
def test_the_cluster_of_a_snapshot_is_found_by_its_objects(state: str) -> None:
    case, _, truth = read(state)
    assert {run.cluster for run in of_cluster(case.snapshot, list(runs().values()))} == {truth["cluster"]}


def test_a_train_job_that_lacks_a_pod_waits_for_it() -> None:
    """No condition of it says so, and what its pods are stands in its runtime."""
    case, written, _ = read("115-control-trainjob-running")
    gone = case.pods[0].name
    objects = [one for one in case.snapshot.objects if one["metadata"]["name"] != gone]
    fewer = replace(case, snapshot=replace(case.snapshot, objects=objects))
    assert (case.standing.phase, fewer.standing) == ("running", Standing("waiting", "1 of 2 pods run"))
    assert not diagnose(fewer, written, runs()[case.run].record.facts, Decider(PROJECT, case.run, case.name)).fine
