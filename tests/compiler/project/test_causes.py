"""What TW501 names: the edits that runs would restart for, all of them, and nothing that was edited beside."""

from __future__ import annotations

import re

import pytest
from tests.compiler.projects import Scratch, assert_ended

from trainwright.project.scope import obstacles
from trainwright.project.status import last_records

LAPTOP = "charts/clusters/laptop.yaml"
DIGITS = "charts/lock/digits-ddp.yaml"
DIST = "dist/laptop/training/runs/digits-ddp.k8s.yaml"
LABELS = ("memory: 16Gi", "memory: 16Gi\n    labels: {example.com/pool: cpu}")
LARGER = ("size: 10Gi", "size: 20Gi")


def told(here: Scratch) -> list[str]:
    """Each TW501, as far as it names its cause."""
    findings = obstacles(here.project, here.build(), last_records(here.project)).all
    return [re.split(r" changes (?!its)", finding.message)[0] for finding in findings if finding.code == "TW501"]


@pytest.mark.parametrize("beside", [
    LARGER,
    ("registries: [registry.example.com]", "registries: [registry.example.com, mirror.example.com]"),
    ("gigabits_per_link: 1}", "gigabits_per_link: 1}\n  spare:\n    cpus: 8\n    memory: 32Gi"),
    ("standard: {access: [ReadWriteOnce, ReadWriteMany]}", "standard: {access: [ReadWriteOnce, ReadOnlyMany, ReadWriteMany]}"),
])
def test_what_was_edited_beside_is_not_named(beside: tuple[str, str], few: Scratch) -> None:
    few.edit(LAPTOP, *LABELS)
    few.edit(LAPTOP, *beside)
    assert told(few) == ["profile laptop: node_pools/cpu/labels/example.com/pool (nothing) → cpu"]


def test_both_of_two_causes_are_named(few: Scratch) -> None:
    few.edit(LAPTOP, *LABELS)
    few.write("charts/defaults.yaml", "all:\n  env: {HF_HOME: /tmp/cache}\n")
    both = "profile laptop: node_pools/cpu/labels/example.com/pool (nothing) → cpu and charts/defaults.yaml: env/HF_HOME "
    assert any(said == f"{both}(nothing) → /tmp/cache" for said in told(few))


@pytest.mark.parametrize("moves", [True, False])
def test_another_release_is_named_where_values_differ_that_nobody_states(moves: bool, few: Scratch) -> None:
    few.edit(LAPTOP, *LABELS)
    record = few.read(DIGITS)
    few.write(DIGITS, re.sub(r'trainwright: ".*"', 'trainwright: "0.1.0"', record))
    if moves:  # as an older release would have written it
        few.edit(DIST, "enableServiceLinks: false", "enableServiceLinks: true")
    said = next(said for said in told(few) if said.startswith("profile laptop: node_pools/cpu/labels/"))
    assert (" and trainwright 0.1.0 → 0.2.0" in said) == moves


MODULE = """\
import json
from pathlib import Path

base = json.loads((Path(__file__).parents[1] / "base.json").read_text())
RUNS = [{**base, "run": f"sweep-{number}", "batch": {"micro": number * base["batch"]["micro"]}} for number in (1, 2)]
"""
BASE = """\
{"team": "vision", "namespace": "training", "cluster": "laptop", "env": {"SEED": "1"},
 "image": "registry.example.com/trainwright/trainer@sha256:bca6d13be098a4938d4194efe11cd5bb14289e796daff1392373572e047a35a8",
 "topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 0}, "batch": {"micro": 8}, "learning_rate": {"base": 0.001},
 "workload": {"kind": "trainer", "task": "image-classification", "epochs": 2, "data": {"source": "digits"},
              "model": {"architecture": "vit", "image_size": 8, "patch_size": 2, "num_channels": 1, "hidden_size": 64,
                        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_labels": 10}},
 "checkpoints": {"every_steps": 100}, "mounts": {"/checkpoints": {"claim": "training-checkpoints"}}}
"""


@pytest.mark.parametrize(("before", "after", "said"), [
    ('"base": 0.001', '"base": 0.002', "learning rate 1.0e-3 → 2.0e-3"),
    ('"micro": 8', '"micro": 16', "batch 16 → 32"),
    ('"SEED": "1"', '"SEED": "2"', "charts/runs/sweep.py imports or reads"),
])
def test_an_edited_base_of_a_sweep_is_told_from_this_build(before: str, after: str, said: str, few: Scratch) -> None:
    few.write("charts/base.json", BASE)
    few.write("charts/runs/sweep.py", MODULE)
    few.synth()
    few.edit("charts/base.json", before, after)
    ended = few.run("check")
    assert_ended(ended, 1, "charts/runs/sweep.py:5:1: error TW501 a file that charts/runs/sweep.py imports or reads", said)
    assert "this build of Trainwright" not in ended.stderr


def test_a_profile_is_told_from_the_base_of_a_sweep(few: Scratch) -> None:
    few.write("charts/base.json", BASE)
    few.write("charts/runs/sweep.py", MODULE)
    few.synth()
    few.edit(LAPTOP, *LABELS)
    assert set(told(few)) == {"profile laptop: node_pools/cpu/labels/example.com/pool (nothing) → cpu"}
    assert not any("imports or reads" in said for said in told(few))
