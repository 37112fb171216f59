"""``trainwright init``: from flags, without a terminal, and in a conversation."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compiler.cli.terminal import talk
from tests.compiler.projects import ROOT, TRAINWRIGHT, Scratch, assert_ended, scratch

from trainwright.reading.document import read_yaml
from trainwright.run import Run


@pytest.fixture
def here(tmp_path: Path) -> Scratch:
    return scratch(tmp_path / "project")


def test_init_from_flags_writes_a_run_that_compiles(here: Scratch) -> None:
    image = "registry.example.com/team/trainer@sha256:" + "a" * 64
    ended = here.run("init", "mine", "--cluster", "laptop", "--namespace", "training", "--team", "vision", "--image", image,
                     "--claim", "training-checkpoints", "--nodes", "2", "--gpus", "0")
    assert_ended(ended, 0, "wrote charts/runs/mine.yaml")
    run = Run.model_validate(read_yaml(here.path("charts/runs/mine.yaml")).data)
    assert (run.run, run.team, run.image, run.topology.nodes) == ("mine", "vision", image, 2)
    assert_ended(here.run("plan", "mine"), 0)
    assert_ended(here.run("synth"), 0)
    assert_ended(here.run("check"), 0)


def test_init_without_a_terminal_takes_the_defaults(here: Scratch) -> None:
    for cluster in ("laptop", "h100-ib"):
        assert_ended(here.run("init", f"on-{cluster}", "--cluster", cluster), 0)
        assert_ended(here.run("plan", f"on-{cluster}"), 0)


@pytest.mark.parametrize("name", ["true", "null"])
def test_init_writes_names_that_yaml_takes_for_something_else(name: str, here: Scratch) -> None:
    assert_ended(here.run("init", name, "--cluster", "laptop"), 0)
    assert_ended(here.run("synth"), 0)
    assert_ended(here.run("check"), 0)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["Upper"], 2, "is not a run name"),
        (["a" * 41], 2, "is not a run name"),
        (["../x"], 2, "is not a run name"),
        ([""], 2, "is not a run name"),
        (["digits-ddp"], 2, "already exists"),
        (["torchrun-command"], 2, "already exists"),
        (["x", "--cluster", "nothing"], 2, "there is no cluster nothing"),
        (["x", "--namespace", "nothing"], 2, "there is no namespace nothing"),
        (["x", "--claim", "nothing"], 2, "there is no claim nothing"),
        (["x", "--nodes", "0"], 2, "nodes"),
        (["x", "--nodes", "two"], 2, "nodes"),
        (["x", "--team", "Not A Team"], 1, "TW107"),
        (["x", "--team", "a: b"], 1, "TW107"),
        (["x", "--image", "x # y"], 1, "TW304"),
        (["x", "--image", "a\nstate: done"], 1, "TW304"),
        (["x", "--team", '"'], 1, "TW107"),
        (["x", "--cluster", "laptop", "--gpus", "8"], 1, "TW302"),
        (["x", "--cluster", "laptop", "--nodes", "4096"], 1, "TW206"),
    ],
)
def test_init_of_what_cannot_be_writes_nothing(arguments: list[str], code: int, words: str, here: Scratch) -> None:
    ended = here.run("init", *arguments)
    assert_ended(ended, code)
    assert words in ended.stderr
    assert here.git("status", "--porcelain") == ""


def test_init_asks_on_a_terminal_until_the_answers_fit(here: Scratch) -> None:
    conversation = [
        ("cluster", "nothing"),
        ("there is no cluster nothing", "laptop"),
        ("namespace", ""),
        ("claim", ""),
        ("team", "Not A Team"),
        ("write not-a-team", "vision"),
        ("image", "ghcr.io/somebody/trainer:1"),
        ("does not allow image ", ""),
        ("nodes", "many"),
        ("many is not a whole number", "4000"),
        ("4000", "2"),
        ("GPUs", "8"),
        ("GPU", "0"),
        ("topology: ddp, fsdp2, deepspeed, ", "fsdp2"),
        ("workload: trainer, script, command", "script"),
    ]
    code, said = talk([str(TRAINWRIGHT), "init", "mine"], here.root, conversation)
    assert code == 0, said
    assert "Traceback" not in said
    run = Run.model_validate(read_yaml(here.path("charts/runs/mine.yaml")).data)
    assert (run.cluster, run.team, run.topology.nodes, run.topology.gpus_per_node) == ("laptop", "vision", 2, 0)
    assert (run.topology.kind, run.workload.kind) == ("zero3", "script")


@pytest.mark.parametrize("cluster", [path.stem for path in sorted((ROOT / "charts" / "clusters").glob("*.yaml"))])
def test_init_writes_a_run_that_compiles_on_every_profile(cluster: str, here: Scratch) -> None:
    assert_ended(here.run("init", "mine", "--cluster", cluster), 0)
    assert_ended(here.run("synth", "mine"), 0)


@pytest.mark.parametrize(
    ("cluster", "flags", "expected"),
    [
        ("kubeflow-a100", ["--topology", "horovod"], ("horovod", "mpi-job")),
        ("kubeflow-a100", ["--topology", "multi-worker-mirrored", "--workload", "script"], ("multi-worker-mirrored", "tf-job")),
        ("kubeflow-a100", ["--topology", "xgboost", "--gpus", "0"], ("xgboost", "indexed-job")),
        ("trainer-h100", ["--topology", "deepspeed", "--target", "job-set"], ("zero3", "job-set")),
        ("ray-l40s", ["--topology", "ray", "--workload", "command"], ("ray", None)),
        ("h100-ib", ["--workload", "command"], ("ddp", None)),
        ("h100-ib", ["--topology", "jax"], ("jax", None)),
        ("laptop", ["--topology", "independent"], ("independent", None)),
        ("kubeflow-a100", ["--topology", "mpi"], ("mpi", "mpi-job")),
    ],
)
def test_init_takes_a_target_that_carries_what_is_asked_for(
    cluster: str, flags: list[str], expected: tuple[str, str | None], here: Scratch
) -> None:
    ended = here.run("init", "mine", "--cluster", cluster, *flags)
    assert_ended(ended, 0)
    run = Run.model_validate(read_yaml(here.path("charts/runs/mine.yaml")).data)
    assert (run.topology.kind, run.target) == expected


def test_init_says_why_a_cluster_does_not_carry_what_is_asked_for(here: Scratch) -> None:
    ended = here.run("init", "mine", "--cluster", "laptop", "--topology", "horovod")
    assert_ended(ended, 1, "TW401", "charts/runs/mine.yaml was not written")
    ended = here.run("init", "mine", "--cluster", "laptop", "--topology", "mpi")
    assert_ended(ended, 1, "TW401", "charts/runs/mine.yaml was not written")
    ended = here.run("init", "mine", "--cluster", "laptop", "--topology", "ring")
    assert_ended(ended, 2, "there is no topology ring; use one of: ddp, ")
    assert here.git("status", "--porcelain") == ""


def test_init_that_is_left_half_way_writes_nothing(here: Scratch) -> None:
    code, said = talk([str(TRAINWRIGHT), "init", "mine"], here.root, [("cluster", "laptop"), ("namespace", "\x04")])
    assert code != 0
    assert "Traceback" not in said
    assert here.git("status", "--porcelain") == ""
