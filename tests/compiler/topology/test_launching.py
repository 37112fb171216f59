"""What a command's launcher is told of the other pods, on every target that numbers its pods."""

from __future__ import annotations

import re

import pytest
from tests.compiler.controllers import Pod, pods
from tests.compiler.example import Data, command, compiled
from tests.compiler.objects import lines_without_answer, problems_of
from tests.compiler.targets import on, profile_for

from trainwright.command.references import expand
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
    assert first.container["command"] == ["env", "NODE_RANK=$(PET_NODE_RANK)", "start", "$(PET_NODE_RANK)"]


WITH_DEFAULTS = (
    "export NODE_RANK=${NODE_RANK:-0} MASTER_ADDR=${MASTER_ADDR:-localhost}; : ${MASTER_PORT:=29500}; "
    'if [[ -z "$NNODES" ]]; then NNODES=$(hosts | wc -l); fi; [[ $NPROC_PER_NODE==8 ]] || exit 1; '
    "start --of $NNODES --rank $NODE_RANK --at $MASTER_ADDR:$MASTER_PORT"
)


@pytest.mark.parametrize("target", TARGETS)
def test_a_command_with_defaults_is_told_what_it_has_them_for(target: str) -> None:
    everyone = pods(run(target, "bash", "-c", WITH_DEFAULTS).manifests)
    assert [told(pod)["NODE_RANK"] for pod in everyone] == ["0", "1"]
    assert all(told(pod).keys() == set(LAUNCHER_VARIABLES) for pod in everyone)


def test_what_a_command_sets_first_is_its_own() -> None:
    text = "export NODE_RANK=$PET_NODE_RANK MASTER_ADDR=$PET_MASTER_ADDR; start --rank $NODE_RANK --at $MASTER_ADDR"
    assert all(told(pod) == {} for pod in pods(run("indexed-job", "bash", "-c", text).manifests))
    asked = command("bash", "-c") | {"roles": {role: {"args": [text]} for role in ("master", "worker")}}
    result = compiled({**on("pytorch-job"), **asked}, profile_for("pytorch-job"))
    assert all("NODE_RANK" not in told(pod) for pod in pods(result.manifests))


EXPANDED = ("start", "$(NODE_RANK)", "bash", "-c", "rank $(NODE_RANK) of $(NNODES) at $(MASTER_ADDR):$(MASTER_PORT) $@")


@pytest.mark.parametrize("target", TARGETS)
def test_the_kubelet_knows_every_reference_in_the_command(target: str) -> None:
    """What ``env`` sets in front of a command comes too late: the kubelet expands the command before."""
    result = run(target, *EXPANDED, args=["--of", "$(NPROC_PER_NODE)", "--rank=$(NODE_RANK)"])
    everyone = pods(result.manifests)
    for number, pod in enumerate(everyone):
        words = [expand(word, pod.environment) for word in (*pod.container["command"], *pod.container["args"])]
        assert words[-7:] == [
            str(number), "bash", "-c", f"rank {number} of 2 at {everyone[0].host}:29500 $@", "--of", "8", f"--rank={number}",
        ]
    assert problems_of(result) == []
    assert lines_without_answer(result) == []


@pytest.mark.parametrize("target", TARGETS)
def test_text_and_what_a_shell_reads_stay(target: str) -> None:
    words = ("bash", "-c", "echo $$(NODE_RANK) $NODE_RANK ${NODE_RANK} $(hostname) $$$$(NODE_RANK) $NODE_RANKS")
    assert all(pod.container["command"][-3:] == list(words) for pod in pods(run(target, *words).manifests))


def test_a_role_of_its_own_command_is_told_too() -> None:
    roles = {"worker": {"command": ["start", "$(NODE_RANK)"], "args": ["$(NODE_RANK)"]}}
    result = compiled({**on("pytorch-job"), **command("torchrun", "t.py"), "roles": roles}, profile_for("pytorch-job"))
    first, second = pods(result.manifests)
    assert first.container["command"] == ["env", "NODE_RANK=$(PET_NODE_RANK)", "torchrun", "t.py"]
    assert second.container["command"][2:] + second.container["args"] == ["start", "$(PET_NODE_RANK)", "$(PET_NODE_RANK)"]
