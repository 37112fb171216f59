"""The alerts play in Prometheus' own engine: series of a run go in, and each alert must fire when it should, and only then."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.example import compiled

from trainwright.manifest.monitoring import monitoring_objects
from trainwright.manifest.monitoring.series import IDENTITY
from trainwright.manifest.monitoring.series import RUN as RUN_KEY
from trainwright.manifest.why import split

PROFILE = {"monitoring": {"kind": "prometheus-operator", "dcgm": True}}
RUN = {"checkpoints": {"every": "30m", "every_steps": 1000}}
"""Two pods that log every 10 steps."""

DCGM = 'DCGM_FI_DEV_GPU_UTIL{namespace="gpu-operator",pod="exporter-1",exported_namespace="training",exported_pod="%s",gpu="%s"}'
HONORED = 'DCGM_FI_DEV_GPU_UTIL{namespace="training",pod="%s",gpu="%s"}'


@dataclass(frozen=True)
class Scene:
    """Samples a minute, and what fires at a minute."""

    name: str
    series: Mapping[str, str]
    """Metric or series -> values in promtool's notation."""
    minute: int
    fires: frozenset[str]


def scene(name: str, minute: int, fires: str, series: Mapping[str, str]) -> Scene:
    return Scene(name, series, minute, frozenset(f"Trainwright{alert}" for alert in fires.split()))


TRAINING = {  # a step a second, seen once a minute; a commit every 30 minutes
    "trainwright_up": "1+0x300",
    "trainwright_ranks_alive": "8+0x300",
    "trainwright_step": "0+60x300",
    "trainwright_step_seconds": "1+0x300",
    "trainwright_last_step_timestamp_seconds": "0+60x300",
    "trainwright_committed_step": " ".join(f"{60 * start}+0x29" for start in range(0, 300, 30)),
}


def restarts(count: int, minutes: int) -> dict[str, str]:
    """The supervisors of two pods, each replaced by a new one so many times."""
    return {
        f"trainwright_up@{node}-{attempt}": " ".join(["_"] * attempt * minutes + ["1"] * minutes)
        for attempt in range(count)
        for node in range(2)
    }


SCENES = (
    scene("all is well", 240, "", TRAINING),
    scene("the last step is long ago", 60, "StalledStep", TRAINING | {
        "trainwright_step": "0+60x20 1200+0x60", "trainwright_last_step_timestamp_seconds": "0+60x20 1200+0x60",
        "trainwright_committed_step": "1200+0x90",
    }),
    scene("an evaluation takes ten minutes", 32, "", TRAINING | {
        "trainwright_step": "0+60x20 1200+0x60", "trainwright_last_step_timestamp_seconds": "0+60x20 1200+0x60",
    }),
    scene("steps of ten minutes, reported every 10", 150, "", TRAINING | {
        "trainwright_step": "0+0x99 10+0x99", "trainwright_step_seconds": "600+0x300",
        "trainwright_last_step_timestamp_seconds": "0+0x99 6000+0x99", "trainwright_committed_step": "0+0x99 10+0x99",
    }),
    scene("no first step", 40, "NoFirstStep", {"trainwright_up": "1+0x60", "trainwright_ranks_alive": "8+0x60"}),
    scene("still restoring", 25, "", {"trainwright_up": "1+0x60", "trainwright_ranks_alive": "8+0x60"}),
    scene("waiting for pods that are not scheduled", 60, "", {"trainwright_up": "1+0x90", "trainwright_ranks_alive": "0+0x90"}),
    scene("half of the time is lost", 180, "LowGoodput", TRAINING | {
        "trainwright_step": "0+30x300", "trainwright_committed_step": "0+30x300",
    }),
    scene("young, and half of the time is lost", 60, "", TRAINING | {
        "trainwright_step": "0+30x300", "trainwright_committed_step": "0+30x300",
    }),
    scene("a tenth of the time is lost", 180, "", TRAINING | {
        "trainwright_step": "0+54x300", "trainwright_committed_step": "0+54x300",
    }),
    scene("nothing is committed", 90, "FailingCheckpoints", {k: v for k, v in TRAINING.items() if "committed" not in k}),
    scene("commits stopped", 200, "FailingCheckpoints", TRAINING | {"trainwright_committed_step": "6000+0x300"}),
    scene("a save failed", 30, "FailingCheckpoints", TRAINING | {"trainwright_checkpoint_failures_total": "_x20 1 _x200"}),
    scene("a save failed an hour ago", 90, "", TRAINING | {"trainwright_checkpoint_failures_total": "_x20 1 _x200"}),
    scene("a save misses the grace period", 70, "SaveBeyondGrace", TRAINING | {
        "trainwright_checkpoint_save_seconds": "_x30 20+0x29 4000+0x240",
    }),
    scene("saves make the grace period", 70, "", TRAINING | {"trainwright_checkpoint_save_seconds": "20+0x300"}),
    scene("the save after a slow one is quick", 100, "", TRAINING | {
        "trainwright_checkpoint_save_seconds": "4000+0x29 20+0x270",
    }),
    scene("every save fails, unseen", 100, "FailingCheckpoints", restarts(3, 34)),
    scene("three preemptions, each saved", 100, "", restarts(3, 34) | {
        "trainwright_last_commit_timestamp_seconds@0-0": "_x30 1800+0x3",
        "trainwright_last_commit_timestamp_seconds@0-1": "_x66 3960+0x2",
    }),
    scene("four starts in an hour", 59, "RestartLoop", restarts(4, 15)),
    scene("two starts in an hour", 59, "", restarts(2, 30)),
    scene("four starts, and an hour of peace", 160, "", restarts(3, 15) | {
        "trainwright_up@0-9": "_x45 1+0x200", "trainwright_up@1-9": "_x45 1+0x200",
    }),
    scene("one GPU of a pod idles", 50, "GpuIdle", TRAINING | {DCGM % ("pod-0", 0): "99+0x300", DCGM % ("pod-0", 1): "1+0x300"}),
    scene("the same, with honored labels", 50, "GpuIdle", TRAINING | {HONORED % ("pod-0", 1): "1+0x300"}),
    scene("all GPUs are busy", 50, "", TRAINING | {DCGM % ("pod-0", 0): "99+0x300", DCGM % ("pod-1", 0): "97+0x300"}),
    scene("somebody else's GPU idles", 50, "", TRAINING | {
        DCGM % ("notebook", 0): "0+0x300", HONORED % ("notebook", 0): "0+0x300",
    }),
    scene("a GPU idles before the ranks start", 50, "", TRAINING | {
        "trainwright_ranks_alive": "0+0x300", DCGM % ("pod-0", 1): "1+0x300",
    }),
)


def series_name(key: str) -> str:
    """A metric of pod 0, ``metric@pod``, or a series with labels of its own."""
    if "{" in key:
        return key
    metric, _, pod = key.partition("@")
    labels = {
        "namespace": "training", RUN_KEY: "example", IDENTITY: "example-abcdefgh",
        "pod": f"pod-{pod or 0}", "instance": f"10.0.0.{pod or 0}:9400", "job": "training/example",
    }
    return metric + "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def expected(alert: str, scene: Scene) -> list[dict[str, Any]]:
    """It fires once, for the identity or for the pod, or not at all."""
    if alert not in scene.fires:
        return []
    subject = {"pod": "pod-0"} if alert == "TrainwrightGpuIdle" else {IDENTITY: "example-abcdefgh"}
    return [{"exp_labels": subject}]


def unit_tests(rules: str, alerts: list[str]) -> dict[str, Any]:
    """What promtool reads: for each scene, every alert with what is expected of it; labels are checked where it fires."""
    return {
        "rule_files": [rules],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": each.name,
                "interval": "1m",
                "input_series": [{"series": series_name(key), "values": values} for key, values in each.series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{each.minute}m", "alertname": alert, "exp_alerts": expected(alert, each)} for alert in alerts
                ],
            }
            for each in SCENES
        ],
    }


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool, which Debian and Ubuntu have in their package prometheus")
    return found


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    """What the PrometheusRule holds: what promtool reads as a file of rules."""
    objects = [split(tree)[0] for tree in monitoring_objects(compiled(RUN, PROFILE).resolution)]
    spec: dict[str, Any] = next(each["spec"] for each in objects if each["kind"] == "PrometheusRule")
    return spec


def test_prometheus_takes_the_rules(promtool: str, rules: dict[str, Any], tmp_path: Path) -> None:
    """Expressions, and the templates of the texts."""
    (tmp_path / "rules.json").write_text(json.dumps(rules))
    run(promtool, "check", "rules", str(tmp_path / "rules.json"))


def test_alerts_fire_when_they_should_and_only_then(promtool: str, rules: dict[str, Any], tmp_path: Path) -> None:
    """Without their texts, which promtool would compare as well."""
    bare = [{**rule, "labels": {}, "annotations": {}} for group in rules["groups"] for rule in group["rules"]]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "bare", "rules": bare}]}))
    (tmp_path / "tests.json").write_text(json.dumps(unit_tests("rules.json", [rule["alert"] for rule in bare])))
    run(promtool, "test", "rules", str(tmp_path / "tests.json"))


def test_every_alert_fires_in_a_scene(rules: dict[str, Any]) -> None:
    assert {rule["alert"] for group in rules["groups"] for rule in group["rules"]} == {
        alert for each in SCENES for alert in each.fires
    }


def run(*command: str) -> None:
    """It says itself which scene did not go as expected."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
