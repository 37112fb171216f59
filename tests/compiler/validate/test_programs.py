"""The rules on programs, asked of manifests that are no run's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainwright.findings import Severity
from trainwright.validate import validate_files

FOLDERS = [os.environ[name] for name in ("TRAINWRIGHT_MANIFESTS", "TRAINWRIGHT_RECORDED") if name in os.environ]

PYTORCH = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: ft, namespace: ml}}
spec:
  pytorchReplicaSpecs:
    {first}:
      replicas: 1
      template: {{spec: {{containers: [{{name: pytorch, image: "x/y:1", command: [python, t.py]}}]}}}}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: pytorch
            image: x/y:1
            resources: {{limits: {{nvidia.com/gpu: 4}}}}
            command: {words}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: ft}}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      subdomain: ft
      containers:
      - name: a
        image: x/y:1
        command: {words}
"""
MPI = """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: ft}}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - name: l
            image: x/y:1
            command: {words}
    Worker: {{replicas: 2, template: {{spec: {{containers: [{{name: w, image: "x/y:1"}}]}}}}}}
"""


def said(text: str, folder: Path) -> list[str]:
    """Code and line of what the rules on programs find."""
    path = folder / "file.yaml"
    path.write_text(text, encoding="utf-8")
    found = validate_files([path], None).findings
    return [f"{one.code}:{one.where.line}" for one in found if one.code.startswith("TW4")]


@pytest.mark.parametrize(("words", "expected"), [
    ("[torchrun, --nproc_per_node=4, t.py]", []),
    ("[torchrun, --nnodes=3, --node_rank=$(RANK), --master_addr=ft-master-0, t.py]", []),
    ('[bash, -c, "exec torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK --master_addr=$MASTER_ADDR t.py"]', []),
    ("[torchrun, --rdzv_backend=c10d, --rdzv_endpoint=ft-master-0.ml.svc:29500, t.py]", []),
    ("[torchrun, --nnodes=1:3, t.py]", []),
    ("[torchrun, --nnodes=2, t.py]", ["TW411:18"]),
    ("[torchrun, --nproc_per_node=8, t.py]", ["TW411:18"]),
    ("[torchrun, --node_rank=1, t.py]", ["TW411:18"]),
    ("[torchrun, --standalone, t.py]", ["TW411:18"]),
    ("[torchrun, --rdzv_endpoint, $MASTER_ADDR:29500, t.py]", ["TW411:18"]),
    ("[torchrun, --master_addr=old-master-0, t.py]", ["TW476:18"]),
    ('[bash, -c, "M=old-master-0; exec torchrun --master_addr=$M t.py"]', ["TW476:18"]),
    ("[torchrun, --rdzv_backend=c10d, t.py]", ["TW406:18"]),
    ("[torchrun, --rdzv_backend=c10d, --rdzv_endpoint=localhost:29500, t.py]", ["TW411:18"]),
    ("[torchrun, --master_addr=127.0.0.1, t.py]", ["TW411:18"]),
    ('[bash, -c, "exec torchrun --node_rank=${JOB_COMPLETION_INDEX:-$RANK} t.py"]', []),
    ('[bash, -c, "exec torchrun --node_rank=$JOB_COMPLETION_INDEX t.py"]', ["TW457:18"]),
    ('[bash, -c, "CUDA_VISIBLE_DEVICES=0 python prepare.py; exec torchrun --nproc_per_node=4 t.py"]', []),
    ('[bash, -c, "export CUDA_VISIBLE_DEVICES=0; exec torchrun --nproc_per_node=4 t.py"]', ["TW475:18"]),
    ('[bash, -c, "CUDA_VISIBLE_DEVICES=0 exec torchrun --nproc_per_node=4 t.py"]', ["TW475:18"]),
    ('[bash, -euo, pipefail, -c, "torchrun t.py; echo done"]', ["TW470:18"]),
    ('[bash, -euo, pipefail, -c, "exec torchrun t.py"]', []),
    ('[bash, -c, "set -e; torchrun --standalone prep.py; exec torchrun t.py"]', []),
    ('[bash, -c, "set -e; torchrun --standalone prep.py; exec torchrun --nnodes=9 t.py"]', ["TW411:18"]),
    ('[bash, -c, "bash -x train.sh | tee log"]', ["TW470:18", "TW471:18"]),
    ('[bash, -c, "set -o pipefail; exec bash -o pipefail -x train.sh"]', []),
    ('[bash, -c, "torchrun t.py | tee log"]', ["TW470:18", "TW471:18"]),
])  # fmt: skip
def test_a_pytorch_job_is_judged_with_what_its_operator_makes(words: str, expected: list[str], tmp_path: Path) -> None:
    assert said(PYTORCH.format(words=words, first="Master"), tmp_path) == expected


@pytest.mark.parametrize(("words", "expected"), [
    ("[torchrun, --standalone, --nproc_per_node=8, t.py]", []),
    ("[torchrun, --nnodes=1, --master_addr=localhost, t.py]", []),
    ("[torchrun, --nnodes=2, --node_rank=$(JOB_COMPLETION_INDEX), --master_addr=ft-0.ft, t.py]", []),
    ("[torchrun, --nnodes=4, --node_rank=$(JOB_COMPLETION_INDEX), --master_addr=ft-0.ft, t.py]", ["TW411:16"]),
    ("[torchrun, --nnodes=2, --node_rank=$(JOB_COMPLETION_INDEX), --master_addr=ft-0.other, t.py]", ["TW476:16"]),
])  # fmt: skip
def test_pods_of_a_job_may_train_alone(words: str, expected: list[str], tmp_path: Path) -> None:
    assert said(JOB.format(words=words), tmp_path) == expected


@pytest.mark.parametrize(("words", "expected"), [
    ('[mpirun, -np, "16", python, t.py]', []),
    ('[mpirun, -np, "32", python, t.py]', ["TW420:14"]),
    ('[mpirun, -np, "32", --oversubscribe, python, t.py]', []),
    ('[mpirun, -np, "16", -npernode, "16", python, t.py]', ["TW420:14"]),
    ('[horovodrun, -np, "16", python, t.py]', ["TW420:14"]),
    ('[horovodrun, -np, "16", --hostfile, /etc/mpi/hostfile, python, t.py]', []),
    ('[horovodrun, -np, "16", -H, "ft-worker-0:8,ft-worker-1:8", python, t.py]', []),
    ('[mpirun, -np, "16", -H, "old-worker-0:8,ft-worker-1.ft:8", python, t.py]', ["TW476:14"]),
])  # fmt: skip
def test_mpirun_has_the_slots_of_its_workers(words: str, expected: list[str], tmp_path: Path) -> None:
    assert said(MPI.format(words=words), tmp_path) == expected


@pytest.mark.parametrize(("old", "new"), [
    ("name: pytorch", "name: trainer"),
    ("  pytorchReplicaSpecs:", "  elasticPolicy: {minReplicas: 1}\n  pytorchReplicaSpecs:"),
])  # fmt: skip
@pytest.mark.parametrize("role", ["Worker:", "Workers:"])
def test_what_the_webhook_refuses_is_no_reason_to_fail(old: str, new: str, role: str, tmp_path: Path) -> None:
    text = PYTORCH.format(words="[torchrun, t.py]", first="Master").replace(old, new).replace("Worker:", role)
    (tmp_path / "file.yaml").write_text(text, encoding="utf-8")
    assert {one.code for one in validate_files([tmp_path / "file.yaml"], None).findings} & {"TW711", "TW714"}


def test_a_train_job_counts_its_nodes_and_a_ray_job_has_a_shell(tmp_path: Path) -> None:
    train = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\nspec:\n  runtimeRef: {name: r}\n"
    assert said(f"{train}  trainer:\n    numNodes: 3\n    command: [torchrun, --nnodes=4, t.py]\n", tmp_path) == ["TW411:8"]
    ray = "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: a}\nspec:\n  entrypoint: python t.py || true\n"
    assert said(ray, tmp_path) == ["TW471:5"]


def test_a_script_in_a_config_map_is_read_in_its_place(tmp_path: Path) -> None:
    mounted = JOB.format(words="[bash, /run/t.sh]") + "        volumeMounts: [{name: s, mountPath: /run}]\n"
    volume = "      volumes: [{name: s, configMap: {name: s}}]\n"
    script = '---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: s}\ndata:\n  t.sh: "torchrun --nnodes=4 t.py || true"\n'
    assert said(mounted + volume + script, tmp_path) == ["TW470:24", "TW471:24", "TW411:24"]


def test_values_that_a_library_cannot_read(tmp_path: Path) -> None:
    text = JOB.format(words='[env, NCCL_IB_TIMEOUT=99, torchrun, --standalone, t.py]')
    text += "        env: [{name: NCCL_DEBUG, value: LOUD}, {name: NCCL_ALGO, value: Ring}]\n"
    assert said(text, tmp_path) == ["TW413:16", "TW413:17"]


@pytest.mark.parametrize("replicas", ['"2"', "null", "-1", "1000000000", "[1]"])
def test_what_no_api_server_takes_is_no_reason_to_fail(replicas: str, tmp_path: Path) -> None:
    text = PYTORCH.format(words="[torchrun, --nnodes=2, t.py]", first="Master").replace("replicas: 2", f"replicas: {replicas}")
    assert said(text, tmp_path) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_people_use_has_no_error(folder: str) -> None:
    found = validate_files([Path(folder)], None).findings
    assert not [one for one in found if one.code.startswith("TW4") and one.severity is Severity.ERROR]
