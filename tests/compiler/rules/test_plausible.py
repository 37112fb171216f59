"""Values that are legal and hardly meant."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, codes, command, findings, message


@pytest.mark.parametrize(
    ("run", "code", "pointer"),
    [
        ({"learning_rate": {"base": 1e6}}, "TW216", "/learning_rate/base"),
        ({"learning_rate": {"base": 100}}, "TW216", "/learning_rate/base"),
        ({"watchdog": {"starting": "1s"}}, "TW217", "/watchdog/starting"),
        ({"watchdog": {"training": "1s"}}, "TW217", "/watchdog/training"),
        ({"resources": {"shared_memory": 1}}, "TW218", "/resources/shared_memory"),
        ({"resources": {"cpu": "1m"}}, "TW218", "/resources/cpu"),
        ({"resources": {"memory": 64}}, "TW218", "/resources/memory"),
        ({"mounts": {"/scratch": {"scratch": "8Pi"}}}, "TW218", "/mounts/~1scratch/scratch"),
        ({"checkpoints": {"every": "1s"}}, "TW246", "/checkpoints/every"),
        ({"checkpoints": {"every_steps": 10**9}}, "TW246", "/checkpoints/every_steps"),
    ],
)
def test_a_slip_of_the_pen(run: Data, code: str, pointer: str) -> None:
    if "every_steps" in run.get("checkpoints", {}):
        run = run | {"workload": {"epochs": None, "steps": 1000}}
    (finding,) = [finding for finding in findings(run) if finding.code == code]
    assert finding.where.pointer == pointer
    assert finding.fix


@pytest.mark.parametrize(
    "run",
    [
        {"learning_rate": {"base": 0.05}},
        {"watchdog": {"training": "10s"}},
        {"resources": {"shared_memory": "64Mi"}},
        {"resources": {"cpu": 2}},
        {"resources": {"memory": "2Gi"}},
        {"mounts": {"/scratch": {"scratch": "4Ti"}}},
        {"checkpoints": {"every": "1m"}},
    ],
)
def test_values_that_somebody_may_mean(run: Data) -> None:
    assert not {"TW216", "TW217", "TW218", "TW246"} & set(codes(run))


def test_a_command_saves_by_itself() -> None:
    assert "TW246" not in codes(command("torchrun", "train.py"))


@pytest.mark.parametrize(
    ("topology", "more", "fits"),
    [
        ({"nodes": 64}, {}, True),
        ({"nodes": 65}, {}, False),
        ({"nodes": 4000}, {}, False),
        ({"nodes": 512, "gpus_per_node": 1}, {}, True),
        ({"nodes": 513, "gpus_per_node": 1}, {}, False),
        ({"nodes": 65, "gpus_per_node": 1}, {"placement": {"one_per_node": True}}, False),
    ],
)
def test_a_pool_may_say_how_many_nodes_it_has(topology: Data, more: Data, fits: bool) -> None:
    run = command("torchrun", "train.py") | {"topology": topology} | more
    assert ("TW309" in codes(run, {"node_pools": {"h100": {"nodes": 64}}})) is not fits
    assert "TW309" not in codes(run)


def test_the_number_of_nodes_is_named() -> None:
    run = command("torchrun", "train.py") | {"topology": {"nodes": 4000}}
    assert "needs 4,000 nodes of pool h100, which has 64" in message(run, {"node_pools": {"h100": {"nodes": 64}}})


def test_the_proposed_interval_leaves_time_to_train() -> None:
    slow = {"namespaces": {"training": {"claims": {"checkpoints": {"write_mebibytes_per_second": 1}}}}}
    wide = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}
    often = {"workload": {"model": wide}, "checkpoints": {"every": "1m"}}
    (found,) = (each for each in findings(often, slow) if each.code == "TW246")
    every = found.fix.split("every: ")[1].split("}")[0]
    assert "TW246" not in codes({**often, "checkpoints": {"every": every}}, slow)
