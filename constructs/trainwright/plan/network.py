"""Settings of NCCL, gloo and libfabric that follow from the fabric between nodes.

Nothing is set that the libraries find out themselves (NCCL user guide, environment variables). Sources of the rest:

- ``NCCL_IB_GID_INDEX`` and ``NCCL_IB_TC`` only where the profile states them: NCCL chooses the RoCE address itself since 2.21.
- ``FI_PROVIDER=efa``: libfabric may offer TCP too, and a pod without its EFA device would train over that.
  ``FI_EFA_USE_DEVICE_RDMA`` is left out: libfabric asks the device since 1.18 (aws-samples/awsome-distributed-training,
  efa-cheatsheet.md).
- ``NCCL_NET_GDR_LEVEL=LOC`` turns GPUDirect RDMA off where NCCL takes it for working and it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trainwright.cluster import Fabric
from trainwright.findings.locate import escape
from trainwright.handshake import Needs, Variable

RDMA = frozenset({"infiniband", "roce", "efa"})
"""Kinds of fabric that bypass the kernel, through devices that a pod must ask for."""

_VERBS = frozenset({"infiniband", "roce"})


class Fact(NamedTuple):
    """What the fabric says about one variable."""

    name: str
    value: str
    field: str
    """Of the fabric."""
    reason: str
    silent: bool = False
    """Whether the library finds it out, so that the plan sets nothing."""
    also: frozenset[str] = frozenset()
    """Other values that say no different."""

    denied: frozenset[str] = frozenset()
    """The only ones that do, where there are such."""

    def agrees(self, value: str) -> bool:
        return value.lower() not in self.denied if self.denied else value == self.value or value in self.also


def network_variables(pool: str, fabric: Fabric, needs: Needs) -> list[Variable]:
    """What the plan sets for ranks on several nodes; for ranks on one, nothing."""
    source = f"cluster:/node_pools/{escape(pool)}/fabric"
    facts = [fact for fact in fabric_facts(fabric, needs) if not fact.silent]
    return [Variable(fact.name, fact.value, fact.reason, f"{source}/{fact.field}") for fact in facts]


def fabric_facts(fabric: Fabric, needs: Needs) -> list[Fact]:
    """What the fabric decides, and what a run may not contradict. An elastic run counts with its largest size."""
    if needs.most_nodes == 1 or not needs.talk:
        return []
    if not needs.gpus_per_node:
        return list(_interface("GLOO", fabric))
    return [*_interface("NCCL", fabric), *_transport(fabric), *_addresses(fabric), *_gpu_direct(fabric)]


def _interface(library: str, fabric: Fabric) -> Iterator[Fact]:
    if fabric.interface:
        field = "host_interface" if fabric.interface == fabric.host_interface else "interface"  # either says it where both do
        # NCCL takes names for prefixes unless = comes before them; gloo knows exact names only.
        also = frozenset({f"={fabric.interface}"}) if library == "NCCL" else frozenset()
        yield Fact(f"{library}_SOCKET_IFNAME", fabric.interface, field, "the interface for bootstrap traffic", also=also)


def _transport(fabric: Fabric) -> Iterator[Fact]:
    if fabric.kind == "tcp" and fabric.kind_is_stated:  # else nobody has said that there are no RDMA devices
        yield Fact("NCCL_IB_DISABLE", "1", "kind", "the fabric is TCP: do not look for RDMA devices")
    if fabric.kind in _VERBS:
        yield Fact("NCCL_IB_DISABLE", "0", "kind", "NCCL looks for RDMA devices by itself", silent=True)
        yield Fact("NCCL_NET", "IB", "kind", "NCCL takes the RDMA devices by itself", silent=True, denied=frozenset({"socket"}))
    if fabric.kind == "efa":
        yield Fact("FI_PROVIDER", "efa", "kind", "the fabric is EFA: libfabric's TCP is no substitute")
        plugin = "NCCL reaches EFA through the plugin aws-ofi-nccl, and through nothing else"
        yield Fact("NCCL_NET_PLUGIN", "aws-ofi", "kind", plugin, silent=True, denied=frozenset({"none"}))
        yield Fact("NCCL_NET", "AWS Libfabric", "kind", plugin, silent=True, denied=frozenset({"socket", "ib"}))


def _addresses(fabric: Fabric) -> Iterator[Fact]:
    if fabric.kind in _VERBS and fabric.hca:
        yield Fact("NCCL_IB_HCA", fabric.hca, "hca", "the network adapters that carry training")
    if fabric.gid_index is not None:
        yield Fact("NCCL_IB_GID_INDEX", str(fabric.gid_index), "gid_index", "where the RoCE address is on every node")
    if fabric.traffic_class is not None:
        yield Fact("NCCL_IB_TC", str(fabric.traffic_class), "traffic_class", "the class that the switches keep free of loss")


def _gpu_direct(fabric: Fabric) -> Iterator[Fact]:
    if fabric.kind not in RDMA or fabric.gpu_direct is None:
        return
    if fabric.gpu_direct:
        levels = frozenset({"NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", *map(str, range(1, 10))})
        yield Fact("NCCL_NET_GDR_LEVEL", "", "gpu_direct", "NCCL finds the level by itself", silent=True, also=levels)
    else:
        off = "adapters do not reach the GPUs' memory here"
        yield Fact("NCCL_NET_GDR_LEVEL", "LOC", "gpu_direct", off, also=frozenset({"0"}))
