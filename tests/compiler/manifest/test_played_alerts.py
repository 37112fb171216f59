"""The alerts play in Prometheus' own engine: series of runs go in, and each alert must fire when it should, and only then."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.example import Data, compiled, script
from tests.compiler.findings.page import overlay
from tests.compiler.operators.test_mpi_job import HOROVOD
from tests.compiler.operators.test_xgboost_job import BOOSTING
from tests.programs import path_of

from trainwright.manifest.monitoring import WatchedRun, monitoring_objects, watched
from trainwright.manifest.monitoring.series import IDENTITY
from trainwright.manifest.monitoring.series import RUN as RUN_KEY
from trainwright.manifest.provenance import split
from trainwright.plan import Resolution
from trainwright_trainer.contract.limits import PODS_LIMIT, limits
from trainwright_trainer.contract.spec import RunSpec

PROFILE: Data = {
    "monitoring": {"kind": "prometheus-operator", "dcgm": True},
    "operators": {"training-operator": {"version": "1.9.4"}, "mpi-operator": {"version": "0.8.2"}},
    "namespaces": {"training": {"pod_security": "privileged"}},
}
RUN: Data = {"checkpoints": {"every": "30m", "every_steps": 1000}}
"""Two pods that log every 10 steps."""
PYTORCH: Data = {**RUN, "target": "pytorch-job"}

RUNS: dict[str, Data] = {
    "job": RUN,
    "host": {**PYTORCH, "host_network": True},
    "elastic": {**PYTORCH, "topology": {"elastic": {"min_nodes": 1, "max_nodes": 2, "batch": "keep"}}},
    "mpi": overlay(RUN, HOROVOD),
    "boosting": overlay(RUN, BOOSTING),
    "script": {**script("python", "train.py")},
}
"""An Indexed Job's pods come back under new names, those on a node's network under the old ones, and those of an elastic run one
by one; under mpirun it is the launcher that comes back."""

EMPTY = "trainwright_attempts_without_commit"
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
    run: str
    """Of :data:`RUNS`."""


def scene(name: str, minute: int, fires: str, series: Mapping[str, str], run: str = "job") -> Scene:
    return Scene(name, series, minute, frozenset(f"Trainwright{alert}" for alert in fires.split()), run)


TRAINING = {  # a step a second, seen once a minute; a commit every 30 minutes
    "trainwright_up": "1+0x300",
    "trainwright_attempt": "1+0x300",
    "trainwright_ranks_alive": "8+0x300",
    "trainwright_step": "0+60x300",
    "trainwright_step_seconds": "1+0x300",
    "trainwright_last_step_timestamp_seconds": "0+60x300",
    "trainwright_committed_step": " ".join(f"{60 * start}+0x29" for start in range(0, 300, 30)),
}


def after(minutes: int, values: str) -> str:
    """What begins then: a series that was not there before has no sample."""
    return f"_x{minutes} {values}" if minutes else values


def anew(metric: str, count: int, minutes: int, pods: tuple[str, ...] = ("0", "1")) -> dict[str, str]:
    """A metric of pods that are each replaced by a new one so many times; ``n`` in a value is the number of the attempt."""
    name, _, value = metric.partition("=")
    return {
        f"{name}@{pod}-{attempt}": after(attempt * minutes, f"{value.replace('n', str(attempt + 1))}x{minutes - 1}")
        for attempt in range(count)
        for pod in pods
    }


def supervisors(count: int, minutes: int) -> dict[str, str]:
    """Of two pods that are replaced. No attempt begins, or the trainer does not count them."""
    return anew("trainwright_up=1", count, minutes)


def restarts(count: int, minutes: int) -> dict[str, str]:
    """Two pods that are replaced, and begin an attempt each time."""
    return supervisors(count, minutes) | anew("trainwright_attempt=n", count, minutes)


def in_vain(series: dict[str, str]) -> dict[str, str]:
    """The same, where no attempt commits anything."""
    name = "trainwright_attempt@"
    return series | {key.replace(name, f"{EMPTY}@"): values for key, values in series.items() if key.startswith(name)}


def in_place(count: int, minutes: int) -> dict[str, str]:
    """Two pods that come back under the same name and address, and are away for a minute in between."""
    lives = range(1, count + 1)
    return {
        f"{metric}@{node}": " ".join(f"{value or life}x{minutes - 2} _" for life in lives)
        for metric, value in (("trainwright_up", 1), ("trainwright_attempt", 0))
        for node in (0, 1)
    }


def rounds(count: int, minutes: int) -> dict[str, str]:
    """An elastic run of two pods that each count every other round, the one that leads it."""
    return {"trainwright_up@0": "1x300", "trainwright_up@1": "1x300"} | {
        f"trainwright_attempt@{node}": " ".join(
            f"{life}x{minutes - 1}" if life % 2 == node else f"_x{minutes}" for life in range(1, count + 1)
        )
        for node in (0, 1)
    }


WORKERS = {f"trainwright_{metric}@{node}": f"{value}x300" for metric, value in (("up", 1), ("ranks_alive", 0)) for node in (0, 1)}
"""Under mpirun: their supervisors know of no ranks, and outlive every attempt."""


def launchers(count: int, minutes: int) -> dict[str, str]:
    """They are replaced and begin an attempt each time; the workers stay."""
    return waiting_launchers(count, minutes) | anew("trainwright_attempt=n", count, minutes, ("launcher",))


def waiting_launchers(count: int, minutes: int) -> dict[str, str]:
    """They are replaced before an attempt begins."""
    return WORKERS | {
        key: values
        for metric in ("trainwright_up=1", "trainwright_peers_connected=1")
        for key, values in anew(metric, count, minutes, ("launcher",)).items()
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
    scene("a save fails and training goes on", 55, "FailingCheckpoints", TRAINING | {
        "trainwright_checkpoint_failures_total": "_x20 1x29 2x200",
    }),
    scene("saves failed hours ago in a run that goes on", 200, "", TRAINING | {
        "trainwright_checkpoint_failures_total": "_x20 1x29 2x250",
    }),
    scene("a save misses the grace period", 70, "SaveBeyondGrace", TRAINING | {
        "trainwright_checkpoint_save_seconds": "_x30 20+0x29 4000+0x240",
    }),
    scene("saves make the grace period", 70, "", TRAINING | {"trainwright_checkpoint_save_seconds": "20+0x300"}),
    scene("the save after a slow one is quick", 100, "", TRAINING | {
        "trainwright_checkpoint_save_seconds": "4000+0x29 20+0x270",
    }),
    scene("every save fails, unseen", 100, "FailingCheckpoints", in_vain(restarts(3, 34))),
    scene("three attempts, each of which saved", 100, "", restarts(3, 34) | {
        f"{EMPTY}@0-{attempt}": after(34 * attempt, "1x29 0x3") for attempt in range(3)
    }),
    scene("the third attempt commits", 105, "", in_vain(restarts(3, 34)) | {
        **{f"{EMPTY}@{pod}-2": after(68, "3x10 0x60") for pod in (0, 1)},
        **{f"trainwright_up@{pod}-2": after(68, "1x80") for pod in (0, 1)},
        **{f"trainwright_attempt@{pod}-2": after(68, "3x80") for pod in (0, 1)},
    }),
    scene("four starts in an hour", 59, "RestartLoop", restarts(4, 15)),
    scene("two starts in an hour", 59, "", restarts(2, 30)),
    scene("four starts, and an hour of peace", 160, "", restarts(3, 15) | {
        f"trainwright_{metric}@{node}-9": f"_x45 {value}x200" for metric, value in (("up", 1), ("attempt", 4)) for node in (0, 1)
    }),
    scene("four starts, of which two were seen", 59, "RestartLoop", {
        "trainwright_up@0-0": "1x14", "trainwright_attempt@0-0": "1x14",
        "trainwright_up@0-3": "_x45 1x60", "trainwright_attempt@0-3": "_x45 4x60",
    }),
    scene("a fifth start, after hours in a queue", 190, "", restarts(1, 30) | {
        "trainwright_up@0-9": "_x180 1x60", "trainwright_attempt@0-9": "_x180 5x60",
    }),
    scene("four starts, and no attempt begins", 59, "RestartLoop", supervisors(4, 15)),
    scene("four starts in an hour", 59, "RestartLoop", in_place(4, 15), "host"),
    scene("two starts in an hour", 59, "", in_place(2, 30), "host"),
    scene("four starts, and an hour of peace", 160, "", {
        key: f"{values} {1 if 'up' in key else 5}x200" for key, values in in_place(4, 12).items()
    }, "host"),
    scene("every save fails, unseen", 100, "FailingCheckpoints", in_vain(in_place(3, 34)), "host"),
    scene("four launchers in an hour", 59, "RestartLoop", launchers(4, 15), "mpi"),
    scene("two launchers in an hour", 59, "", launchers(2, 30), "mpi"),
    scene("four launchers, and no attempt begins", 59, "RestartLoop", waiting_launchers(4, 15), "mpi"),
    scene("every save fails, unseen", 100, "FailingCheckpoints", in_vain(launchers(3, 34)), "mpi"),
    scene("three launchers, each of which saved", 100, "", launchers(3, 34) | {
        f"{EMPTY}@launcher-1": "_x34 1x29 0x4",
    }, "mpi"),
    scene("a GPU of a worker idles", 50, "GpuIdle", WORKERS | {
        "trainwright_ranks_alive@launcher": "16x300", DCGM % ("example-0", 1): "1x300",
        **{f"{metric}@launcher": values for metric, values in TRAINING.items() if metric != "trainwright_ranks_alive"},
    }, "mpi"),
    scene("a GPU idles while the launcher waits", 50, "", WORKERS | {
        "trainwright_ranks_alive@launcher": "0x300", DCGM % ("example-0", 1): "1x300",
    }, "mpi"),
    scene("two pods are lost in an hour, and come back", 59, "", rounds(5, 12) | {f"{EMPTY}@0": "1x29 0x60"}, "elastic"),
    scene("pods come and go", 59, "RestartLoop", rounds(7, 8), "elastic"),
    scene("every save fails, unseen", 80, "FailingCheckpoints", in_vain(rounds(5, 16)), "elastic"),
    scene("all is well", 240, "", TRAINING, "boosting"),
    scene("the last round is long ago", 60, "StalledStep", TRAINING | {
        "trainwright_step": "0+60x20 1200+0x60", "trainwright_last_step_timestamp_seconds": "0+60x20 1200+0x60",
        "trainwright_committed_step": "1200+0x90",
    }, "boosting"),
    scene("commits stopped", 200, "FailingCheckpoints", TRAINING | {"trainwright_committed_step": "6000+0x300"}, "boosting"),
    scene("four starts in an hour", 59, "RestartLoop", restarts(4, 15), "boosting"),
    scene("four starts in an hour", 59, "RestartLoop", restarts(4, 15), "script"),
    scene("two starts in an hour", 59, "", restarts(2, 30), "script"),
    scene("one GPU of a pod idles", 50, "GpuIdle", TRAINING | {
        DCGM % ("example-0", 0): "99+0x300", DCGM % ("example-0", 1): "1+0x300",
    }),
    scene("the same, with honored labels", 50, "GpuIdle", TRAINING | {HONORED % ("example-0", 1): "1+0x300"}),
    scene("all GPUs are busy", 50, "", TRAINING | {DCGM % ("example-0", 0): "99+0x300", DCGM % ("example-1", 0): "97+0x300"}),
    scene("somebody else's GPU idles", 50, "", TRAINING | {
        DCGM % ("notebook", 0): "0+0x300", HONORED % ("notebook", 0): "0+0x300",
    }),
    scene("a GPU idles before the ranks start", 50, "", TRAINING | {
        "trainwright_ranks_alive": "0+0x300", DCGM % ("example-0", 1): "1+0x300",
    }),
)


ONE = re.compile(r"(?<![\w.+-])1(\+0)?(?=[x ]|$)")


def limited(scene: Scene, spec: RunSpec) -> dict[str, str]:
    """The series with the limits of the run, which a pod serves for as long as its supervisor is up."""
    found = dict(scene.series)
    for key, values in scene.series.items():
        metric, at, pod = key.partition("@")
        if metric == "trainwright_up":
            stays = scene.run == "mpi" and not pod.startswith("launcher") and bool(at)
            for name, limit in limits(spec).items():
                if not (stays and name == PODS_LIMIT):
                    found[f"{name}{at}{pod}"] = ONE.sub(f"{limit:g}\\g<1>", values)
    return found


def series_name(key: str, run: str = "example") -> str:
    """A metric of pod 0, ``metric@pod``, or a series with labels of its own."""
    if "{" in key:
        return key
    metric, _, pod = key.partition("@")
    labels = {
        "namespace": "training", RUN_KEY: run, IDENTITY: f"{run}-abcdefgh",
        "pod": f"{run}-{pod or 0}", "instance": f"10.0.0.{pod or 0}:9400", "job": "training/trainwright",
    }
    return metric + "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def expected(alert: str, scene: Scene) -> list[dict[str, Any]]:
    """It fires once, for the identity or for the pod, or not at all."""
    if alert not in scene.fires:
        return []
    pod = {"pod": "example-0"} if alert == "TrainwrightGpuIdle" else {}
    return [{"exp_labels": {**pod, **fired("example")}}]


def fired(run: str) -> dict[str, str]:
    return {
        IDENTITY: f"{run}-abcdefgh", RUN_KEY: run, "namespace": "training", "team": "vision", "severity": "warning",
    }


def unit_tests(rules: str, alerts: list[str], scenes: list[Scene], spec: RunSpec) -> dict[str, Any]:
    """What promtool reads: for each scene, every alert with what is expected of it; labels are checked where it fires."""
    return {
        "rule_files": [rules],
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": each.name,
                "interval": "1m",
                "input_series": [{"series": series_name(key), "values": values} for key, values in limited(each, spec).items()],
                "alert_rule_test": [
                    {"eval_time": f"{each.minute}m", "alertname": alert, "exp_alerts": expected(alert, each)} for alert in alerts
                ],
            }
            for each in scenes
        ],
    }


@pytest.fixture(scope="module")
def promtool() -> str:
    return path_of("promtool")


@cache
def seen(name: str) -> Resolution:
    return compiled(RUNS[name], PROFILE).resolution


def spec_of(name: str) -> RunSpec:
    spec = seen(name).spec
    assert spec is not None
    return spec


def rules(*runs: WatchedRun) -> dict[str, Any]:
    """What the PrometheusRule of a namespace holds: what promtool reads as a file of rules."""
    objects = [split(tree)[0] for tree in monitoring_objects(seen("job").cluster, "training", runs)]
    spec: dict[str, Any] = next(each["spec"] for each in objects if each["kind"] == "PrometheusRule")
    return spec


def without_texts(spec: dict[str, Any]) -> dict[str, Any]:
    """promtool would compare them as well."""
    return {"groups": [
        {**group, "rules": [{key: value for key, value in rule.items() if key != "annotations"} for rule in group["rules"]]}
        for group in spec["groups"]
    ]}


def alerts_in(spec: dict[str, Any]) -> list[str]:
    return [rule["alert"] for group in spec["groups"] for rule in group["rules"] if "alert" in rule]


def test_prometheus_takes_the_rules(promtool: str, tmp_path: Path) -> None:
    """Expressions, and the templates of the texts."""
    (tmp_path / "rules.json").write_text(json.dumps(rules(WatchedRun("example", "vision", "whole"))))
    run(promtool, "check", "rules", str(tmp_path / "rules.json"))


@pytest.mark.parametrize("name", RUNS)
def test_alerts_fire_when_they_should_and_only_then(promtool: str, name: str, tmp_path: Path) -> None:
    known = watched(seen(name))
    assert known is not None
    spec = rules(known)
    (tmp_path / "rules.json").write_text(json.dumps(without_texts(spec)))
    scenes = [each for each in SCENES if each.run == name]
    (tmp_path / "tests.json").write_text(json.dumps(unit_tests("rules.json", alerts_in(spec), scenes, spec_of(name))))
    run(promtool, "test", "rules", str(tmp_path / "tests.json"))


ILL = {7: "the last step is long ago", 70: "a save failed", 170: "a save misses the grace period"}
"""Of 200 runs: number -> what happens to it."""


@pytest.mark.slow
def test_a_namespace_of_200_runs(promtool: str, tmp_path: Path) -> None:
    """Three are ill, and each of them raises its own alert for its own team; no other run says anything."""
    names = [f"run-{number}" for number in range(200)]
    spec = rules(*(WatchedRun(name, "vision", "whole") for name in names))
    scenes = {each.name: each for each in SCENES if each.run == "job"}
    played = [scenes[ILL.get(number, "all is well")] for number in range(len(names))]
    series = [
        {"series": series_name(key, name), "values": values}
        for name, each in zip(names, played, strict=True) for key, values in limited(each, spec_of("job")).items()
    ]
    told = {alert: (scenes[name].minute, number) for number, name in ILL.items() for alert in scenes[name].fires}
    expected = [
        {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": [{"exp_labels": fired(f"run-{number}")} for number in ill]}
        for alert in alerts_in(spec) for minute, *ill in [told.get(alert, (60,))]
    ]
    assert [len(told), len(expected)] == [3, 7]
    (tmp_path / "rules.json").write_text(json.dumps(without_texts(spec)))
    (tmp_path / "tests.json").write_text(json.dumps({
        "rule_files": ["rules.json"], "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": expected}],
    }))
    run(promtool, "test", "rules", str(tmp_path / "tests.json"))


def test_every_alert_fires_in_a_scene() -> None:
    assert set(alerts_in(rules(WatchedRun("example", "vision", "whole")))) == {
        alert for each in SCENES for alert in each.fires if each.run == "job"
    }


@pytest.mark.parametrize("name", RUNS)
def test_a_loop_is_seen_on_every_target(name: str) -> None:
    assert "TrainwrightRestartLoop" in {alert for each in SCENES for alert in each.fires if each.run == name}


def run(*command: str) -> None:
    """It says itself which scene did not go as expected."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
