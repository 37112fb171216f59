"""``trainwright new``: a project of one's own, outside this repository."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from tests.compiler.cli.terminal import talk
from tests.compiler.projects import ROOT, TRAINWRIGHT, Scratch, assert_ended

from trainwright.cluster import Cluster, NodePool
from trainwright.reading.document import read_yaml
from trainwright.starter.discovery import GPU_MEMORY, DiscoveryError, discovered_profile
from trainwright.starter.files import cluster_kinds, summary

Data = dict[str, Any]


def made(folder: Path, *arguments: str) -> Scratch:
    ended = Scratch(folder.parent).run("new", str(folder), *arguments)
    assert_ended(ended, 0)
    assert "TW305" in ended.stderr or "Traceback" not in ended.stderr
    return Scratch(folder)


@pytest.mark.parametrize("kind", [
    pytest.param(kind, marks=() if kind in ("laptop", "infiniband", "gke-a3-mega") else pytest.mark.nightly)
    for kind in cluster_kinds()
])
def test_a_project_of_each_kind_is_in_order_at_once(kind: str, tmp_path: Path) -> None:
    here = made(tmp_path / "mine", "--cluster", kind)
    idle = kind != "laptop"
    assert ("\nstate: done\n" in here.read("charts/runs/first-run.yaml")) == idle, "a toy holds no GPUs"
    assert ([path.rpartition("/")[2] for path in here.dist() if "/runs/" in path] == [".gitkeep"]) == idle
    runs, told = ("0 runs", "") if idle else ("1 run", "; 1 warning as recorded, shown by -v")
    assert here.run("check").stdout == f"{runs} and 1 foundation: in order{told}\n"
    assert_ended(here.run("validate", "dist"), 0)
    if idle:
        here.edit("charts/runs/first-run.yaml", "state: done\n", "")
        here.synth()
    checked = here.run("check", "-v")
    assert_ended(checked, 0)
    assert checked.stdout == "1 run and 1 foundation: in order\n"
    codes = {line.split(" ")[2] for line in checked.stderr.splitlines() if line.startswith("charts/")}
    assert codes == {"TW305"}, "only the image is left to be named"
    assert_ended(here.run("validate", "dist"), 0)
    assert_ended(here.run("init", "another"), 0)


def test_what_a_project_consists_of(tmp_path: Path) -> None:
    here = made(tmp_path / "mine", "--cluster", "eks-p5", "--name", "prod")
    assert sorted(path.name for path in here.root.iterdir()) == [
        ".github", ".gitignore", "README.md", "cdk8s.yaml", "charts", "dist", "requirements.txt", "schemas",
    ]
    assert stat.S_IMODE(here.root.stat().st_mode) & 0o055 == 0o055, "others may read it as they may read any folder made here"
    assert list(here.dist()) == [
        "_argo-cd/applications/argo-cd.k8s.yaml", "_argo-cd/health/argo-cd.k8s.yaml",
        "prod/training/foundation/training.k8s.yaml", "prod/training/runs/.gitkeep",
    ]
    _, *applications = yaml.safe_load_all(here.read("dist/_argo-cd/applications/argo-cd.k8s.yaml"))
    assert [one["spec"]["source"]["path"] for one in applications] == ["dist/prod/training/foundation", "dist/prod/training/runs"]
    described = {"charts/runs/first-run.yaml": "run", "charts/clusters/prod.yaml": "cluster", "charts/gitops.yaml": "gitops"}
    for place, schema in described.items():
        modeline = here.read(place).split("\n")[0]
        assert modeline == f"# yaml-language-server: $schema={'../' * place.count('/')}schemas/{schema}.json"
        shown = (here.path(place).parent / modeline.partition("=")[2]).resolve()
        assert shown.read_text(encoding="utf-8").rstrip() == here.run("schema", schema).stdout.rstrip()
        jsonschema.validate(read_yaml(here.path(place)).data, json.loads(shown.read_text(encoding="utf-8")))


def test_the_cdk8s_app_of_a_project_writes_the_same_bytes(tmp_path: Path) -> None:
    here = made(tmp_path / "mine", "--cluster", "laptop")
    before = here.dist()
    environment = {**os.environ, "CDK8S_OUTDIR": str(tmp_path / "out")}
    subprocess.run([sys.executable, "charts/main.py"], cwd=here.root, env=environment, check=True)
    assert {name: (tmp_path / "out" / name).read_bytes() for name in before} == before
    assert here.read("charts/main.py") == (ROOT / "charts" / "main.py").read_text(encoding="utf-8")


def test_the_steps_of_its_workflow_pass_and_stop_an_edit_by_hand(tmp_path: Path) -> None:
    here = made(tmp_path / "mine", "--cluster", "laptop")
    (job,) = yaml.safe_load(here.read(".github/workflows/trainwright.yaml"))["jobs"].values()
    need_a_network = {"Install", "Fetch the operators' definitions"}
    steps = [step["run"] for step in job["steps"] if "run" in step and step["name"] not in need_a_network]
    path = {**os.environ, "PATH": f"{TRAINWRIGHT.parent}:{os.environ['PATH']}"}

    def code(step: str) -> int:
        return subprocess.run(["bash", "-ec", step], cwd=here.root, env=path, check=False).returncode

    assert list(map(code, steps)) == [0, 0]
    here.edit("dist/laptop/training/runs/first-run.k8s.yaml", "completions: 2", "completions: 3")
    assert list(map(code, steps)) == [1, 0]


@pytest.mark.parametrize(("claim", "code"), [("goes", 1), ("stays", 0)])
def test_its_review_says_what_changes_and_stops_where_data_is_at_risk(claim: str, code: int, tmp_path: Path) -> None:
    here = made(tmp_path / "mine", "--cluster", "laptop")
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "new"), ("branch", "base")):
        here.git(*arguments)
    (run,) = here.root.glob("charts/runs/*.yaml")
    profile, name = here.read("charts/clusters/laptop.yaml"), run.relative_to(here.root).as_posix()
    if claim == "goes":
        (old,) = re.findall(r"\{claim: ([-a-z]+)\}", here.read(name))
        here.edit(name, f"{{claim: {old}}}", "{claim: elsewhere}")
        here.write("charts/clusters/laptop.yaml", profile.replace(f" {old}:", " elsewhere:"))
    else:
        here.write(name, here.read(name) + "attempt: 2\n")
    here.synth()
    (job,) = yaml.safe_load(here.read(".github/workflows/review.yaml"))["jobs"].values()
    steps = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    environment = {**os.environ, "PATH": f"{TRAINWRIGHT.parent}:{os.environ['PATH']}", "BASE": "base",
                   "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    codes = [subprocess.run(["bash", "-ec", steps[step]], cwd=here.root, env=environment, check=False).returncode
             for step in ("Review", "No data at risk")]
    assert codes == [0, code]
    assert "| `first-run` |" in (tmp_path / "summary.md").read_text(encoding="utf-8")


def test_its_review_leaves_out_what_came_to_main_meanwhile(tmp_path: Path) -> None:
    """A job that is run again gets the merge commit of before, and main as it is now."""
    here, run = made(tmp_path / "mine", "--cluster", "laptop"), "charts/runs/first-run.yaml"
    for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "new")):
        here.git(*arguments)
    for branch, file, text in (
        ("edits", run, here.read(run) + "attempt: 2\n"),
        ("meanwhile", "charts/runs/second.yaml", here.read(run).replace("run: first-run", "run: second")),
    ):
        here.git("checkout", "--quiet", "-b", branch, "main")
        here.write(file, text)
        here.synth()
        here.git("add", "--all")
        here.git("commit", "--quiet", "--message", branch)
    here.git("update-ref", "refs/remotes/origin/main", "meanwhile")
    here.git("checkout", "--quiet", "--detach", "main")
    here.git("merge", "--quiet", "--no-ff", "--no-edit", "edits")
    (job,) = yaml.safe_load(here.read(".github/workflows/review.yaml"))["jobs"].values()
    ended = here.run("diff", job["env"]["BASE"].replace("${{ github.base_ref }}", "main"), "--format", "json")
    assert_ended(ended, 0)
    assert [run["run"] for run in json.loads(ended.stdout)["runs"]] == ["first-run"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["full"], "full is not empty: it has a; name a new folder, or a project"),
        (["file"], "file is not empty"),
        (["x", "--cluster", "nothing"], "there is no cluster nothing; use one of: laptop, "),
        (["x", "--name", "Not A Name"], "--name Not A Name: "),
        (["x", "--from", "broken.json"], "broken.json is not JSON"),
        (["x", "--from", "none.json"], "no profile can be made from none.json: there is no worker node in it"),
        (["x", "--from", "odd.json"], "no profile can be made from odd.json: an object in it has no 'status'"),
        (["x", "--from", "none.json", "--cluster", "laptop"], "contradict each other"),
        (["x", "--from", "missing.json"], "missing.json"),
    ],
)
def test_what_cannot_be_made_leaves_nothing(arguments: list[str], words: str, tmp_path: Path) -> None:
    here = Scratch(tmp_path)
    here.write("full/a", "")
    here.write("file", "")
    here.write("broken.json", "{")
    here.write("none.json", json.dumps({"items": []}))
    here.write("odd.json", json.dumps({"items": [{"kind": "Node", "metadata": {}}]}))
    before = sorted(tmp_path.rglob("*"))
    assert_ended(here.run("new", *arguments), 2, words)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_repository_becomes_a_project(tmp_path: Path) -> None:
    Scratch(tmp_path).git("init", "-q")
    made(tmp_path, "--cluster", "laptop")
    assert "?? charts/" in Scratch(tmp_path).git("status", "--porcelain")


def test_kinds_are_shown_on_a_terminal(tmp_path: Path) -> None:
    code, said = talk([str(TRAINWRIGHT), "new", "mine"], tmp_path, [("cluster", "gke-a3-ultra")])
    assert code == 0, said
    assert "eks-p5          AWS EKS with p5.48xlarge" in said
    assert "kubernetes:" not in said
    assert all(len(summary(text)) < 140 and "\n" not in summary(text) for text in cluster_kinds().values())
    assert Scratch(tmp_path / "mine").path("charts/clusters/gke-a3-ultra.yaml").is_file()


# From a cluster.


def node(
    kubelet: str = "v1.34.2", labels: Data | None = None, taints: list[Data] | None = None, capacity: Data | None = None
) -> Data:
    sizes = {"cpu": "4", "memory": "16393216Ki", "pods": "110", "ephemeral-storage": "100Gi", "hugepages-2Mi": "0"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels or {}}, "spec": {"taints": taints or []},
        "status": {"capacity": {**sizes, **(capacity or {})}, "nodeInfo": {"kubeletVersion": kubelet}},
    }


def crd(name: str, version: str = "v1", release: str | None = None) -> Data:
    labels = {"app.kubernetes.io/version": release} if release else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name, "labels": labels},
        "spec": {"versions": [{"name": version}]},
    }


P5 = {
    "node.kubernetes.io/instance-type": "p5.48xlarge",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559",
    **{f"topology.k8s.aws/network-node-layer-{layer}": f"nn-{layer}" for layer in (1, 2, 3)},
}
TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
GONE = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
SIZE_OF_P5 = {"cpu": "192", "memory": "2097152000Ki", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"}
EKS = [
    *(node("v1.34.2-eks-1", P5, taints, SIZE_OF_P5) for taints in ([TAINT], [TAINT, GONE], [TAINT])),
    node("v1.34.2-eks-1", {**P5, "karpenter.sh/capacity-type": "spot"}, [TAINT], SIZE_OF_P5),
    node("v1.33.1-eks-1", {"node.kubernetes.io/instance-type": "m7i.4xlarge"}, capacity={"cpu": "16", "memory": "65000000Ki"}),
    node("v1.34.2-eks-1", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]),
    {"kind": "StorageClass", "metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com"},
    {"kind": "StorageClass", "metadata": {"name": "fsx"}, "provisioner": "fsx.csi.aws.com"},
    crd("jobsets.jobset.x-k8s.io", "v1alpha2"), crd("mpijobs.kubeflow.org", "v2beta1"),
    crd("workloads.kueue.x-k8s.io", release="v0.17.2"),
    crd("podgroups.scheduling.volcano.sh"), crd("podmonitors.monitoring.coreos.com"),
]


def test_a_profile_is_read_off_a_cluster(tmp_path: Path) -> None:
    Scratch(tmp_path).write("cluster.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": EKS}))
    here = made(tmp_path / "mine", "--from", str(tmp_path / "cluster.json"), "--name", "prod")
    text = here.read("charts/clusters/prod.yaml")
    profile = Cluster.model_validate(yaml.safe_load(text))
    assert (profile.kubernetes, list(profile.node_pools)) == ("1.34", ["p5-48xlarge", "p5-48xlarge-spot", "m7i-4xlarge"])
    pool = profile.node_pools["p5-48xlarge"]
    assert pool.gpu is not None
    assert (pool.nodes, str(pool.cpus), str(pool.memory), pool.gpu.model, str(pool.gpu.memory), pool.gpu.per_node) == (
        3, "192", "2000Gi", "H100", "80Gi", 8,
    )
    assert (pool.fabric.kind, pool.fabric.links, pool.fabric.resource, pool.fabric.resource_count) == (
        "efa", 32, "vpc.amazonaws.com/efa", 32,
    )
    assert [(taint.key, taint.value) for taint in pool.taints] == [("nvidia.com/gpu", "true")]
    spot = profile.node_pools["p5-48xlarge-spot"]
    assert spot.spot is not None
    assert spot.labels["karpenter.sh/capacity-type"] == "spot"
    assert list(profile.topology) == ["layer-1", "layer-2", "layer-3"]
    assert profile.kueue is not None
    assert (profile.kueue.version, profile.scheduling.gang) == ("0.17.2", "volcano")
    assert list(profile.operators) == ["jobset", "mpi-operator"]
    assert profile.namespaces["training"].claims["training-checkpoints"].storage_class == "fsx"
    comments = [line for line in text.splitlines() if line.startswith("# - ")]
    assert any("jobset is installed, in a release that no CRD names" in line for line in comments)
    assert not any("kueue is installed" in line for line in comments)
    assert_ended(here.run("check"), 0)


def test_a_single_machine_is_a_cluster_too() -> None:
    profile = Cluster.model_validate(yaml.safe_load(discovered_profile("kind", {"items": [node()]})))
    (pool,) = profile.node_pools.values()
    assert (pool.nodes, pool.gpu, pool.fabric.kind, str(pool.memory)) == (1, None, "tcp", "15Gi")
    assert not profile.namespaces["training"].claims["training-checkpoints"].managed


@pytest.mark.parametrize(("capacity", "said"), [
    ({"rdma/ib": "1k"}, {"resource_count": 1}),
    ({"rdma/ib": "8e0"}, {"resource_count": 8}),
    ({"nvidia.com/gpu": "8000m"}, {"per_node": 8}),
    ({"example.com/gpu": "+4", "nvidia.com/gpu": "0"}, {"per_node": 4, "resource": "example.com/gpu"}),
    ({"memory": "1.5e12"}, {"memory": "1396Gi"}),
    ({"memory": "2T"}, {"memory": "1862Gi"}),
    ({"memory": ".5Ti"}, {"memory": "512Gi"}),
    ({"memory": "137438953472"}, {"memory": "128Gi"}),
    ({"memory": "137438953472000m"}, {"memory": "128Gi"}),
    ({"memory": 137438953472}, {"memory": "128Gi"}),
    ({"memory": "512Mi"}, {"memory": "1Gi"}),
    ({"cpu": "95920m"}, {"cpus": 95}),
    ({"cpu": "1k"}, {"cpus": 1000}),
    ({"cpu": "1.92E2"}, {"cpus": 192}),
    ({"cpu": "500m"}, {"cpus": 1}),
])
def test_an_amount_is_read_in_every_form_of_a_quantity(capacity: Data, said: Data) -> None:
    alone = node(capacity={"nvidia.com/gpu": "8", "cpu": "192", "memory": "2000Gi", **capacity})
    (pool,) = yaml.safe_load(discovered_profile("any", {"items": [alone]}))["node_pools"].values()
    flat = {**pool["fabric"], **pool["gpu"], **{key: pool[key] for key in ("cpus", "memory")}}
    if "memory" not in said:
        flat.pop("memory")
    assert {key: flat[key] for key in said} == said


@pytest.mark.parametrize("text", ["many", "1kk", "8 Gi", "0x10", "", None, ["8"]])
def test_an_amount_that_is_none_is_said_with_its_resource(text: Any, tmp_path: Path) -> None:
    Scratch(tmp_path).write("nodes.json", json.dumps({"items": [node(capacity={"rdma/ib": text})]}))
    ended = Scratch(tmp_path).run("new", "mine", "--from", "nodes.json")
    wrong = f"a node's capacity of rdma/ib is {text!r}, which is no quantity"
    assert_ended(ended, 2, f"no profile can be made from nodes.json: {wrong}")


def gpu_node(product: str, memory: str, vendor: str = "nvidia", **labels: str) -> Data:
    names = {"nvidia": ("product", "memory"), "amd": ("product-name", "vram")}[vendor]
    said = dict(zip((f"{vendor}.com/gpu.{name}" for name in names), (product, memory), strict=True))
    return node(labels=said | labels, capacity={f"{vendor}.com/gpu": "8"})


def pools_of(*nodes: Data) -> dict[str, NodePool]:
    return Cluster.model_validate(yaml.safe_load(discovered_profile("any", {"items": [*nodes]}))).node_pools


@pytest.mark.parametrize(("one", "model", "memory"), [
    (gpu_node("AMD_Instinct_MI300X_OAM", "192G", "amd"), "MI300X", "192Gi"),
    (gpu_node("NVIDIA-L40", "46068"), "NVIDIA-L40", "45Gi"),
    (gpu_node("NVIDIA-GH200-480GB", "97871"), "NVIDIA-GH200-480GB", "96Gi"),
    (gpu_node("NVIDIA-L40S", "46068"), "L40S", "45Gi"),
])
def test_a_gpu_is_known_by_the_labels_of_its_vendor(one: Data, model: str, memory: str) -> None:
    (pool,) = pools_of(one).values()
    assert pool.gpu is not None
    assert not pool.labels
    assert (pool.gpu.model, str(pool.gpu.memory)) == (model, memory)
    said = f"node_pools.gpu.gpu.model: {model} is none that is known here"
    assert (said in discovered_profile("any", {"items": [one]})) == (model not in GPU_MEMORY)


@pytest.mark.parametrize("machine", [{}, {"node.kubernetes.io/instance-type": "k3s"}])
def test_machines_of_one_type_with_several_gpus_are_several_pools(machine: dict[str, str]) -> None:
    h100, a100 = ("NVIDIA-H100-80GB-HBM3", "81559"), ("NVIDIA-A100-SXM4-40GB", "40960")
    pools = pools_of(gpu_node(*h100, **machine), gpu_node(*a100, **machine), gpu_node(*h100, **machine))
    assert {
        (pool.nodes, pool.gpu.model, str(pool.gpu.memory), pool.labels["nvidia.com/gpu.product"])
        for pool in pools.values() if pool.gpu
    } == {(2, "H100", "80Gi", h100[0]), (1, "A100", "40Gi", a100[0])}
    assert all(machine.items() <= pool.labels.items() for pool in pools.values())


def test_a_node_that_is_not_labelled_yet_makes_no_pool_of_its_own() -> None:
    (pool,) = pools_of(node(capacity={"nvidia.com/gpu": "8"}), gpu_node("NVIDIA-H100-80GB-HBM3", "81559")).values()
    assert pool.gpu is not None
    assert (pool.nodes, pool.gpu.model, str(pool.gpu.memory)) == (2, "H100", "80Gi")


@pytest.mark.parametrize(("key", "values"), [
    ("karpenter.sh/capacity-type", ("on-demand", "spot")), ("eks.amazonaws.com/capacityType", ("ON_DEMAND", "SPOT")),
])
def test_pods_of_a_pool_that_stays_do_not_go_to_spot_nodes(key: str, values: tuple[str, str]) -> None:
    nodes = [node(labels={**P5, key: value}, taints=[TAINT], capacity=SIZE_OF_P5) for value in values]
    pools = pools_of(*nodes)
    assert [pool.labels[key] for pool in pools.values()] == [*values]
    assert [pool.spot is not None for pool in pools.values()] == [False, True]
    assert "they lead its pods" not in discovered_profile("any", {"items": nodes})


def test_a_profile_says_which_pools_have_no_label_of_their_own() -> None:
    spot, taint = "cloud.google.com/gke-spot", {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
    nodes = [node(labels=P5, capacity=SIZE_OF_P5), node(labels={**P5, spot: "true"}, capacity=SIZE_OF_P5)]
    said = "# - node_pools.p5-48xlarge.labels: they lead its pods to nodes of p5-48xlarge-spot too; "
    assert said in discovered_profile("any", {"items": nodes})
    nodes[1]["spec"]["taints"] = [taint]
    assert "they lead its pods" not in discovered_profile("any", {"items": nodes})


OLD = [node("v1.31.4", capacity={"nvidia.com/gpu": "8", "cpu": "96", "memory": "1056Gi"})] * 2
TRAINING_OPERATOR = [crd(f"{kind}.kubeflow.org") for kind in ("pytorchjobs", "tfjobs", "mpijobs", "xgboostjobs")]


@pytest.mark.parametrize(("crds", "target", "topology"), [
    (TRAINING_OPERATOR, "pytorch-job", "ddp"),
    ([crd("jobsets.jobset.x-k8s.io", "v1alpha2")], "job-set", "ddp"),
    ([*TRAINING_OPERATOR, crd("jobsets.jobset.x-k8s.io", "v1alpha2")], "job-set", "ddp"),
    ([crd("mpijobs.kubeflow.org", "v2beta1")], "mpi-job", "horovod"),
    ([crd("rayclusters.ray.io"), crd("rayjobs.ray.io")], "ray-job", "ray"),
])
def test_runs_get_a_target_that_an_older_cluster_has(crds: list[Data], target: str, topology: str, tmp_path: Path) -> None:
    Scratch(tmp_path).write("cluster.json", json.dumps({"items": [*OLD, *crds]}))
    here = made(tmp_path / "mine", "--from", str(tmp_path / "cluster.json"))
    why = "Indexed Job needs Kubernetes 1.33, the cluster has 1.31"
    assert f"\ndefault_target: {target}  # {why}\n" in here.read("charts/clusters/cluster.yaml")
    assert f"topology: {{kind: {topology}, " in here.read("charts/runs/first-run.yaml")
    here.edit("charts/runs/first-run.yaml", "state: done\n", "")
    here.synth()
    assert_ended(here.run("check"), 0)
    assert_ended(here.run("init", "another"), 0)


@pytest.mark.parametrize(("objects", "said"), [
    (OLD, ["indexed-job: Indexed Job needs Kubernetes 1.33, the cluster has 1.31",
           "job-set: JobSet needs the operator jobset, which the profile of cluster old does not list"]),
    ([node("v1.25.9"), *TRAINING_OPERATOR], ["pytorch-job: Kubernetes 1.25 is not known to this compiler"]),
    ([node("v1.32.0"), crd("podgroups.scheduling.x-k8s.io")], ["volcano-job: Volcano Job cannot run DDP: cluster old has no"]),
])
def test_where_no_target_fits_the_profile_is_written_and_what_is_missing_said(
    objects: list[Data], said: list[str], tmp_path: Path
) -> None:
    here = Scratch(tmp_path)
    here.write("cluster.json", json.dumps({"items": objects}))
    ended = here.run("new", "mine", "--from", "cluster.json", "--name", "old")
    assert_ended(ended, 1, "The profile is written, and no run", *said)
    assert "upgrade" not in ended.stderr
    mine = Scratch(tmp_path / "mine")
    assert mine.path("charts/clusters/old.yaml").is_file()
    assert not list(mine.root.glob("charts/runs/*"))
    assert_ended(mine.run("check"), 0)


@pytest.mark.parametrize("way", [
    ["--cluster", "kubeflow"], ["--cluster", "gke-a3-mega", "--name", "other"], ["--from", "cluster.json"],
])
def test_a_project_that_exists_gets_one_more_cluster(way: list[str], tmp_path: Path) -> None:
    Scratch(tmp_path).write("cluster.json", json.dumps({"items": [*OLD, *TRAINING_OPERATOR]}))
    here = made(tmp_path / "mine", "--cluster", "laptop")
    before = {path: path.read_bytes() for path in here.root.rglob("*") if path.is_file()}
    ended = Scratch(tmp_path).run("new", "mine", *way)
    name = way[3] if "--name" in way else "cluster" if "--from" in way else way[1]
    assert_ended(ended, 0, f"trainwright init my-run --cluster {name}")
    after = {path: path.read_bytes() for path in here.root.rglob("*") if path.is_file()}
    assert {path: after[path] for path in before} == before, "nothing that was there is touched"
    added = sorted(path.relative_to(here.root).as_posix() for path in after.keys() - before.keys())
    assert added == [f"charts/clusters/{name}.yaml"]
    assert_ended(here.run("init", "second", "--cluster", name), 0)
    here.synth()
    assert f"{name}/training/runs/second.k8s.yaml" in here.dist()
    assert f"path: dist/{name}/training/runs\n" in here.read("dist/_argo-cd/applications/argo-cd.k8s.yaml")
    assert_ended(here.run("check"), 0)
    assert_ended(Scratch(tmp_path).run("new", "mine", *way), 2, f"charts/clusters/{name}.yaml is there already")


def test_shared_rdma_devices_are_no_links() -> None:
    alone = node(capacity={"nvidia.com/gpu": "8", "rdma/rdma_shared_device_a": "1000", "cpu": "192", "memory": "2000Gi"})
    text = discovered_profile("ib", {"items": [alone]})
    (pool,) = Cluster.model_validate(yaml.safe_load(text)).node_pools.values()
    assert (pool.fabric.kind, pool.fabric.links, pool.fabric.resource_count) == ("infiniband", 8, 1)
    assert "# - node_pools.gpu.gpu.model: no node label says it" in text


def test_a_list_without_nodes_is_refused() -> None:
    with pytest.raises(DiscoveryError, match="no worker node"):
        discovered_profile("x", {"items": [crd("jobsets.jobset.x-k8s.io")]})
    with pytest.raises(DiscoveryError, match="no list of objects"):
        discovered_profile("x", [])
