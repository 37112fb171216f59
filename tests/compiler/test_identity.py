"""The hash in a name: the projection of objects that it is of, and which edits of a run move it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiler.compiling import compile_data
from tests.compiler.strategies import pairs
from tests.compiler.targets import CASES

from trainwright.identity import PLACEHOLDER, identity_hash, short_hash

Data = dict[str, Any]

JOB: Data = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": f"one-{PLACEHOLDER}", "namespace": "n", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {"parallelism": 2, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "trainer"}]}}},
}


def edited(*path: str, value: Any) -> Data:
    job = copy.deepcopy(JOB)
    node = job
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return job


def hashed(manifest: Data, mutable: tuple[str, ...] = (), attempt: int = 1, queue: str | None = None) -> str:
    return identity_hash([(manifest, mutable)], attempt, queue)


def test_a_hash_is_eight_characters_that_fit_a_dns_label_and_cannot_be_misread() -> None:
    assert re.fullmatch(r"[a-z0-9]{8}", hashed(JOB))
    assert len(PLACEHOLDER) == len(hashed(JOB))
    letters = {letter for number in range(3000) for letter in short_hash(number)}
    assert letters <= set("abcdefghjkmnpqrstvwxyz0123456789")


@pytest.mark.parametrize("path", [("metadata", "labels"), ("metadata", "annotations")])
def test_labels_and_annotations_of_objects_are_left_out(path: tuple[str, ...]) -> None:
    assert hashed(edited(*path, value={"another": "value"})) == hashed(JOB)
    assert hashed(edited(*path, value={})) == hashed(JOB)


@pytest.mark.parametrize(
    "path",
    [
        ("metadata", "name"),
        ("metadata", "namespace"),
        ("spec", "parallelism"),
        ("spec", "template", "metadata", "labels"),
        ("kind",),
    ],
)
def test_everything_else_is_part_of_it(path: tuple[str, ...]) -> None:
    assert hashed(edited(*path, value="another")) != hashed(JOB)


def test_what_a_kind_may_change_in_place_is_left_out_at_any_depth() -> None:
    mutable = ("/spec/parallelism", "/spec/template/metadata/labels", "/spec/absent/too")
    moved = edited("spec", "parallelism", value=9)
    moved["spec"]["template"]["metadata"]["labels"] = {}
    assert hashed(moved, mutable) == hashed(JOB, mutable)
    assert hashed(edited("spec", "template", "spec", value={}), mutable) != hashed(JOB, mutable)


def test_only_the_object_that_may_change_is_spared() -> None:
    may = ("/spec/parallelism",)
    service, moved = JOB | {"kind": "Service"}, edited("spec", "parallelism", value=9)
    one = identity_hash([(JOB, may), (service, ())], 1, None)
    assert identity_hash([(moved, may), (service, ())], 1, None) == one
    assert identity_hash([(JOB, may), (moved | {"kind": "Service"}, ())], 1, None) != one


def test_the_attempt_and_the_order_of_objects_are_part_of_it() -> None:
    assert hashed(JOB, attempt=2) != hashed(JOB)
    other = JOB | {"kind": "Service"}
    assert identity_hash([(JOB, ()), (other, ())], 1, None) != identity_hash([(other, ()), (JOB, ())], 1, None)


def test_the_queue_is_part_of_it_though_it_is_a_label() -> None:
    hashes = {hashed(JOB, queue=queue) for queue in (None, "gold", "silver")}
    assert len(hashes) == 3


def test_the_order_of_keys_is_not() -> None:
    assert hashed(dict(reversed(JOB.items()))) == hashed(JOB)


def test_hashing_changes_nothing() -> None:
    before = copy.deepcopy(JOB)
    hashed(JOB, ("/spec/parallelism",))
    assert before == JOB


# Identity: what moves a name, and what does not.


def name(cluster: Data, run: Data) -> str:
    return compile_data(cluster, run).plan.name


COSMETIC: tuple[tuple[str, Data], ...] = (
    ("labels", {"labels": {"example.com/note": "edited"}}),
    ("team", {"team": "another-team"}),
    ("waivers", {"waivers": [{"code": "TW305", "reason": "built anew every night", "expires": "2031-01-01"}]}),
    ("state", {"state": "active"}),
)


def _topology(run: Data, **fields: Any) -> Data:
    return {"topology": {**run["topology"], **fields}}


MOVING: dict[str, Callable[[Data, Data], Data]] = {
    "pod_labels": lambda cluster, run: {"pod_labels": {"example.com/note": "edited"}},
    "pod_annotations": lambda cluster, run: {"pod_annotations": {"example.com/note": "edited"}},
    "attempt": lambda cluster, run: {"attempt": 1_000_000},
    "image": lambda cluster, run: {"image": "registry.example.com/another/image:2"},
    "nodes": lambda cluster, run: _topology(
        run, nodes=6, **({"elastic": {"min_nodes": 6, "max_nodes": 6}} if "elastic" in run["topology"] else {})
    ),
    "env": lambda cluster, run: {"env": {"APP_NEW": "edited"}},
    "secret": lambda cluster, run: {"env": {"APP_NEW": {"secret": "another-secret", "key": "another-key"}}},
    "files": lambda cluster, run: {"files": {"/etc/app/new.json": {"edited": True}}, "file_modes": {}, "file_folders": []},
    "restarts": lambda cluster, run: {"restarts": 77},
    "priority": lambda cluster, run: {"priority": "edited"},
    "queue": lambda cluster, run: {"queue": _another_queue(cluster, run)},
    "resources": lambda cluster, run: {"resources": {"cpu": 5, "memory": "20Gi", "shared_memory": "1Gi"}},
    "sizes": lambda cluster, run: (
        _topology(run, elastic={"min_nodes": 1, "max_nodes": 9, "batch": "move"}) if "elastic" in run["topology"] else {}
    ),
    "chief": lambda cluster, run: _topology(run, chief=not run["topology"]["chief"]) if "chief" in run["topology"] else {},
    "launcher": lambda cluster, run: _topology(run, launcher_is_node=True) if run["topology"]["kind"] == "horovod" else {},
}
"""What to edit, or nothing where the run has no such thing."""


def _another_queue(cluster: Data, run: Data) -> str | None:
    others = [name for name in cluster["namespaces"][run["namespace"]]["queues"] if name != run.get("queue")]
    if "kueue" in cluster and CASES[run["target"]].kueue is None:
        return run.get("queue")
    if "kueue" in cluster:
        return others[0] if others else run.get("queue")
    return "edited" if cluster.get("scheduling", {}).get("gang") == "volcano" and run.get("gang", True) else None


@given(pair=pairs(), edit=st.sampled_from(COSMETIC))
@settings(max_examples=60)
def test_a_cosmetic_edit_moves_no_name(pair: tuple[Data, Data], edit: tuple[str, Data]) -> None:
    cluster, run = pair
    assert name(cluster, run | edit[1]) == name(cluster, run)


@given(pair=pairs())
@settings(max_examples=30)
def test_who_watches_a_run_moves_no_name(pair: tuple[Data, Data]) -> None:
    """A platform team can begin to watch its cluster, and end it, while runs go on."""
    cluster, run = pair
    watched = {key: value for key, value in cluster.items() if key != "monitoring"}
    run = {key: value for key, value in run.items() if key != "labels"}  # which may not say something else than its labels
    assert name(watched, run) == name(watched | {"monitoring": {"kind": "prometheus-operator", "dashboard": {}}}, run)


@given(pair=pairs())
@settings(max_examples=30)
def test_who_may_reach_a_run_moves_no_name(pair: tuple[Data, Data]) -> None:
    """A NetworkPolicy changes in place, and no pod changes with it."""
    cluster, run = pair
    run = {key: value for key, value in run.items() if key != "overrides"}  # which may be of the policy
    assert name(cluster | {"network_policy": False}, run) == name(cluster | {"network_policy": True}, run)


@given(pair=pairs())
@settings(max_examples=30)
def test_the_order_of_paths_moves_no_name(pair: tuple[Data, Data]) -> None:
    cluster, run = pair
    run = run | {"files": {"/etc/b/two": "2", "/etc/a/one": "1", **run.get("files", {})}}
    turned = {key: dict(reversed(run[key].items())) for key in ("mounts", "files", "prepare") if key in run}
    assert name(cluster, run | turned) == name(cluster, run)


@pytest.mark.parametrize("edit", MOVING)
@given(pair=pairs())
@settings(max_examples=12)
def test_an_edit_that_reaches_a_pod_moves_the_name(edit: str, pair: tuple[Data, Data]) -> None:
    cluster, run = pair
    hiding = ("overrides", "roles")  # what they say of a pod may stand before the edit
    run = {key: value for key, value in {"attempt": 1, **run}.items() if key not in hiding}
    moved = run | MOVING[edit](cluster, run)
    if moved == {"queue": None, **run} or moved == run:
        return
    assert name(cluster, moved) != name(cluster, run)


@given(pair=pairs())
@settings(max_examples=30)
def test_a_learning_rate_edit_moves_its_own_run_and_no_other(pair: tuple[Data, Data]) -> None:
    cluster, run = pair
    other = run | {"run": "another-run"}
    edited = run | {"learning_rate": {"base": 0.123}, "batch": {"micro": 8}}
    before, after = name(cluster, run), name(cluster, edited)
    read_by_pods = run["workload"]["kind"] == "trainer"
    assert (before != after) == read_by_pods
    assert name(cluster, other).removeprefix("another-run-") != before.removeprefix(f"{run['run']}-")
    assert name(cluster, other) == name(cluster, run | {"run": "another-run"})


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_keys_in_a_file_moves_nothing_but_the_environment(order: int) -> None:
    cluster, run = example()
    assert name(cluster, dict(list(run.items())[::order])) == name(cluster, run)


def example() -> tuple[Data, Data]:
    cluster: Data = {
        "cluster": "here",
        "kubernetes": "1.34",
        "node_pools": {"cpu": {"cpus": 8, "memory": "32Gi"}},
        "namespaces": {"training": {"security": {"user": 1000}, "claims": {"checkpoints": {"managed": False}}}},
    }
    run: Data = {
        "run": "one",
        "team": "t",
        "namespace": "training",
        "cluster": "here",
        "image": "registry.example.com/i:1",
        "topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 0},
        "workload": {"kind": "command", "command": ["train"]},
        "mounts": {"/checkpoints": {"claim": "checkpoints"}},
        "resources": {"memory": "1Gi", "cpu": 1},
    }
    return cluster, run
