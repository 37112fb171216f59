"""The mistakes of the usual copies, made in runs of ours: each has a finding that names it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.scenarios.committed import Data, command, patched, said, script

DS = "/etc/deepspeed/ds_config.json"
IMAGE = "registry.example.com/tool@sha256:" + "0" * 64
NO_DIGEST_TAG = "registry.example.com/research/train@sha256:" + "0" * 64
HOSTS = ("--hostfile", "/etc/mpi/hostfile")
POD: Data = {"template": {"spec": {"containers": [{"name": "tensorflow", "image": IMAGE}]}}}
PYTORCH, TENSORFLOW, MPI = ("pytorch-job", "PyTorchJob"), ("tf-job", "TFJob"), ("mpi-job", "MPIJob")
VIT: Data = {"architecture": "vit", "image_size": 224, "patch_size": 16, "num_channels": 3, "hidden_size": 1408,
             "intermediate_size": 6144, "num_hidden_layers": 40, "num_attention_heads": 16, "num_labels": 1000}  # fmt: skip

SYNC: Data = {"name": "sync", "image": IMAGE, "command": ["aws", "s3", "sync", "s3://example-datasets/imagenet", "/data"],
              "volumeMounts": [{"name": "imagenet", "mountPath": "/data"}],
              "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
              "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}  # fmt: skip


def ds(**settings: Any) -> Data:
    return {"files": {DS: settings}}


def env(**variables: str | None) -> Data:
    return {"env": variables}


MISTAKES: dict[str, tuple[str, Data, str, str]] = {
    # an elastic PyTorchJob
    "nodes by hand": ("bert-finetune", command("torchrun", "--nnodes=4", "/app/train.py"), "TW411", "2:8"),
    "a master in an elastic run": (
        "bert-finetune", patched(*PYTORCH, {"pytorchReplicaSpecs": {"Master": POD}}), "TW601", "Master",
    ),
    "the operator's variables": ("bert-finetune", env(PET_NNODES="2:8"), "TW403", "PET_NNODES"),
    "a gang of all": (
        "bert-finetune", patched(*PYTORCH, {"runPolicy": {"schedulingPolicy": {"minAvailable": 8}}}), "TW601", "start together",
    ),
    "elastic without checkpoints": ("bert-finetune", {"mounts": {"/checkpoints": None}}, "TW230", "/checkpoints"),
    "elastic program without checkpoints": (
        "bert-finetune", {"mounts": {"/checkpoints": None}, **script("python", "train.py")}, "TW453", "nodes come or go",
    ),
    "what NCCL finds out": ("bert-finetune", env(NCCL_IB_DISABLE="0"), "TW416", "NCCL_IB_DISABLE"),
    "GPUDirect across NUMA nodes": ("bert-finetune", env(NCCL_NET_GDR_LEVEL="SYS"), "TW408", "NUMA"),
    # TFJob
    "no restarts": (
        "resnet-train", patched(*TENSORFLOW, {"tfReplicaSpecs": {"Worker": {"restartPolicy": "Never"}}}), "TW601", "come back",
    ),
    "pods that stay": ("resnet-train", patched(*TENSORFLOW, {"runPolicy": {"cleanPodPolicy": "None"}}), "TW601", "GPUs"),
    "an evaluator": (
        "resnet-train", patched(*TENSORFLOW, {"tfReplicaSpecs": {"Evaluator": {"replicas": 1}}}), "TW601", "or roles for pods",
    ),
    "a master beside the chief": ("resnet-train", patched(*TENSORFLOW, {"tfReplicaSpecs": {"Master": POD}}), "TW601", "roles"),
    "TF_CONFIG by hand": ("resnet-train", env(TF_CONFIG="{}"), "TW403", "TF_CONFIG"),
    "TensorFlow on a Job": ("resnet-train", {"target": "indexed-job"}, "TW401", "target: tf-job"),
    "fit of Keras 3": ("tensorflow-distributed", env(TF_USE_LEGACY_KERAS=None), "TW429", "TF_USE_LEGACY_KERAS"),
    # a static PyTorchJob
    "plain python with 8 GPUs": (
        "gang-scheduled-training", {**command("python", "/app/train.py")}, "TW450", "WORLD_SIZE 64",
    ),
    "plain python on a Job": ("deepspeed-training", command("python3.11", "/app/train.py"), "TW450", "28 of 32 ranks"),
    "deepspeed without hosts": ("deepspeed-training", command("deepspeed", "--num_gpus=8", "train.py"), "TW450", "train alone"),
    "accelerate without machines": ("deepspeed-training", command("accelerate", "launch", "train.py"), "TW450", "train alone"),
    "no checkpoint": ("resnet50-imagenet", {"mounts": {"/checkpoints": None}}, "TW230", "/checkpoints"),
    "a program nobody counts": ("gang-scheduled-training", {"mounts": None, "checkpoints": None}, "TW453", "without counting"),
    "a container of the operator": ("resnet50-imagenet", {}, "TW454", "init-pytorch"),
    # hostNetwork
    "hostNetwork under restricted": ("hostnetwork-ddp", {"namespace": "training"}, "TW604", "hostNetwork"),
    "hostNetwork with fixed ports": ("sdk-train", {"host_network": True}, "TW605", "ports"),
    # data
    "keys in plain text": (
        "resnet50-imagenet", {"env": {"AWS_SECRET_ACCESS_KEY": "abcdefghijklmnopqrstuvwxyz0123456789"}}, "TW409", "{secret: NAME",
    ),
    "a sync in every pod": (
        "resnet50-imagenet", {"prepare": None, "mounts": {"/data": {"read_only": False}}, "overrides": {"pod": {
            role: {"initContainers": [SYNC]} for role in ("master", "worker")}}}, "TW243", "prepare",
    ),
    # learning rates
    "an unscaled rate": ("resnet50-imagenet", {"learning_rate": {"base_batch": None, "scaling": None}}, "TW215", "base_batch"),
    "a rate of another batch": ("resnet50-imagenet", {"learning_rate": {"scaling": None}}, "TW214", "a batch of 32"),
    # gangs
    "schedulerName of the object": (
        "gang-scheduled-training", patched(*PYTORCH, {"schedulerName": "volcano"}), "TW601", "no such field",
    ),
    "a label that nobody reads": (
        "gang-scheduled-training", {"pod_labels": {"scheduling.k8s.io/pod-group": "mine"}}, "TW451", "no scheduler reads",
    ),
    "a group by hand": ("llama-finetune", {"pod_labels": {"scheduling.x-k8s.io/pod-group": "mine"}}, "TW451", "gang"),
    "a queue on the pods": ("sdk-train", {"pod_labels": {"kueue.x-k8s.io/queue-name": "research"}}, "TW451", "queue"),
    "a queue that is not there": ("gang-scheduled-training", {"queue": "reserach"}, "TW431", "research"),
    "a priority that is not there": ("gang-scheduled-training", {"priority": "high"}, "TW452", "training-high"),
    # 70B on an Indexed Job
    "70B under DDP": ("llama-finetune", {"topology": {"kind": "ddp", "nodes": 4, "gpus_per_node": 8}}, "TW220", "zero3"),
    "a node rank under c10d": (
        "llama-finetune", command("torchrun", "--node_rank=$(JOB_COMPLETION_INDEX)", "--rdzv_backend=c10d", "train.py"),
        "TW406", "--rdzv_endpoint",
    ),
    "the index by hand": ("llama-finetune", env(JOB_COMPLETION_INDEX="0"), "TW403", "JOB_COMPLETION_INDEX"),
    "a Service of ready pods": (
        "llama-finetune", patched("indexed-job", "Service", {"publishNotReadyAddresses": False}), "TW601", "before they are",
    ),
    "backoffLimit": ("llama-finetune", patched("indexed-job", "Job", {"backoffLimit": 6}), "TW601", "restarts"),
    # ds_config.json
    "another batch": ("deepspeed-training", ds(train_batch_size=256), "TW222", "128"),
    "twice the nodes": ("deepspeed-training", {"topology": {"nodes": 8}}, "TW222", "256"),
    "an implied micro batch": (
        "deepspeed-training", ds(train_micro_batch_size_per_gpu=None), "TW223", "train_micro_batch_size_per_gpu: 1",
    ),
    "another stage": ("deepspeed-training", ds(zero_optimization={"stage": 2}), "TW222", "zero2"),
    "two precisions": ("deepspeed-training", ds(bf16={"enabled": True}), "TW225", "fp16 and bf16"),
    "a misspelt key": ("deepspeed-training", ds(zero_optimisation={"stage": 3}), "TW224", "zero_optimization"),
    # mpirun
    "-np 32 as one element": ("nccl-training", command("mpirun", "-np 32", *HOSTS, "python", "t.py"), "TW405", "['-np', '32']"),
    "- -np 32": ("nccl-training", command("mpirun", "- -np 32", *HOSTS, "python", "t.py"), "TW405", "['-np', '32']"),
    "-x as one element": ("nccl-training", command("mpirun", "-x NCCL_DEBUG=INFO", *HOSTS, "python", "t.py"), "TW405", "['-x', "),
    "a split line": ("nccl-training", command("mpirun", *HOSTS, "python", "t.py", "--epochs 10"), "TW405", "['--epochs', '10']"),
    "more ranks than slots": ("nccl-training", command("mpirun", "-np", "64", *HOSTS, "python", "t.py"), "TW420", "32 slots"),
    "another user for sshd": (
        "nccl-training", {"overrides": {"pod": {"worker": {"securityContext": {"runAsUser": 2000}}}}}, "TW601", "security.user",
    ),
    "fewer ranks than slots": ("nccl-training", command("mpirun", "-np", "4", *HOSTS, "python", "t.py"), "TW423", "28 of 32"),
    "variables that stay behind": ("nccl-training", command("mpirun", *HOSTS, "python", "t.py"), "TW423", "NCCL_DEBUG"),
    "a launcher that cannot wait": ("nccl-training", command("mpirun", *HOSTS, "python", "t.py"), "TW423", "gang"),
    "workers that stay": ("nccl-training", patched(*MPI, {"runPolicy": {"cleanPodPolicy": "None"}}), "TW601", "GPUs"),
    # TrainJob
    "as many ranks as CPUs": ("sdk-train", command("torchrun", "--nproc_per_node=cpu", "train.py"), "TW411", "2"),
    "auto in the object": (
        "sdk-train", patched("train-job", "TrainJob", {"trainer": {"numProcPerNode": "auto"}}), "TW601", "topology",
    ),
    "a variable of the operator": ("sdk-train", env(PET_NPROC_PER_NODE="auto"), "TW403", "PET_NPROC_PER_NODE"),
    "elastic TrainJob": (
        "sdk-train", {"topology": {"elastic": {"min_nodes": 2, "max_nodes": 4}}}, "TW401", "target: pytorch-job",
    ),
    # XGBoost
    "no tracker": ("xgboost-dist", {**command("python", "train.py")}, "TW421", "RabitTracker"),
    # Ray
    "a cluster that stays": ("ray-train", patched("ray-job", "RayJob", {"shutdownAfterJobFinishes": False}), "TW601", "GPUs"),
    "quotes": ("ray-train", command("python", "t.py", "--config", '{"lr": 1}'), "TW424", "shell"),
    "no release": ("ray-train", {"image": NO_DIGEST_TAG}, "TW426", "topology.version"),
    # spot
    "a grace by hand": ("spot-resnet", {"overrides": {"pod": {"node": {"terminationGracePeriodSeconds": 10}}}}, "TW601", "grace"),
    "spot without checkpoints": (
        "spot-resnet", {"mounts": None, "checkpoints": None, **script("python", "train.py")}, "TW453", "reclaimed",
    ),
    # NCCL
    "a prefix of adapters": ("roce-tuning", env(NCCL_IB_HCA="mlx5"), "TW403", "=mlx5_0"),
    "an address that is known": ("roce-tuning", env(NCCL_IB_GID_INDEX="3"), "TW416", "gid_index"),
    "buffers": ("roce-tuning", env(NCCL_BUFFSIZE="8388608"), "TW408", "4 MiB"),
    "threads": ("roce-tuning", env(NCCL_NTHREADS="512"), "TW408", "default"),
    "algorithms": ("roce-tuning", env(NCCL_ALGO="Ring,Tree"), "TW408", "no fallback"),
    "subsystems alone": ("roce-tuning", env(NCCL_DEBUG=None, NCCL_DEBUG_SUBSYS="ALL"), "TW408", "NCCL_DEBUG=INFO"),
    "a name of old": ("roce-tuning", env(NCCL_MIN_NRINGS="4"), "TW408", "NCCL_MIN_CTAS"),
    "a threshold that is gone": ("roce-tuning", env(NCCL_TREE_THRESHOLD="0"), "TW407", "2.5"),
    "a timeout that nobody reads": ("roce-tuning", env(NCCL_TIMEOUT="3600"), "TW407", "init_process_group"),
    "an algorithm that is none": ("roce-tuning", env(NCCL_ALGO="Ring,Treee"), "TW413", "tree"),
}

PROFILES: dict[str, Data] = {
    "a container of the operator": {"operators": {"training-operator": {"restricted_containers": False}}},
}
"""Changes of the cluster that go with a mistake."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_explained(mistake: str) -> None:
    name, change, code, word = MISTAKES[mistake]
    before = {finding.code for finding in said(name, {})}
    found = [finding for finding in said(name, change, PROFILES.get(mistake)) if finding.code == code]
    assert any(word in f"{finding.message}; {finding.fix}" for finding in found), [str(finding) for finding in found]
    assert code not in before or code == "TW408", "the run as it is committed has it already"


@pytest.mark.parametrize("mistake", ["plain python with 8 GPUs", "no tracker", "a launcher that cannot wait"])
def test_warnings_do_not_stop_those_who_know_better(mistake: str) -> None:
    name, change, code, _ = MISTAKES[mistake]
    waiver = {"code": code, "reason": "the program does it itself", "expires": "2026-12-31"}
    findings = [finding for finding in said(name, {**change, "waivers": [waiver]}) if finding.code == code]
    assert findings
    assert all(finding.waived for finding in findings)


def test_70b_under_ddp_comes_with_what_fits() -> None:
    change = {"topology": {"kind": "ddp", "nodes": 4, "gpus_per_node": 8}}
    (finding,) = (finding for finding in said("llama-finetune", change) if finding.code == "TW220")
    assert "80.0 GiB" in finding.message
    assert "kind: zero3" in finding.fix
    assert "GiB" in finding.fix, "how much it then takes"


def test_a_slow_claim_does_not_fit_the_notice_of_spot_nodes() -> None:
    slow = {"namespaces": {"training": {"claims": {"training-checkpoints": {"write_mebibytes_per_second": 100}}}}}
    assert "TW236" not in {finding.code for finding in said("spot-resnet", {"workload": {"model": VIT}})}
    (finding,) = (finding for finding in said("spot-resnet", {"workload": {"model": VIT}}, slow) if finding.code == "TW236")
    assert "ends 2 min after its notice" in finding.message


def test_plain_python_is_right_where_the_operator_numbers_single_processes() -> None:
    change = {**command("python", "/app/train.py"), "topology": {"gpus_per_node": 1}}
    assert "TW450" not in {finding.code for finding in said("gang-scheduled-training", change)}


@pytest.mark.parametrize("words", [
    ("torchrun", "t.py"), ("python", "-m", "torch.distributed.run", "t.py"), ("bash", "-c", "exec torchrun t.py"),
    ("deepspeed", "--no_ssh", "--hostfile=/hosts", "--node_rank=$(PET_NODE_RANK)", "t.py"),
    ("srun", "python", "t.py"), ("/app/start.sh",),
])  # fmt: skip
def test_launchers_are_known(words: tuple[str, ...]) -> None:
    assert "TW450" not in {finding.code for finding in said("deepspeed-training", command(*words))}
