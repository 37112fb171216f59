"""Random cluster profiles: pools, operators in the releases that are known, schedulers, queues, places and monitoring."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.compiler.drawn_words import REGISTRY, label_maps, labels
from tests.compiler.targets import OPERATORS, Operator

Data = dict[str, Any]

GPU_MODELS = ("H100", "A100", "L4")
NAMES = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}
"""Gang scheduler -> its default name in pods."""


@st.composite
def _fabrics(draw: st.DrawFn) -> Data:
    fabric: Data = {"kind": draw(st.sampled_from(("tcp", "infiniband", "roce", "efa"))), "links": draw(st.integers(1, 8))}
    if draw(st.booleans()):
        fabric |= {"interface": "eth0", "hca": "=mlx5_0,mlx5_1", "gigabits_per_link": 400}
    if draw(st.booleans()):
        fabric |= {"resource": "rdma/shared", "resource_count": draw(st.integers(1, 4)), "ipc_lock": draw(st.booleans())}
    if fabric["kind"] == "roce":
        fabric |= draw(st.fixed_dictionaries({}, optional={"gid_index": st.integers(0, 9), "traffic_class": st.just(106)}))
    if fabric["kind"] != "tcp" and draw(st.booleans()):
        fabric["gpu_direct"] = draw(st.booleans())
    if draw(st.booleans()):
        fabric["pod_annotations"] = {"k8s.v1.cni.cncf.io/networks": "rdma-0,rdma-1"}
    return fabric


@st.composite
def _pools(draw: st.DrawFn, gpus: bool) -> Data:
    pool: Data = {
        "cpus": draw(st.sampled_from((16, "64", "96000m", 192))),
        "memory": draw(st.sampled_from(("256Gi", "1T", 2**40))),
        "fabric": draw(_fabrics()),
    }
    if gpus:
        model = draw(st.sampled_from(GPU_MODELS))
        pool["gpu"] = {"model": model, "memory": draw(st.sampled_from(("40Gi", "80Gi"))), "per_node": draw(st.integers(1, 8))}
    if draw(st.booleans()):
        pool["labels"] = draw(label_maps())
    taints = st.fixed_dictionaries(
        {"key": st.sampled_from(("nvidia.com/gpu", "example.com/spot", "dedicated"))},
        optional={"value": st.sampled_from(("", "true", "training")), "effect": st.sampled_from(("NoSchedule", "NoExecute"))},
    )
    pool["taints"] = draw(st.lists(taints, max_size=2))
    if draw(st.booleans()):
        pool["spot"] = {"notice": draw(st.sampled_from(("30s", "2m", "1h30m")))}
    return pool


@st.composite
def _namespaces(draw: st.DrawFn, queued: bool) -> Data:
    claims: Data = {
        "checkpoints": {
            "storage_class": "nfs",
            "size": draw(st.sampled_from(("10Gi", "2T", 10**9))),
            "write_mebibytes_per_second": 1000,
        },
        "dataset": {"managed": False, "access": "ReadOnlyMany"},
    }
    if draw(st.booleans()):
        claims[draw(labels(60)) + ".v1"] = {"size": "1Gi", "access": "ReadWriteMany"}
    queue = st.one_of(st.just({"managed": False}), st.just({"cluster_queue": "gpus"}))
    queues = draw(st.dictionaries(labels(60), queue, min_size=1, max_size=3)) if queued else {}
    namespace: Data = {"claims": claims, "managed": draw(st.booleans()), "pod_security": "privileged", "queues": queues}
    if draw(st.booleans()):
        namespace["security"] = {"read_only_root": draw(st.booleans())}
    return namespace


def _sends_there(operator: Operator, scheduling: Data) -> bool:
    """Whether an operator with its flag sends pods to a scheduler of that name: some fix it, and all do for Volcano."""
    fixed = operator.has_gang_flag and (scheduling.get("gang") == "volcano" or not operator.flag_names_scheduler)
    return "scheduler_name" not in scheduling or not fixed


def _flag(operator: Operator, scheduling: Data) -> str:
    """The value of an operator's flag for its pods to go to the scheduler in groups, and without one."""
    if not operator.flag_names_scheduler and scheduling["gang"] == "coscheduling":
        return "scheduler-plugins"
    return str(scheduling.get("scheduler_name", NAMES[scheduling["gang"]]))


@st.composite
def _scheduling(draw: st.DrawFn) -> Data:
    gang = draw(st.sampled_from((None, "volcano", "coscheduling")))
    if gang is None:
        return {}
    version = "1.15.1" if gang == "volcano" else "0.33.5"
    optional = {"scheduler_name": labels(63), "with_kueue": st.booleans()}
    return {"gang": gang, "version": version} | draw(st.fixed_dictionaries({}, optional=optional))


@st.composite
def _operators(draw: st.DrawFn, scheduling: Data, kueue: str | None) -> Data:
    operators: Data = {}
    for name, operator in OPERATORS.items():
        if not draw(st.integers(0, 5)) or not _sends_there(operator, scheduling):
            continue
        refused = operator.not_with_kueue if kueue else ()
        refused += operator.not_with_volcano if scheduling.get("gang") == "volcano" else ()
        known = [release for release in operator.known if not release.startswith(refused)]
        operators[name] = {"version": draw(st.sampled_from(known))}
        if scheduling and operator.has_gang_flag:
            operators[name]["gang_scheduler"] = _flag(operator, scheduling)
        if draw(st.booleans()):
            operators[name]["restricted_containers"] = draw(st.booleans())
    return operators


def _monitoring() -> st.SearchStrategy[Data]:
    return st.fixed_dictionaries(
        {"kind": st.just("prometheus-operator")},
        optional={
            "namespace": labels(63),
            "interval": st.sampled_from(("15s", "1m")),
            "pod_monitor_labels": st.just({"release": "prometheus"}),
            "rule_labels": st.just({"release": "prometheus", "example.com/tier": "a"}),
            "dashboard": st.sampled_from(({}, {"label": "dashboards", "value": "yes"}, {"namespace": "monitoring"})),
            "dcgm": st.booleans(),
            "runbooks": st.just("https://example.com/runbooks"),
        },
    )


@st.composite
def clusters(draw: st.DrawFn) -> Data:
    """A profile with CPU and GPU pools, in which any run of ``drawn_runs`` finds a place."""
    names = draw(st.lists(labels(63), min_size=2, max_size=4, unique=True))
    scheduling = draw(_scheduling())
    kueue = draw(st.sampled_from((None, None, "0.15.0", "0.19.2")))
    cluster: Data = {
        "cluster": draw(labels(63)),
        "kubernetes": draw(st.sampled_from(("1.33", "1.34", "1.35"))),
        "operators": draw(_operators(scheduling, kueue)),
        "node_pools": {name: draw(_pools(gpus=bool(number))) for number, name in enumerate(names)},
        "namespaces": draw(st.dictionaries(labels(63), _namespaces(kueue is not None), min_size=1, max_size=3)),
        "storage_classes": {"nfs": {"access": ["ReadWriteMany"]}, "local-nvme": {"access": ["ReadWriteOnce"]}},
        "network_policy": draw(st.booleans()),
        "topology": draw(st.sampled_from(({}, {"rack": {"label": "example.com/rack"}, "block": {"label": "example.com/block"}}))),
    }
    if scheduling:
        cluster["scheduling"] = scheduling
    if kueue:
        cluster["kueue"] = {"version": kueue}
    if draw(st.booleans()):
        cluster["monitoring"] = draw(_monitoring())
    if draw(st.booleans()):
        cluster["registries"] = [REGISTRY]
        if "training-operator" in cluster["operators"]:
            cluster["operators"]["training-operator"]["init_image"] = f"{REGISTRY}/alpine:3.20"
    if draw(st.booleans()):
        cluster["security"] = {"user": 1000}
    if draw(st.booleans()):
        _guard(draw, cluster)
    return cluster


def _guard(draw: st.DrawFn, cluster: Data) -> None:
    """Stricter namespaces, and a cluster on which nothing but a run's own words is refused there."""
    for namespace in cluster["namespaces"].values():
        namespace["pod_security"] = draw(st.sampled_from(("restricted", "baseline")))
    for pool in cluster["node_pools"].values():
        pool["fabric"].pop("ipc_lock", None)
    if "training-operator" in cluster["operators"]:
        cluster["operators"]["training-operator"]["restricted_containers"] = True
