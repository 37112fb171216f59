"""The interface of a rank's own address: by rows, and between two network namespaces whose names lead nowhere."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.programs import lacking

from trainwright_trainer.contract.layout import BIND_ENV
from trainwright_trainer.rank.interface import Address, held, name_interface, own_interface
from trainwright_trainer.rank.place import Place

ALONE = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--uts"]
RANK = Path(__file__).with_name("interface_rank.py")


def table(**interfaces: str) -> dict[Address, str]:
    return {ipaddress.ip_address(text): name for name, texts in interfaces.items() for text in texts.split()}


HERE = table(lo="127.0.0.1 ::1", docker0="172.17.0.1", bond0="203.0.113.7 2001:db8:7::7", eth1="198.51.100.9 fe80::1")
NOWHERE = {"HOSTNAME": "no.such.name.invalid"}


@pytest.mark.parametrize(("environ", "alone", "interface"), [
    ({BIND_ENV: "203.0.113.7"}, False, "bond0"),
    ({BIND_ENV: "2001:db8:7::7"}, False, "bond0"),
    ({BIND_ENV: "198.51.100.9", "NCCL_SOCKET_IFNAME": "bond0"}, False, "eth1"),  # its own address is nearer than NCCL's
    ({BIND_ENV: "0.0.0.0", "NCCL_SOCKET_IFNAME": "=eth1"}, False, "eth1"),
    ({"NCCL_SOCKET_IFNAME": "ib,eth"}, False, "eth1"),
    ({"NCCL_SOCKET_IFNAME": "=eth"}, False, "docker0"),  # no such interface: the first with an address
    ({"NCCL_SOCKET_IFNAME": "^docker"}, False, "docker0"),
    ({"MASTER_ADDR": "127.0.0.1"}, True, "lo"),
    ({"MASTER_ADDR": "127.0.1.1", "NCCL_SOCKET_IFNAME": "bond0"}, False, "bond0"),  # node 0 by Debian's default
    ({BIND_ENV: "127.0.0.1"}, False, "docker0"),
    ({}, False, "docker0"),
])
def test_rows(environ: dict[str, str], alone: bool, interface: str) -> None:
    found = own_interface(NOWHERE | environ, HERE, alone=alone)
    assert found is not None
    assert found.interface == interface


def test_nothing_is_known() -> None:
    assert own_interface(NOWHERE, {}, alone=False) is None
    assert own_interface(NOWHERE, table(lo="127.0.0.1", eth0="fe80::1"), alone=False) is None


def test_what_is_set_stays() -> None:
    environ = {"GLOO_SOCKET_IFNAME": "eth7", "MASTER_ADDR": "127.0.0.1", "LOCAL_WORLD_SIZE": "1"}
    name_interface(environ, Place(0, 1, 0, 0))
    assert environ["GLOO_SOCKET_IFNAME"] == "eth7"


def test_this_machine() -> None:
    assert held()[ipaddress.ip_address("127.0.0.1")] == "lo"


def _can_unshare() -> bool:
    return not lacking("ip") and not subprocess.run(
        [*ALONE, "sh", "-c", "mount -t tmpfs none /run && ip netns add a"], capture_output=True
    ).returncode


NETWORK = """
set -e
mount -t tmpfs none /run
mount --bind "$HOSTS" /etc/hosts
hostname node
for each in a b; do ip netns add $each; ip -n $each link set lo up; ip -n $each link add docker0 type bridge; done
ip link add va netns a type veth peer name vb netns b
ip -n a addr add "$FIRST" dev va $NODAD
ip -n b addr add "$SECOND" dev vb $NODAD
for each in a b; do
  ip -n $each addr add "$BRIDGE" dev docker0
  ip -n $each link set v$each up
  ip -n $each link set docker0 up
done
unset HOSTNAME
RANK=0 ip netns exec a "$PYTHON" "$PROGRAM" & first=$!
RANK=1 ip netns exec b "$PYTHON" "$PROGRAM" & second=$!
wait $first; wait $second
"""


@pytest.mark.skipif(not _can_unshare(), reason=lacking("ip") or "needs user and network namespaces")
@pytest.mark.parametrize("hosts", ["127.0.1.1 node\n", ""], ids=["127.0.1.1", "unresolvable"])
@pytest.mark.parametrize("family", ["10.9.0.{}/24", "fd00:9::{}/64"], ids=["IPv4", "IPv6 alone"])
def test_two_nodes_whose_names_lead_nowhere(hosts: str, family: str, tmp_path: Path) -> None:
    """Both have an interface more, with the same address on both, as Docker's bridge."""
    (tmp_path / "hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
    first, second = family.format(1), family.format(2)
    environ = {
        "PATH": os.environ["PATH"], "HOSTS": str(tmp_path / "hosts"), "FIRST": first, "SECOND": second,
        "NODAD": "nodad" if ":" in first else "", "BRIDGE": "fd00:17::1/64" if ":" in first else "172.17.0.1/16",
        "PYTHON": sys.executable, "PROGRAM": str(RANK), "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": first.partition("/")[0], "MASTER_PORT": "29500", "OMP_NUM_THREADS": "1",
    }
    ran = subprocess.run([*ALONE, "sh", "-c", NETWORK], env=environ, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert sorted(ran.stdout.split("\n")) == ["", "rank 0 by va: 3.0", "rank 1 by vb: 3.0"]
