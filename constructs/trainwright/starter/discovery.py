"""A profile from what a cluster says of itself."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from trainwright.cluster.addons import Releases, Scheduling
from trainwright.manifest.gang import SCHEDULERS
from trainwright.objects.formats import amount
from trainwright.operators import TARGETS
from trainwright.operators.kueue.releases import CRD, RELEASES
from trainwright.units import GIB

Object = Mapping[str, Any]
Data = dict[str, Any]

KUBECTL = "kubectl get nodes,storageclasses,crds -o json"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
GPU_MEMORY = {
    "GB300": 279, "GB200": 186, "B300": 268, "B200": 180, "H200": 141, "H100": 80, "A100": 80, "L40S": 48, "A10G": 24, "L4": 24,
    "V100": 16, "T4": 16, "MI355X": 288, "MI300X": 192,
}
"""Model of a GPU -> its memory in GB, where no node label says it."""
SPOT = {
    "karpenter.sh/capacity-type": ("spot", "2m"),
    "eks.amazonaws.com/capacityType": ("SPOT", "2m"),
    "cloud.google.com/gke-spot": ("true", "30s"),
    "kubernetes.azure.com/scalesetpriority": ("spot", "30s"),
}
"""Label of nodes that may be reclaimed -> its value, and the notice that the cloud promises. Some label the other nodes too."""
LEVELS = {
    "topology.k8s.aws/network-node-layer-1": "layer-1",
    "topology.k8s.aws/network-node-layer-2": "layer-2",
    "topology.k8s.aws/network-node-layer-3": "layer-3",
    "cloud.google.com/gce-topology-block": "block",
    "cloud.google.com/gce-topology-subblock": "subblock",
    "oci.oraclecloud.com/rdma.network_block_id": "block",
    "oci.oraclecloud.com/rdma.local_block_id": "rack",
    "backend.coreweave.cloud/leafgroup": "leafgroup",
    "topology.kubernetes.io/rack": "rack",
}
"""Node label of a level of the network, the widest first -> what a profile may call it."""
SHARED_FILES = re.compile(r"efs|fsx|lustre|filestore|parallelstore|file\.csi\.azure|nfs|cephfs|vast|weka|gpfs|wekafs|netapp|pwx")
"""Provisioners whose volumes many nodes may write at once."""

class DiscoveryError(ValueError):
    """The list of objects is none, or says too little."""


class Device(NamedTuple):
    """An extended resource of a node."""

    name: str
    amount: int


class GpuLabels(NamedTuple):
    """Labels by which nodes say what their GPUs are."""

    product: tuple[str, ...]
    memory: str


GPU_LABELS = {
    "nvidia.com/gpu": GpuLabels(("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"), "nvidia.com/gpu.memory"),
    "amd.com/gpu": GpuLabels(("amd.com/gpu.product-name",), "amd.com/gpu.vram"),
}
"""Of NVIDIA's GPU feature discovery, with memory in MiB (81559), of GKE, and of AMD's node labeller, which says GiB (192G)."""


@dataclass(slots=True)
class Found:
    """A profile in the making, and what a person must look at."""

    data: Data
    guesses: list[str] = field(default_factory=list)


def discovered_profile(name: str, listed: Any) -> str:
    """The text of a profile, with a comment for each thing that the cluster does not say.

    Raises:
        DiscoveryError: where there is no node in the list, or an amount that is no quantity.
    """
    objects = listed.get("items") if isinstance(listed, Mapping) else None
    if not isinstance(objects, list):
        raise DiscoveryError(f"it is no list of objects: give what `{KUBECTL}` prints")
    nodes = [node for node in _of_kind(objects, "Node") if not _is_control_plane(node)]
    if not nodes:
        raise DiscoveryError(f"there is no worker node in it: `{KUBECTL}` lists them")
    found = Found({"cluster": name, "kubernetes": _version(nodes)})
    _operators(found, {crd["metadata"]["name"]: crd for crd in _of_kind(objects, "CustomResourceDefinition")})
    found.data["network_policy"] = True
    _pools(found, nodes)
    _levels(found, nodes)
    _storage(found, _of_kind(objects, "StorageClass"))
    found.guesses.append("registries: those that images may come from; as it is, any may")
    head = ["Read off the cluster. It does not say these, so look at them:", *(f"- {guess}" for guess in found.guesses)]
    text: str = yaml.safe_dump(found.data, sort_keys=False, default_flow_style=None, width=120)
    return "".join(f"# {line}\n" for line in head) + text


def _of_kind(objects: Sequence[Any], kind: str) -> list[Object]:
    return [one for one in objects if isinstance(one, Mapping) and one.get("kind") == kind]


def _is_control_plane(node: Object) -> bool:
    return any(taint["key"].startswith("node-role.kubernetes.io/") for taint in _taints(node))


def _labels(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _taints(node: Object) -> list[Data]:
    """Those that stay: what the node's controllers set while something is wrong goes again."""
    taints = (node.get("spec") or {}).get("taints") or []
    return [taint for taint in taints if not taint["key"].startswith("node.kubernetes.io/")]


def _version(nodes: Sequence[Object]) -> str:
    """The API server is as new as its newest kubelet, or newer."""
    found = [re.match(r"v?1\.([0-9]+)", str(node["status"]["nodeInfo"]["kubeletVersion"])) for node in nodes]
    minors = [int(match[1]) for match in found if match]
    if not minors:
        raise DiscoveryError("no node says which version of Kubernetes it has (status.nodeInfo.kubeletVersion)")
    return f"1.{max(minors)}"


# Operators, schedulers and monitoring, by their CRDs.


def _operators(found: Found, crds: Mapping[str, Object]) -> None:
    known = {one.name: one for target in TARGETS.values() for one in (target.operator, *target.depends_on) if one}
    operators = {
        name: {"version": _release(found, name, crds[one.crd.name], one.releases)}
        for name, one in known.items()
        if _serves(crds.get(one.crd.name), one.crd.version)
    }
    if operators:
        found.data["operators"] = operators
    for name, scheduler in SCHEDULERS.items():
        if crd := crds.get(scheduler.crd):
            found.data["scheduling"] = {"gang": name, "version": _release(found, name, crd, scheduler.releases)}
            found.guesses.append(f"scheduling.scheduler_name: what pods call {name}, if not {Scheduling(gang=name).name}")
            break
    if crd := crds.get(CRD):
        found.data["kueue"] = {"version": _release(found, "kueue", crd, RELEASES)}
        found.guesses.append("namespaces.training.queues: Kueue's LocalQueues, once you have named them")
    if "podmonitors.monitoring.coreos.com" in crds:
        found.data["monitoring"] = {"kind": "prometheus-operator"}
        found.guesses.append("monitoring.pod_monitor_labels, rule_labels: what your Prometheus selects by")


def _serves(crd: Object | None, version: str) -> bool:
    """The Training Operator has an MPIJob too, v1."""
    return crd is not None and any(one.get("name") == version for one in crd["spec"]["versions"])


def _release(found: Found, name: str, crd: Object, known: Releases) -> str:
    stated = (crd["metadata"].get("labels") or {}).get("app.kubernetes.io/version", "")
    match = re.fullmatch(r"v?([0-9]+\.[0-9]+(\.[0-9]+)?)", stated)
    if match:
        return match[1]
    newest = f"{known.last[0]}.{known.last[1]}.0"
    found.guesses.append(f"{name} is installed, in a release that no CRD names: {newest} is the newest that Trainwright knows")
    return newest


# Nodes.


def _pools(found: Found, nodes: Sequence[Object]) -> None:
    """One pool for all nodes of a kind; those with GPUs first, since a run takes the first pool that fits."""
    products: dict[str, set[str]] = {}
    for node in nodes:
        products.setdefault(_labels(node).get(INSTANCE_TYPE, ""), set()).update(_product(node).values())
    mixed = {machine for machine, several in products.items() if len(several) > 1}
    kinds: dict[str, list[Object]] = {}
    for node in nodes:
        kind = (_selector(node, mixed), list(_devices(node)), sorted(map(str, _taints(node))))
        kinds.setdefault(repr(kind), []).append(node)
    pools: dict[str, Data] = {}
    for alike in sorted(kinds.values(), key=lambda alike: -sum(device.amount for device in _gpus(alike[0]))):
        name = _pool_name(alike[0], pools)
        pools[name] = _pool(found, name, alike, _selector(alike[0], mixed))
    found.data["node_pools"] = pools
    for name, pool in pools.items():
        if others := [other for other, one in pools.items() if one is not pool and _admits(one, pool)]:
            text = f"they lead its pods to nodes of {', '.join(others)} too; add one that only its own nodes have"
            found.guesses.append(f"node_pools.{name}.labels: {text}")


def _selector(node: Object, mixed: Container[str]) -> Data:
    """Labels that lead a pool's pods to its nodes: type of machine, its GPU where the type has several, how it was bought."""
    labels = _labels(node)
    machine = labels.get(INSTANCE_TYPE, "")
    told = {key: labels[key] for key in (INSTANCE_TYPE, *SPOT) if labels.get(key)}
    return told | (_product(node) if machine in mixed else {})


def _admits(pool: Data, other: Data) -> bool:
    """Whether pods of the other pool may land on nodes of this one."""
    selected = other.get("labels", {}).items() <= pool.get("labels", {}).items()
    tolerated = all(taint in other.get("taints", []) for taint in pool.get("taints", []))
    return selected and tolerated and ("gpu" in pool or "gpu" not in other)


def _devices(node: Object) -> Iterator[Device]:
    capacity = node["status"].get("capacity") or {}
    yield from (Device(key, count) for key in sorted(capacity) if "/" in key and (count := _whole(capacity, key)))


def _whole(capacity: Mapping[str, Any], key: str) -> int:
    """The whole part of an amount, which the API server may write in any form of a quantity: 128, 1k, 64e3, 1.5Ti."""
    number = amount(capacity[key])
    if number is None:
        raise DiscoveryError(f"a node's capacity of {key} is {capacity[key]!r}, which is no quantity")
    return int(number)


def _gpus(node: Object) -> list[Device]:
    return [device for device in _devices(node) if device.name.endswith("/gpu")]


def _pool_name(node: Object, taken: Mapping[str, Any]) -> str:
    spot = any(_labels(node).get(key) == value for key, (value, _) in SPOT.items())
    words = _labels(node).get(INSTANCE_TYPE) or ("gpu" if _gpus(node) else "cpu")
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:40] + ("-spot" if spot else "")
    name = name if name[:1].isalpha() else f"pool-{name}"
    return next(one for one in (name, *(f"{name}-{number}" for number in range(2, 1000))) if one not in taken)


def _pool(found: Found, name: str, nodes: Sequence[Object], selector: Data) -> Data:
    """What the smallest of the nodes has."""
    where = f"node_pools.{name}"
    capacities = [node["status"]["capacity"] for node in nodes]
    pool: Data = {
        "cpus": max(min(_whole(capacity, "cpu") for capacity in capacities), 1),
        "memory": f"{max(min(_whole(capacity, 'memory') for capacity in capacities) // GIB, 1)}Gi",
        "nodes": len(nodes),
    }
    gpus = _gpus(nodes[0])
    if gpus:
        pool["gpu"] = _gpu(found, where, nodes, gpus[0])
    pool["fabric"] = _fabric(found, where, [device for device in _devices(nodes[0]) if device not in gpus])
    if selector:
        pool["labels"] = selector
    if taints := _taints(nodes[0]):
        pool["taints"] = [{key: taint[key] for key in ("key", "value", "effect") if taint.get(key)} for taint in taints]
    for key, (value, notice) in SPOT.items():
        if selector.get(key) == value:
            pool["spot"] = {"notice": notice}
    return pool


def _gpu(found: Found, where: str, nodes: Sequence[Object], gpu: Device) -> Data:
    product = next((value for node in nodes for value in _product(node).values()), "")
    model, stated = gpu_model(product), [memory for node in nodes if (memory := _gpu_memory(node, gpu)) is not None]
    if not stated:
        found.guesses.append(f"{where}.gpu.memory: no node label says it")
    if not model:
        why = f"{product} is none that is known here" if product else "no node label says it"
        found.guesses.append(f"{where}.gpu.model: {why}")
    memory = min(stated) if stated else GPU_MEMORY.get(model, 24)
    data: Data = {"model": model or product or "GPU", "memory": f"{memory}Gi", "per_node": gpu.amount}
    return data if gpu.name == "nvidia.com/gpu" else {**data, "resource": gpu.name}


def _product(node: Object) -> Data:
    """The label by which a node says which GPUs it has; empty where it has none."""
    names = (name for gpu in _gpus(node) if gpu.name in GPU_LABELS for name in GPU_LABELS[gpu.name].product)
    return next(({name: value} for name in names if (value := _labels(node).get(name))), {})


def _gpu_memory(node: Object, gpu: Device) -> int | None:
    """In GiB."""
    text = _labels(node).get(GPU_LABELS[gpu.name].memory, "") if gpu.name in GPU_LABELS else ""
    stated = re.fullmatch("([0-9]+)(G?)", text)
    return round(int(stated[1]) / (1 if stated[2] else 1024)) if stated else None


def gpu_model(name: str) -> str:
    """The GPU in the name of a product or a machine (NVIDIA-H100-80GB-HBM3, h100x8, 8xh100ib), or an empty text.

    A GH200 is no H200, and an L40 no L4.
    """
    return next((model for model in GPU_MEMORY if re.search(rf"(?<![A-WYZ0-9]){model}(?![0-9])", name.upper())), "")


def _fabric(found: Found, where: str, devices: Sequence[Device]) -> Data:
    for device in devices:
        if device.name == "vpc.amazonaws.com/efa":
            found.guesses.append(f"{where}.fabric: links and their rate")
            links = {"kind": "efa", "links": device.amount, "gigabits_per_link": 100}
            return {**links, "resource": device.name, "resource_count": device.amount}
        if "rdma" in device.name:
            count = device.amount if device.amount <= 16 else 1  # a shared device is handed out a thousand times
            found.guesses.append(f"{where}.fabric: InfiniBand or RoCE, links and their rate, interface, and hca for NCCL")
            return {
                "kind": "infiniband", "links": max(count, 8 if count == 1 else count), "gigabits_per_link": 400,
                "interface": "eth0", "resource": device.name, "resource_count": count,
            }
    found.guesses.append(f"{where}.fabric.gigabits_per_link: the rate of a node's network")
    return {"kind": "tcp", "gigabits_per_link": 25}


def _levels(found: Found, nodes: Sequence[Object]) -> None:
    """The levels that every node with GPUs has a label for, or every node where none has GPUs."""
    wanted = [node for node in nodes if _gpus(node)] or nodes
    levels = {name: {"label": label} for label, name in LEVELS.items() if all(label in _labels(node) for node in wanted)}
    if levels:
        found.data["topology"] = levels


# Storage.


def _storage(found: Found, classes: Sequence[Object]) -> None:
    """A claim for checkpoints of a class that many nodes may write, or one that is there already."""
    shared = [one["metadata"]["name"] for one in classes if SHARED_FILES.search(str(one.get("provisioner", "")))]
    for name in (one["metadata"]["name"] for one in classes):
        modes = ["ReadWriteOnce", *(["ReadOnlyMany", "ReadWriteMany"] if name in shared else [])]
        found.data.setdefault("storage_classes", {})[name] = {"access": modes}
    claim: Data = {"managed": False, "access": "ReadWriteMany"}
    if shared:
        claim = {"storage_class": shared[0], "size": "1Ti", "access": "ReadWriteMany"}
        found.guesses.append("namespaces.training.claims: size and write_mebibytes_per_second of the volume for checkpoints")
    else:
        found.guesses.append("namespaces.training.claims: no storage class is known to serve many nodes; name a claim that does")
    found.data["namespaces"] = {"training": {"pod_security": "restricted", "claims": {"training-checkpoints": claim}}}

