"""Environment variables: those that are taken, those that do nothing, and those that are secret."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.compiler.example import Data, codes, command, compiled, findings, message, patched, script
from tests.compiler.objects import the
from tests.compiler.targets import on, profile_for

from trainwright.findings import Where
from trainwright.program.values import variable_findings
from trainwright.rules.program.environment import LONGEST_VARIABLE
from trainwright.variables.rows import VARIABLES


@pytest.mark.parametrize(
    "name",
    [
        "JOB_COMPLETION_INDEX",
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "PET_NODE_RANK",
        "PET_RDZV_BACKEND",
        "TRAINWRIGHT_SPEC",
        "TRAINWRIGHT_ANYTHING",
        "TORCHELASTIC_RESTART_COUNT",
        "NCCL_SOCKET_IFNAME",
    ],
)
@pytest.mark.parametrize(
    "work", [{}, script("python", "train.py"), command("torchrun", "train.py")], ids=["trainer", "script", "command"]
)
def test_variables_of_the_plan_are_taken(name: str, work: dict[str, object]) -> None:
    assert codes(work | {"env": {name: "1"}}) == ["TW403"]


def test_the_finding_says_who_sets_the_variable() -> None:
    assert "set by the controller: the pod's completion index" in message({"env": {"JOB_COMPLETION_INDEX": "0"}})
    assert "set by the supervisor for each rank" in message({"env": {"RANK": "0"}})
    assert "set by torchrun for each rank" in message(command("torchrun", "train.py") | {"env": {"RANK": "0"}})
    jax = {"topology": {"kind": "jax", "nodes": 2, "gpus_per_node": 8}}
    assert "set by the framework for each rank" in message(command("python", "train.py") | {"env": {"RANK": "0"}, **jax})


def test_a_reference_to_a_secret_cannot_take_them_either() -> None:
    assert codes({"env": {"MASTER_ADDR": {"secret": "s", "key": "k"}}}) == ["TW403"]


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "HOME", "HF_HUB_OFFLINE", "PYTHONUNBUFFERED"])
def test_a_default_gives_way_to_the_run(name: str) -> None:
    result = compiled({"env": {name: "7"}})
    assert result.findings == ()
    assert [variable.value for variable in result.plan.environment if variable.name == name] == ["7"]


def test_a_default_gives_way_to_a_role() -> None:
    run = on("mpi-job", roles={"launcher": {"env": {"OMP_NUM_THREADS": "7", "NCCL_DEBUG": "INFO"}}})
    decided = compiled(run, profile_for("mpi-job")).resolution
    launcher, worker = ({one.name: one.value for one in decided.environment(role)} for role in decided.binding.roles)
    assert (launcher["OMP_NUM_THREADS"], launcher["NCCL_DEBUG"]) == ("7", "INFO")
    assert "OMP_NUM_THREADS" not in worker


@pytest.mark.parametrize("name", [name for name, entry in VARIABLES.items() if entry.dead])
def test_dead_variables(name: str) -> None:
    (finding,) = findings({"env": {name: "0"}})
    assert (finding.code, finding.severity.value) == ("TW407", "error" if "aborts" in finding.message else "warning")
    assert finding.message.startswith(name)
    assert finding.fix.startswith("remove it")


def test_a_dead_variable_is_dead_with_any_value() -> None:
    assert codes({"env": {"NCCL_TIMEOUT": ""}}) == codes({"env": {"NCCL_TIMEOUT": {"secret": "s", "key": "k"}}}) == ["TW407"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_MIN_NRINGS", "4"),
        ("NCCL_MAX_NRINGS", "4"),
        ("NCCL_MIN_NCHANNELS", "4"),
        ("NCCL_MAX_NCHANNELS", "4"),
        ("NCCL_ALGO", "Ring,Tree"),
        ("NCCL_PROTO", "^LL128"),
        ("NCCL_NET_GDR_LEVEL", "SYS"),
        ("NCCL_BUFFSIZE", "8388608"),
        ("NCCL_NTHREADS", "512"),
        ("NCCL_P2P_DISABLE", "1"),
        ("NCCL_IB_GID_INDEX", "3"),
        ("NCCL_IB_USE_INLINE", "1"),
        ("NCCL_ASYNC_ERROR_HANDLING", "1"),
        ("TORCH_NCCL_BLOCKING_WAIT", "TRUE"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),
        ("FI_EFA_USE_DEVICE_RDMA", "1"),
        ("NCCL_NET_GDR_LEVEL", "5"),
        ("NCCL_NET_GDR_LEVEL", "12"),
        ("NCCL_P2P_LEVEL", "5"),
        ("NCCL_P2P_LEVEL", "0x3"),
    ],
)
def test_risky_settings(name: str, value: str) -> None:
    (finding,) = findings({"env": {name: value}})
    assert (finding.code, finding.where.pointer) == ("TW408", f"/env/{name}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_P2P_DISABLE", "0"), ("NCCL_BUFFSIZE", ""), ("TORCH_NCCL_BLOCKING_WAIT", "No"), ("TORCH_DISTRIBUTED_DEBUG", "info"),
        ("FI_EFA_USE_DEVICE_RDMA", "0"), ("FI_EFA_USE_DEVICE_RDMA", "off"), ("FI_LOG_LEVEL", "1"), ("FI_LOG_LEVEL", "WARN"),
        ("FI_EFA_USE_DATA_PATH_DIRECT", "0"), ("FI_EFA_TRACK_MR", "on"), ("OMPI_MCA_mpi_warn_on_fork", "enabled"),
        ("GLOO_SOCKET_IFNAME", ""), ("GLOO_DEVICE_TRANSPORT", "TCP_TLS"),
    ],
)
def test_values_without_risk(name: str, value: str) -> None:
    assert codes({"env": {name: value}}) == []


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("NCCL_NET_GDR_LEVL", "did you mean NCCL_NET_GDR_LEVEL?"),
        ("NCCL_SOCKET_IFNAMES", "did you mean NCCL_SOCKET_IFNAME?"),
        ("TORCH_NCCL_BLOCKINGWAIT", "did you mean TORCH_NCCL_BLOCKING_WAIT?"),
        ("NCCL_AVOID_RECORD_STREAMS", "did you mean TORCH_NCCL_AVOID_RECORD_STREAMS?"),
        ("OMPI_MCA_bttl", "did you mean OMPI_MCA_btl?"),
        ("FI_EFA_FORKSAFE", "did you mean FI_EFA_FORK_SAFE?"),
    ],
)
def test_made_up_variables(name: str, fix: str) -> None:
    (finding,) = findings({"env": {name: "1"}})
    assert (finding.code, finding.fix) == ("TW412", fix)


def test_a_name_like_no_other_may_be_that_of_a_plugin() -> None:
    """An image can hold a plugin that nobody here has heard of, so a team can say so."""
    (finding,) = findings({"env": {"NCCL_ABORT_ON_ERROR": "1"}})
    assert (finding.code, finding.severity.value) == ("TW417", "warning")
    waiver = {"code": "TW417", "reason": "read by our own network plugin", "expires": "2026-12-31"}
    (finding,) = findings({"env": {"NCCL_ABORT_ON_ERROR": "1"}, "waivers": [waiver]})
    assert finding.waived


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_TUNER_CONFIG_PATH", "NCCL_PLUGIN_PATH", "NCCL_INIT_SCRIPT", "NCCL_LIB_DIR", "NCCL_DYNAMIC_CHUNK_SIZE",
        "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
    ],
)
def test_what_googles_charts_set_is_known(name: str) -> None:
    assert codes({"env": {name: "/usr/local/nvidia/lib64/x"}}) == []


@pytest.mark.parametrize(
    "name",
    [
        "OMPI_MCA_btl_tcp_eager_limit",
        "I_MPI_PIN_DOMAIN",
        "NCCL_FASTRAK_CTRL_DEV",
        "NCCL_IBEXT_DISABLE",
        "OFI_NCCL_PROTOCOL",
        "FI_CXI_RDZV_THRESHOLD",
        "TORCH_HOME",
        "GLOO_LOG_LEVEL",
        "NCCLX",
    ],
)
def test_names_where_the_catalogue_is_open(name: str) -> None:
    assert codes({"env": {name: "anything"}}) == []


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("NCCL_DEBUG", "WARNING", "allowed: VERSION, WARN,"),
        ("NCCL_IB_TIMEOUT", "32", "allowed: 0 to 31"),
        ("NCCL_P2P_LEVEL", "sys", "allowed: LOC,"),
        ("NCCL_BUFFSIZE", "8M", "allowed: a whole number"),
        ("NCCL_TOPO_FILE", "~/topology.xml", "allowed: a path, without ~"),
        ("OMPI_MCA_btl_tcp_if_include", "eth0 eth1", "allowed: interfaces or CIDR ranges"),
        ("I_MPI_FABRICS", "shm:dapl", "allowed: shm, ofi, shm:ofi"),
        ("FI_LOG_LEVEL", "warning", "allowed: warn, trace"),
    ],
)
def test_values_that_are_not_read(name: str, value: str, allowed: str) -> None:
    (finding,) = findings({"env": {name: value}})
    assert (finding.code, finding.severity.value) == ("TW413", "warning")
    assert f"{name}={value}" in finding.message
    assert finding.fix.startswith(allowed)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("NCCL_ALGO", "4", "allowed: a list of ring, tree"),
        ("NCCL_ALGO", "Ring, Tree", "allowed: a list of ring, tree"),
        ("NCCL_PROTO", "^LL256", "allowed: a list of ll"),
        ("TORCH_NCCL_ENABLE_MONITORING", "2", "allowed: 1, 0, y"),
        ("TORCH_NCCL_ENABLE_MONITORING", "", "allowed: 1, 0, y"),
        ("NCCL_ASYNC_ERROR_HANDLING", "true", "allowed: a number"),
        ("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "ten", "allowed: a number"),
        ("TORCH_DISTRIBUTED_DEBUG", "on", "allowed: OFF, INFO, DETAIL"),
        ("TORCH_DIST_INIT_BARRIER", "yes", "allowed: a whole number"),
        ("GLOO_SOCKET_IFNAME", "=eth0", "allowed: exact names"),
        ("GLOO_DEVICE_TRANSPORT", "tcp", "allowed: TCP"),
        ("OMPI_MCA_btl", "self tcp", "allowed: components"),
        ("OMPI_MCA_pml", "ob1,^ucx", "allowed: components"),
        ("FI_EFA_TX_MIN_CREDITS", "0", "allowed: a number above 0"),
        ("FI_EFA_TX_MIN_CREDITS", "", "allowed: a number above 0"),
        ("FI_EFA_IFACE", "", "allowed: exact names"),
    ],
)
def test_values_that_end_the_program(name: str, value: str, allowed: str) -> None:
    (finding,) = findings({"env": {name: value}})
    assert (finding.code, finding.severity.value) == ("TW413", "error")
    assert finding.message.endswith("the program ends")
    assert finding.fix.startswith(allowed)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("eth0 eth1", ["error"]), (" eth0", ["error"]), ("eth0, eth1", ["warning"]), ("^docker0, lo", ["warning"]), ("", [])],
)
def test_nccl_ends_without_an_interface(value: str, expected: list[str]) -> None:
    found = findings({"topology": {"nodes": 1}, "env": {"NCCL_SOCKET_IFNAME": value}})
    assert [finding.severity.value for finding in found] == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCH_DISTRIBUTED_DEBUG", "on"), ("TORCH_DIST_INIT_BARRIER", "yes"), ("GLOO_SOCKET_IFNAME", "=lo"),
        ("GLOO_DEVICE_TRANSPORT", "tcp"), ("TORCH_GLOO_LAZY_INIT", ""),
        ("TORCH_CPP_LOG_LEVEL", "LOUD"), ("TORCH_SHOW_CPP_STACKTRACES", "yes"),
    ],
)
def test_torch_itself_ends_where_the_catalogue_says_so(name: str, value: str) -> None:
    program = (
        "import torch, torch.distributed as d; "
        "d.init_process_group('gloo', store=d.HashStore(), rank=0, world_size=1); "
        "d.all_reduce(torch.ones(1)); d.destroy_process_group()"
    )
    env = {**os.environ, name: value}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, check=False)
    assert (done.returncode != 0) == VARIABLES[name].ends(value), done.stderr


def test_every_value_that_is_allowed_lets_the_program_go_on() -> None:
    examples = ("0", "1", "3", "12", "yes", "off", "eth0", "TCP", "WARN", "Ring", "LL", "self,tcp", "^openib", "DETAIL")
    both = [(entry, text) for entry in VARIABLES.values() for text in examples if entry.values.accepts(text)]
    assert [(entry.name, text) for entry, text in both if entry.ends(text) and not entry.dead] == []


def test_a_key_that_is_too_short_is_not_repeated() -> None:
    found = findings({"env": {"NCCL_PSK": {"secret": "s", "key": "k"}}})
    assert found == []
    (finding,) = variable_findings({"NCCL_PSK": "hunter2"}, lambda name: Where(pointer=name))
    assert (finding.code, "hunter2" in finding.message + finding.fix) == ("TW413", False)
    assert codes({"env": {"NCCL_PSK": "hunter2"}}) == ["TW409", "TW413"]


@pytest.mark.parametrize(("threads", "sockets", "expected"), [("4", "4", []), ("16", "4", []), ("16", "5", ["TW413"])])
def test_sockets_have_a_limit_together(threads: str, sockets: str, expected: list[str]) -> None:
    assert codes({"env": {"NCCL_SOCKET_NTHREADS": threads, "NCCL_NSOCKS_PERTHREAD": sockets}}) == expected


ROCE = {"node_pools": {"h100": {"fabric": {"kind": "roce", "resource": "rdma/roce", "gid_index": 3}}}}
TUNED = {
    "NCCL_IB_HCA": "mlx5",
    "NCCL_IB_GID_INDEX": "3",
    "NCCL_BUFFSIZE": "8388608",
    "NCCL_NTHREADS": "512",
    "NCCL_ALGO": "Ring,Tree",
    "NCCL_DEBUG_SUBSYS": "ALL",
    "NCCL_MIN_NRINGS": "4",
    "NCCL_TREE_THRESHOLD": "0",
    "NCCL_TIMEOUT": "3600",
}
"""What tutorials recommend for RoCE."""


def test_a_copied_tuning_is_explained_line_by_line(snapshot: SnapshotAssertion) -> None:
    found = findings({"env": TUNED}, ROCE)
    assert {finding.where.pointer for finding in found} == {f"/env/{name}" for name in TUNED}
    lines = {finding.where.pointer.removeprefix("/env/"): finding for finding in found}
    assert len(lines) == len(found)
    assert [f"{lines[name].code} {lines[name].message}; {lines[name].fix}" for name in TUNED] == snapshot


@pytest.mark.parametrize(
    ("env", "cluster", "expected"),
    [
        ({"NCCL_SOCKET_IFNAME": "eth0"}, {}, "TW416"),
        ({"NCCL_SOCKET_IFNAME": "=eth0"}, {}, "TW416"),
        ({"NCCL_SOCKET_IFNAME": "eth1"}, {}, "TW403"),
        ({"NCCL_IB_DISABLE": "0"}, {}, "TW416"),
        ({"NCCL_IB_DISABLE": "1"}, {}, "TW403"),
        ({"NCCL_IB_DISABLE": "0"}, {"kind": "tcp"}, "TW403"),
        ({"NCCL_IB_DISABLE": "1"}, {"kind": "tcp"}, "TW416"),
        ({"NCCL_IB_HCA": "=mlx5_0"}, {"hca": "=mlx5_0"}, "TW416"),
        ({"NCCL_IB_HCA": "=mlx5_1"}, {"hca": "=mlx5_0"}, "TW403"),
        ({"NCCL_NET_GDR_LEVEL": "SYS"}, {}, "TW408"),
        ({"NCCL_NET_GDR_LEVEL": "SYS"}, {"gpu_direct": True}, "TW408"),
        ({"NCCL_NET_GDR_LEVEL": "5"}, {"gpu_direct": True}, "TW408"),
        ({"NCCL_NET_GDR_LEVEL": "LOC"}, {"gpu_direct": True}, "TW403"),
        ({"NCCL_NET_GDR_LEVEL": "SYS"}, {"gpu_direct": False}, "TW403"),
        ({"NCCL_NET_GDR_LEVEL": "LOC"}, {"gpu_direct": False}, "TW416"),
        ({"FI_PROVIDER": "efa"}, {"kind": "efa", "resource": "x.io/efa"}, "TW416"),
        ({"FI_PROVIDER": "tcp"}, {"kind": "efa", "resource": "x.io/efa"}, "TW403"),
        ({"NCCL_IB_TC": {"secret": "s", "key": "k"}}, {"kind": "roce", "resource": "rdma/roce", "traffic_class": 106}, "TW403"),
    ],
)
def test_the_fabric_decides(env: dict[str, object], cluster: dict[str, object], expected: str) -> None:
    (finding,) = findings({"env": env}, {"node_pools": {"h100": {"fabric": cluster}}})
    assert finding.code == expected
    if expected == "TW403":
        assert "of pool h100 in cluster lab" in finding.message


def test_a_value_that_agrees_stands_once_and_is_the_runs_own() -> None:
    environment = compiled({"env": {"NCCL_SOCKET_IFNAME": "=eth0"}}).plan.environment
    assert [(variable.value, variable.source) for variable in environment if variable.name == "NCCL_SOCKET_IFNAME"] == [
        ("=eth0", "run:/env/NCCL_SOCKET_IFNAME")
    ]


def test_the_fabric_decides_over_the_variables_of_its_pool_too() -> None:
    pool = {"node_pools": {"h100": {"pods": {"env": {"NCCL_SOCKET_IFNAME": "eth9"}}}}}
    (finding,) = findings({}, pool)
    assert (finding.code, finding.where.pointer) == ("TW403", "/node_pools/h100/pods/env/NCCL_SOCKET_IFNAME")
    (finding,) = findings({"env": {"NCCL_SOCKET_IFNAME": "eth0"}}, pool)
    assert (finding.code, finding.where.pointer) == ("TW416", "/env/NCCL_SOCKET_IFNAME")


def test_on_one_node_the_fabric_decides_nothing() -> None:
    assert codes({"topology": {"nodes": 1}, "env": {"NCCL_SOCKET_IFNAME": "lo"}}) == []


GKE = {
    "networking.gke.io/default-interface": "eth0",
    "networking.gke.io/interfaces": '[{"interfaceName":"eth0","network":"default"},{"interfaceName":"eth2","network":"rdma-0"}]',
}


def test_adapters_that_pods_get_as_networks() -> None:
    fabric: Data = {"node_pools": {"h100": {"fabric": {"kind": "roce", "resource": None, "pod_annotations": GKE}}}}
    assert codes({}, fabric) == []
    several, one = (the(compiled(run, fabric), "Job")["spec"] for run in ({}, {"topology": {"nodes": 1}}))
    assert several["template"]["metadata"]["annotations"] == GKE
    assert "annotations" not in one["template"]["metadata"], "one node needs no network"


@pytest.mark.parametrize("kind", ["infiniband", "roce", "efa"])
def test_rdma_without_devices(kind: str) -> None:
    fabric = {"node_pools": {"h100": {"fabric": {"kind": kind, "resource": None}}}}
    (finding,) = findings({}, fabric)
    assert (finding.code, finding.where.pointer) == ("TW415", "/node_pools/h100/fabric")
    assert codes({"topology": {"nodes": 1}}, fabric) == []
    assert codes({"topology": {"gpus_per_node": 0}, "node_pool": "h100"}, fabric) == []
    grows = {"nodes": 1, "elastic": {"min_nodes": 1, "max_nodes": 2}}
    operators = {"operators": {"training-operator": {"version": "1.9"}}}
    pytorch = {"target": "pytorch-job", "topology": grows}
    assert "TW415" in codes(pytorch, fabric | operators)


@pytest.mark.parametrize(
    "job",
    [
        {"metadata": {"annotations": {"networking.gke.io/interfaces": "[]"}}},
        {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "rdma"}}},
    ],
    ids=["GKE", "Multus"],
)
def test_devices_that_come_in_another_way(job: dict[str, object]) -> None:
    fabric = {"node_pools": {"h100": {"fabric": {"kind": "roce", "resource": None}}}}
    assert codes(patched("Job", {"spec": {"template": job}}), fabric) == []


@pytest.mark.parametrize(
    ("value", "fix"), [("mlx5", "'=mlx5_0,mlx5_1'"), ("^mlx5_1", "'^=mlx5_1,mlx5_4'"), ("=mlx5_0", None), ("^=mlx5_0", None)]
)
def test_adapters_are_named_exactly(value: str, fix: str | None) -> None:
    found = findings({"env": {"NCCL_IB_HCA": value}})
    assert [finding.code for finding in found] == (["TW408"] if fix else [])
    assert all(str(fix) in finding.fix for finding in found)


@pytest.mark.parametrize(
    ("debug", "expected"), [(None, ["TW408"]), ("WARN", ["TW408"]), ("INFO", []), ("info", []), ("TRACE", [])]
)
def test_subsystems_need_debug_output(debug: str | None, expected: list[str]) -> None:
    env = {"NCCL_DEBUG_SUBSYS": "ALL"} | ({"NCCL_DEBUG": debug} if debug else {})
    assert codes({"env": env}) == expected


def test_a_real_setting_with_a_similar_name_is_free() -> None:
    assert codes({"env": {"NCCL_IB_TIMEOUT": "22", "NCCL_DEBUG": "INFO", "NCCL_IB_RETRY_CNT": "7"}}) == []


# A list of all pods in one variable.

KUBEFLOW = {"operators": {"training-operator": {"version": "1.9.0"}}}
WORKERS = {"kind": "multi-worker-mirrored", "gpus_per_node": 0}
TREES = {"kind": "xgboost", "gpus_per_node": 0}
NAME = "a-name-of-a-run-as-long-as-names-can-be"


@pytest.mark.parametrize(("target", "topology", "nodes", "expected"), [
    ("tf-job", WORKERS, 1500, []),
    ("tf-job", WORKERS, 4096, ["TW401"]),
    ("xgboost-job", TREES, 2000, []),
    ("xgboost-job", TREES, 4096, ["TW401"]),
    ("indexed-job", TREES, 4096, []),
])
def test_a_list_of_pods_has_to_fit(target: str, topology: dict[str, object], nodes: int, expected: list[str]) -> None:
    work = command("python", "x.py") | {"run": NAME, "target": target, "topology": topology | {"nodes": nodes}}
    assert [code for code in codes(work, KUBEFLOW) if code == "TW401"] == expected


def test_the_longest_list_is_what_the_kernel_takes() -> None:
    """execve itself, with the size that the finding is about; and the number of nodes that it proposes."""
    longest = "x" * (LONGEST_VARIABLE - len("A="))
    subprocess.run(["/bin/true"], env={"A": longest}, check=True)
    with pytest.raises(OSError, match=os.strerror(errno.E2BIG)):
        subprocess.run(["/bin/true"], env={"A": f"{longest}x"}, check=True)
    work = command("python", "x.py") | {"run": NAME, "target": "tf-job"}
    (said,) = [one for one in findings(work | {"topology": WORKERS | {"nodes": 4096}}, KUBEFLOW) if one.code == "TW401"]
    nodes = int(said.fix.split("at most ")[1].split(" ")[0].strip(",").replace(",", ""))
    assert "TW401" not in codes(work | {"topology": WORKERS | {"nodes": nodes}}, KUBEFLOW)
    assert "TW401" in codes(work | {"topology": WORKERS | {"nodes": nodes + 100}}, KUBEFLOW)


def test_thousands_of_variables_are_checked_soon() -> None:
    """Each was once compared with all that the plan sets, which took the square of their number."""
    started = time.process_time()
    assert "TW403" in codes({"env": {"RANK": "1", **{f"K{number}": "v" for number in range(4000)}}})
    assert time.process_time() - started < 5
