"""What a command's launcher is told of the other pods, on every target that numbers its pods."""

from __future__ import annotations

import re

import pytest
from tests.compiler.controllers import Pod, pods
from tests.compiler.example import Data, command, compiled
from tests.compiler.objects import lines_without_answer, problems_of
from tests.compiler.targets import on, profile_for

from trainwright.compile import CompiledRun
from trainwright.topology import LAUNCHER_VARIABLES

TARGETS = ("indexed-job", "job-set", "pytorch-job", "train-job", "volcano-job")
READS_ALL = ("bash", "-c", "start --of $NNODES --each ${NPROC_PER_NODE} --rank $NODE_RANK --at $MASTER_ADDR:$MASTER_PORT")


def run(target: str, *words: str, **work: object) -> CompiledRun:
    asked: Data = command(*words)
    asked["workload"] |= work
    return compiled({**on(target), **asked}, profile_for(target))


def told(pod: Pod) -> dict[str, str]:
    """What the pod's program finds, as the kubelet and ``env`` make it."""
    environment, words = pod.environment, list(pod.container["command"])
    if words[0] == "env":
        name, _, value = re.sub(r"\$\((\w+)\)", lambda found: str(environment[found[1]]), words[1]).partition("=")
        environment[name] = value
    return {name: str(environment[name]) for name in LAUNCHER_VARIABLES if name in environment}


@pytest.mark.parametrize("target", TARGETS)
def test_every_pod_is_told_what_its_command_reads(target: str) -> None:
    result = run(target, *READS_ALL)
    everyone = pods(result.manifests)
    first = {"MASTER_ADDR": everyone[0].host, "MASTER_PORT": "29500", "NNODES": "2", "NPROC_PER_NODE": "8"}
    assert [told(pod) for pod in everyone] == [first | {"NODE_RANK": str(number)} for number in range(2)]
    assert problems_of(result) == []
    assert lines_without_answer(result) == []


@pytest.mark.parametrize("target", TARGETS)
def test_nobody_else_is_told(target: str) -> None:
    """torchrun reads variables of its own, so a run that starts it is the run that it was."""
    own = {"MASTER_ADDR", "MASTER_PORT"} if target == "pytorch-job" else set()
    for words in (("torchrun", "train.py"), ("torchrun", "--node_rank=$(PET_NODE_RANK)", "train.py")):
        assert all(told(pod).keys() == own for pod in pods(run(target, *words).manifests))
    assert all(told(pod).keys() == own for pod in pods(run(target, *READS_ALL, launcher_variables=False).manifests))


@pytest.mark.parametrize("target", TARGETS)
def test_a_run_may_ask_for_all(target: str) -> None:
    everyone = pods(run(target, "python", "/app/train.py", launcher_variables=True).manifests)
    assert all(told(pod).keys() == set(LAUNCHER_VARIABLES) for pod in everyone)


@pytest.mark.parametrize("target", TARGETS)
def test_the_launchers_own_variables_are_never_set(target: str) -> None:
    injected = {"RANK", "WORLD_SIZE"} if target == "pytorch-job" else set()
    for pod in pods(run(target, *READS_ALL).manifests):
        assert {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & pod.environment.keys() == injected
        assert {"RANK", "LOCAL_RANK", "WORLD_SIZE"}.isdisjoint(entry["name"] for entry in pod.container["env"])


def test_the_words_before_a_command_are_there_for_the_index_alone() -> None:
    [first, *_] = pods(run("pytorch-job", "start", "$(NODE_RANK)").manifests)
    assert first.container["command"] == ["env", "NODE_RANK=$(PET_NODE_RANK)", "start", "$(NODE_RANK)"]
