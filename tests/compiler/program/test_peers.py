"""Hosts and sizes that a command gives to a launcher, with what its text and its variables hold put in."""

from __future__ import annotations

import pytest
from tests.compiler.example import Data, command, findings

from trainwright.findings import Severity


def said(text: str, **run: object) -> list[tuple[str, str]]:
    found = findings({**command("bash", "-c", text), "topology": {"nodes": 2}, **run})
    return [(one.code, one.severity.value) for one in found if one.code in ("TW411", "TW476")]


@pytest.mark.parametrize(("text", "expected"), [
    ("MASTER=old-name-0; exec torchrun --master_addr=$MASTER t.py", [("TW411", "error")]),
    ("export MASTER=old-name-0.old-name && torchrun --master_addr=${MASTER} t.py", [("TW411", "error")]),
    ("N=4; torchrun --nnodes=$N t.py", [("TW411", "error")]),
    ("N=2; torchrun --nnodes=$N t.py", []),
    ("torchrun --nnodes=$WORLD_SIZE t.py", [("TW411", "error")]),
    ("until getent hosts old-name-0; do sleep 1; done; exec torchrun t.py", [("TW476", "error")]),
    ("until getent hosts old-name; do sleep 1; done; exec torchrun t.py", [("TW476", "warning")]),
    ("H=old-name-0; while ! nc -z $H 29500; do sleep 1; done; exec torchrun t.py", [("TW476", "error")]),
    ("nslookup redis-0.redis; exec torchrun t.py", [("TW476", "warning")]),
    ("until getent hosts $MASTER_ADDR; do sleep 1; done; exec torchrun t.py", []),
    ("getent hosts registry.example.com; ping -c 1 10.0.0.1; ssh localhost true; exec torchrun t.py", []),
    ("for host in $(cat /hosts); do getent hosts $host; done; exec torchrun t.py", []),
])  # fmt: skip
def test_names_are_resolved_and_known(text: str, expected: list[tuple[str, str]]) -> None:
    assert said(text) == expected


def test_what_env_holds_is_put_in_too() -> None:
    env: Data = {"env": {"RENDEZVOUS": "old-name-0", "PODS": "5"}}
    assert said("torchrun --master_addr=$RENDEZVOUS --nnodes=$PODS t.py", **env) == [("TW411", "error")] * 2
    assert said("RENDEZVOUS=$MASTER_ADDR; torchrun --master_addr=$RENDEZVOUS t.py", **env) == []


def test_a_script_among_the_files_names_hosts_too() -> None:
    text = "until nslookup resnet-a1b2c3d4-0; do :; done\nexec torchrun t.py\n"
    run = {**command("bash", "/run.sh"), "files": {"/run.sh": text}}
    (found,) = [one for one in findings(run) if one.severity is Severity.ERROR]
    assert (found.code, found.where.pointer) == ("TW476", "/files/~1run.sh")
