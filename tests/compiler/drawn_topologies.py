"""Random topologies, each with a target of the cluster that carries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.compiler.targets import CASES

Data = dict[str, Any]

SHAPES = tuple(dict.fromkeys(shape for case in CASES.values() for shape in case.shapes))


@dataclass(frozen=True, slots=True)
class Shape:
    """A topology on a target."""

    name: str
    topology: Data
    target: str

    @property
    def longest_name(self) -> int:
        """Characters that the run's name may have: names that operators derive from it stay below 64, or 48 for a RayJob."""
        hashed, case = len("-12345678"), CASES[self.target]
        pod = f"-{max((*case.further, 'launcher'), key=len)}-0" + ("-0-abcde" if case.job_per_role else "")
        return min(40, case.longest_name - hashed - (0 if case.longest_name < 63 else len(pod)))


def _targets(shape: str, cluster: Data) -> list[str]:
    return [name for name, case in CASES.items() if case.carries(shape, cluster)]


@st.composite
def shapes(draw: st.DrawFn, cluster: Data) -> Shape:
    """Any topology that the cluster's operators can carry."""
    name = draw(st.sampled_from([shape for shape in SHAPES if _targets(shape, cluster)]))
    largest = max((pool["gpu"]["per_node"] for pool in cluster["node_pools"].values() if "gpu" in pool), default=0)
    gpus = draw(st.integers(0, min(largest, 1) if name == "xgboost" else largest))
    nodes, target = draw(st.integers(1, 5)), draw(st.sampled_from(_targets(name, cluster)))
    topology: Data = {"kind": name, "nodes": nodes, "gpus_per_node": gpus}
    if name in ("elastic", "mpi"):
        topology["kind"] = "ddp"
    if name == "elastic":
        low, high = draw(st.integers(1, nodes)), draw(st.integers(nodes, 8))
        topology |= draw(st.sampled_from(({}, {"kind": "zero3", "engine": "fsdp2"})))
        topology["elastic"] = {"min_nodes": low, "max_nodes": high, "batch": draw(st.sampled_from(("keep", "move")))}
    if name == "bare-mpi":
        topology |= {"kind": "mpi"} | draw(st.sampled_from(({}, {"processes_per_node": 3})))
    if name in ("mpi", "bare-mpi", "horovod"):
        topology["mpi"] = draw(st.sampled_from(CASES[target].mpi))
    if name in ("bare-mpi", "horovod"):
        topology["launcher_is_node"] = draw(st.booleans())
    if name == "multi-worker-mirrored":
        topology["chief"] = draw(st.booleans())
    if name == "parameter-server":
        topology |= {"parameter_servers": draw(st.integers(1, 3)), "coordinator": draw(st.booleans())}
    if name == "ray":
        topology["version"] = "2.52.0"
    if name.startswith("zero"):
        topology |= draw(_engines(name))
    if name in ("ddp", "zero1", "zero2", "zero3", "horovod") and not gpus and draw(st.booleans()):
        topology["processes_per_node"] = draw(st.integers(1, 3))
    if topology.get("engine") == "fsdp2" and (degrees := _degrees(topology)) and draw(st.booleans()):
        topology["fsdp2"] = {**topology.get("fsdp2", {}), "shard_degree": draw(st.sampled_from(degrees))}
    return Shape(name, topology, target)


def _degrees(topology: Data) -> list[int]:
    """Of shard groups that are whole at every number of nodes."""
    ranks = topology["gpus_per_node"] or topology.get("processes_per_node", 1)
    ranks *= 1 if "elastic" in topology else topology["nodes"]
    return [degree for degree in range(2, ranks + 1) if ranks % degree == 0]


@st.composite
def _engines(draw: st.DrawFn, kind: str) -> Data:
    """DeepSpeed or FSDP2 with knobs and offload."""
    if kind == "zero3" and draw(st.booleans()):
        offload = draw(st.sampled_from(({}, {"optimizer": "cpu", "weights": "cpu"})))
        return {"engine": "fsdp2", "offload": offload, "fsdp2": {"reshard_after_forward": draw(st.booleans())}}
    offloads: list[Data] = [{}, {"optimizer": "cpu"}]
    offloads += [{"optimizer": "cpu", "weights": "cpu"}] if kind == "zero3" else []
    knobs = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "overlap_comm": st.booleans(),
                "reduce_bucket_size": st.integers(1, 10**9),
            },
        )
    )
    return {"engine": "deepspeed", "offload": draw(st.sampled_from(offloads)), "deepspeed": knobs}
