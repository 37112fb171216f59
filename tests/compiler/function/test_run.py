"""Runs that hold functions, and their packages, from a module to pods that train."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.example import compiled
from tests.compiler.function import functions
from tests.compiler.rehearsal.stage import play

from trainwright import load_cluster
from trainwright.compile import CompiledRun, compile_run
from trainwright.findings import CompileError
from trainwright.function import FOLDER, FunctionWorkload, from_custom_trainer
from trainwright.plan import packages
from trainwright.reading import validate_data
from trainwright.reading.run_module import load_python_runs
from trainwright.report.plan import plan_lines
from trainwright.run import Run, ScriptWorkload, Security
from trainwright.topology import DDP

IMAGE = "registry.example.com/research/torch@sha256:" + "b" * 64
USER = {"security": Security(user=1000)}
PARTS: dict[str, Any] = {"run": "probe", "team": "vision", "namespace": "training", "cluster": "laptop", "image": IMAGE}


def train(steps: int, *, lr: float = 0.1) -> None:
    """DDP by its environment, as the SDK's own example has it."""
    import os

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    device, backend = ("cuda", "nccl") if torch.cuda.is_available() else ("cpu", "gloo")
    dist.init_process_group(backend)
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(4, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        loss = model(torch.randn(8, 4, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    total = torch.cat([parameter.flatten() for parameter in model.parameters()]).sum()
    same = [torch.zeros_like(total) for _ in range(dist.get_world_size())]
    dist.all_gather(same, total.detach())
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {os.environ['GROUP_RANK']}: {len(set(map(float, same)))} model")
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_pods_train_what_a_function_says(tmp_path: Path) -> None:
    run = Run(**PARTS, topology=DDP(nodes=2, gpus_per_node=0), workload=FunctionWorkload(train, {"steps": 3}),
              security=Security(user=1000))  # fmt: skip
    outcome, recorder = play(list(compile_run(run, load_cluster("charts/clusters/laptop.yaml")).manifests), tmp_path)
    said = sorted(line for _, line in recorder.lines if line.startswith("rank "))
    assert said == ["rank 0 of 2 on 0: 1 model", "rank 1 of 2 on 1: 1 model"], recorder.lines
    assert outcome.status == "Complete", outcome


def test_every_way_to_a_run_has_the_file(tmp_path: Path) -> None:
    work = FunctionWorkload(functions.keywords, {"out-file": "x"})
    other = {**PARTS, "topology": DDP(nodes=1, gpus_per_node=0)}
    run = Run(workload=work, **other)
    assert list(run.files) == [f"{FOLDER}/function-keywords.py"]
    assert Run.model_validate({**other, "workload": work}) == run
    assert validate_data(Run, {**other, "workload": work}, None, {}) == run
    copied = Run(workload=ScriptWorkload(command=["x"]), **other).model_copy(update={"workload": work})
    assert validate_data(Run, copied, None, {}) == run


MODULE = """\
from trainwright.function import FunctionWorkload
from trainwright.run import Run
from trainwright.topology import DDP

def train(lr):
    {body}

RUN = {run}(
    run="probe", team="nlp", namespace="training", cluster="laptop", image="registry.example.com/x@sha256:{digest}",
    security=dict(user=1000),
    topology=DDP(nodes=1, gpus_per_node=0), workload=FunctionWorkload(train, {{"lr": 3e-4}}), files={{"/etc/mine": "x"}},
)
"""


@pytest.mark.parametrize("kind", ["Run", "dict"])
def test_a_module_s_run_has_its_files_and_those_of_its_function(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_text(MODULE.format(digest="b" * 64, body="print(lr)", run=kind), encoding="utf-8")
    ((run, *_),) = load_python_runs(path)
    assert list(run.files) == ["/etc/mine", f"{FOLDER}/function-train.py"]
    assert "def train(lr):\n    print(lr)\n" in run.files[f"{FOLDER}/function-train.py"]


def test_what_is_refused_is_on_its_line_of_the_module(tmp_path: Path) -> None:
    path = tmp_path / "probe.py"
    path.write_text(MODULE.format(digest="b" * 64, body="print(DDP)", run="Run"), encoding="utf-8")
    with pytest.raises(CompileError) as error:
        load_python_runs(path, "charts/runs/probe.py")
    (finding,) = error.value.findings
    assert str(finding.where) == "charts/runs/probe.py:6:11"
    assert finding.fix == "write `from trainwright.topology.ddp import DDP` inside train"


def test_the_identity_follows_the_source(tmp_path: Path) -> None:
    path, names = tmp_path / "probe.py", []
    for body in ("print(lr)", "print(lr)  # at once", "print(lr)"):
        path.write_text(MODULE.format(digest="b" * 64, body=body, run="Run"), encoding="utf-8")
        ((run, *_),) = load_python_runs(path)
        names.append(compile_run(run, load_cluster("charts/clusters/laptop.yaml")).plan.name)
    assert names[0] == names[2] != names[1]


# Words of the Kubeflow SDK.


@dataclass
class CustomTrainer:
    """The fields of kubeflow.trainer.CustomTrainer 0.5.0, with its defaults."""

    func: Any
    func_args: dict[str, Any] | None = None
    image: str | None = None
    packages_to_install: list[str] | None = None
    pip_index_urls: list[str] | None = None
    num_nodes: int | None = None
    resources_per_node: dict[str, Any] | None = None
    env: dict[str, str] | None = None


def from_sdk(run: dict[str, Any] | None = None, **words: Any) -> Run:
    words = {"func": train, "func_args": {"steps": 3}, "image": IMAGE, "pip_index_urls": ["https://pypi.org/simple"], **words}
    parts: dict[str, Any] = {"run": "sdk", "team": "research", "namespace": "research", "cluster": "trainer-h100", **USER}
    return from_custom_trainer(**vars(CustomTrainer(**words)), **parts, **(run or {}))


@pytest.mark.parametrize(("nodes", "gpus"), [(None, 4), (4, 2)])
def test_the_examples_of_the_sdk_are_runs(nodes: int | None, gpus: int) -> None:
    run = from_sdk(num_nodes=nodes, resources_per_node={"gpu": gpus, "CPU": 5, "memory": "10Gi", "storage": "20Gi"},
                   env={"A": "b"})  # fmt: skip
    found = compile_run(run, load_cluster("charts/clusters/trainer-h100.yaml"))
    (job,) = (one for one in found.manifests if one["kind"] == "TrainJob")
    trainer = job["spec"]["trainer"]
    assert (trainer["numNodes"], trainer["numProcPerNode"]) == (nodes or 1, gpus)
    limits = trainer["resourcesPerNode"]["limits"]
    assert {name: limits[name] for name in ("cpu", "memory", "nvidia.com/gpu", "ephemeral-storage")} == {
        "cpu": "5", "memory": "10Gi", "nvidia.com/gpu": str(gpus), "ephemeral-storage": "20Gi",
    }  # fmt: skip
    assert {"name": "A", "value": "b"} in trainer["env"]


@pytest.mark.parametrize(("words", "message"), [
    ({"resources_per_node": {"mig-1g.5gb": 1}}, "has mig-1g.5gb"),
    ({"resources_per_node": {"google.com/tpu": 4}}, "google.com/tpu"),
    ({"pip_index_urls": ["https://pypi.example.com"]}, "pip_index_urls names https://pypi.example.com"),
    ({"run": {"topology": DDP(nodes=1, gpus_per_node=1)}}, "topology of the run"),
    ({"run": {"workload": ScriptWorkload(command=["x"])}}, "workload of the run"),
])  # fmt: skip
def test_what_a_run_says_in_another_way_is_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError) as error:
        from_sdk(**words)
    (finding,) = error.value.findings
    assert finding.code == "TW115"
    assert message in finding.message
    assert (finding.where.file or "").endswith("test_run.py")


def test_extended_resources_are_devices() -> None:
    assert from_sdk(resources_per_node={"rdma/hca": 2, "nvidia.com/gpu": "8"}).resources.devices == {"rdma/hca": 2}


# Packages.

HASH = "--hash=sha256:" + "0" * 64
INDEX = {"package_index": "https://pypi.example.com/simple"}


def with_packages(*lines: str, run: dict[str, Any] | None = None, index: str | None = INDEX["package_index"]) -> CompiledRun:
    work = {"kind": "script", "command": ["python3.12", "/app/train.py"], "packages": list(lines)}
    changes = {"workload": work, "batch": None, "learning_rate": None, "checkpoints": {"by": "own"}, **(run or {})}
    return compiled(changes, {"package_index": index})


def spec_of(found: CompiledRun) -> dict[str, Any]:
    spec: dict[str, Any] = next(one for one in found.manifests if one["kind"] == "Job")["spec"]["template"]["spec"]
    return spec


def test_packages_are_installed_before_the_program_starts() -> None:
    found = with_packages(f"einops==0.8.1 {HASH}", f"Some_Thing[extra] == 1.0rc1 ; python_version < '3.13' {HASH} {HASH}")
    spec = spec_of(found)
    (installer,) = spec["initContainers"]
    assert (installer["name"], installer["image"]) == (packages.CONTAINER, spec["containers"][0]["image"])
    assert installer["command"][:4] == ["python3.12", "-m", "pip", "install"]
    assert "--index-url=https://pypi.example.com/simple" in installer["command"]
    mounts = {mount["mountPath"]: mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    assert {mount["mountPath"]: mount["name"] for mount in installer["volumeMounts"]}.items() <= mounts.items()
    assert {"name": "PYTHONPATH", "value": packages.FOLDER} in spec["containers"][0]["env"]
    config = next(one for one in found.manifests if one["kind"] == "ConfigMap")
    assert config["data"]["requirements.txt"].startswith(f"einops==0.8.1 {HASH}\n")
    row = ("packages      einops 0.8.1, Some_Thing[extra] 1.0rc1: installed in every pod with ranks before it starts, from "
           "https://pypi.example.com/simple, into /opt/trainwright-packages")  # fmt: skip
    assert row in [line.strip() for line in plan_lines(found)]


@pytest.mark.parametrize(("lines", "message"), [
    (["einops"], "einops is not one version"), (["einops>=0.8 " + HASH], "is not one version"),
    (["einops==0.8.* " + HASH], "is not one version"),
    (["git+https://x/y " + HASH], "is not one version"), (["einops==0.8.1"], "einops has no hash"),
    (["einops==0.8.1 --hash=md5:0"], "einops has no hash"), (["einops==0.8.1 --hash=sha256:12"], "einops has no hash"),
    (["einops==0.8.1 --pre"], "is not one version"), (["a.b==1 " + HASH, "A_b==2 " + HASH], "A_b is there twice"),
])  # fmt: skip
def test_a_line_that_pip_would_refuse_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(CompileError) as error:
        with_packages(*lines)
    assert [(one.code, message in one.message) for one in error.value.findings] == [("TW485", True)]


@pytest.mark.parametrize(("path", "good"), [("/app", False), (f"{packages.FOLDER}:/app", True)])
def test_a_python_path_of_the_run_keeps_the_folder(path: str, good: bool) -> None:
    try:
        codes = [one.code for one in with_packages(f"einops==0.8.1 {HASH}", run={"env": {"PYTHONPATH": path}}).findings]
    except CompileError as error:
        codes = [one.code for one in error.findings]
    assert ("TW486" not in codes) is good


def test_an_override_of_the_installer_names_the_key() -> None:
    patch = {"initContainers": [{"name": packages.CONTAINER, "image": IMAGE}]}
    with pytest.raises(CompileError, match=r"change workload\.packages"):
        with_packages(f"einops==0.8.1 {HASH}", run={"overrides": {"pod": {"node": patch}}})


def test_its_name_is_taken() -> None:
    other = {"kind": "init", "name": packages.CONTAINER, "image": IMAGE, "cpu": 1, "memory": "1Gi"}
    with pytest.raises(CompileError, match="it is the container that installs packages"):
        with_packages(f"einops==0.8.1 {HASH}", run={"containers": [other]})


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Address of a real index with one wheel, and the wheel's hash."""
    folder = tmp_path / "index" / "tw-probe"
    folder.mkdir(parents=True)
    wheel = folder / "tw_probe-1.0-py3-none-any.whl"
    info = "tw_probe-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tw_probe.py", "SAID = 'here'\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tw-probe\nVersion: 1.0\nRequires-Dist: torch\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"tw_probe.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "index"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", hashlib.sha256(wheel.read_bytes()).hexdigest()
        server.shutdown()


@pytest.mark.parametrize("good", [True, False])
def test_pip_does_what_the_container_says(index: tuple[str, str], good: bool, tmp_path: Path) -> None:
    """Twice, as after a container that was killed half way; with another hash nothing is installed."""
    address, digest = index
    found = with_packages(f"tw-probe==1.0 --hash=sha256:{digest if good else '0' * 64}", index=address)
    installer = spec_of(found)["initContainers"][0]
    (tmp_path / "spec").mkdir()
    text = next(one for one in found.manifests if one["kind"] == "ConfigMap")["data"]["requirements.txt"]
    (tmp_path / "spec" / "requirements.txt").write_text(text, encoding="utf-8")
    (tmp_path / "packages").mkdir()
    places = {packages.FOLDER: str(tmp_path / "packages"), "/etc/trainwright": str(tmp_path / "spec")}
    command = [sys.executable, *installer["command"][1:]]
    for there, here in places.items():
        command = [word.replace(there, here) for word in command]
    environment = {**{one["name"]: str(tmp_path) for one in installer["env"]}, "PATH": os.environ["PATH"], "NO_PROXY": "*"}
    codes = [subprocess.run(command, env=environment, capture_output=True, check=False).returncode for _ in range(2)]
    assert codes == ([0, 0] if good else [1, 1])
    assert (tmp_path / "packages" / "tw_probe.py").exists() is good


def test_every_line_of_it_has_an_answer() -> None:
    found = with_packages(f"einops==0.8.1 {HASH}")
    number = next(number for number, one in enumerate(found.manifests) if one["kind"] == "Job")
    pointer = "/spec/template/spec/initContainers/0/command/2"
    assert found.provenance()[number].get(pointer) or any(pointer.startswith(one) for one in found.provenance()[number])
