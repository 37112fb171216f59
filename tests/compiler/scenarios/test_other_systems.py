"""Runs of TensorFlow, Horovod, XGBoost and Ray: what each states is in its objects, and right where the usual copy is wrong."""

from __future__ import annotations

import shlex

import pytest
from tests.compiler.scenarios.committed import mount, pods_of, run, the, volume


@pytest.mark.parametrize(("name", "workers", "gpus"), [("resnet-train", 3, "8"), ("tensorflow-distributed", 2, "1")])
def test_tensorflow_runs_on_a_chief_and_workers(name: str, workers: int, gpus: str) -> None:
    job, made = the(name, "TFJob"), pods_of(name)
    # No evaluator: it would be in TF_CONFIG's cluster, and the strategy waits for every task there (tensorflow#46169).
    assert {role: len(pods) for role, pods in made.items()} == {"chief": 1, "worker": workers}
    # By default nothing is restarted (Never), and pods keep their GPUs when the run has ended (None).
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
    assert job["spec"]["runPolicy"]["backoffLimit"] == 3
    assert job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == 1 + workers
    assert "enableDynamicWorker" not in job["spec"], "each pod would be told of itself only"
    for replicas in job["spec"]["tfReplicaSpecs"].values():
        assert replicas["restartPolicy"] == "ExitCode"
    for pod in [*made["chief"], *made["worker"]]:
        # The operator sets TF_CONFIG in the container of this name and in no other.
        assert pod.container["name"] == "tensorflow"
        assert "TF_CONFIG" not in {entry["name"] for entry in pod.container["env"]}
        assert pod.container["resources"]["limits"]["nvidia.com/gpu"] == gpus
        assert {port["name"]: port["containerPort"] for port in pod.container["ports"]}["tfjob-port"] == 2222
        assert mount(pod, "/dev/shm")
        assert volume(pod, "shm")["emptyDir"]["medium"] == "Memory"
        assert mount(pod, "/checkpoints")


def test_resnet_train_grows_its_memory() -> None:
    for pods in pods_of("resnet-train").values():
        assert all(pod.environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true" for pod in pods)
    batch = run("resnet-train").plan.batch
    assert batch is not None
    assert batch.ranks == 32, "a process a node, and a replica of the model on each of its 8 GPUs"


def test_tensorflow_distributed_fits_and_backs_up() -> None:
    for pods in pods_of("tensorflow-distributed").values():
        for pod in pods:
            assert pod.container["resources"]["limits"]["memory"] == "16Gi"
            # Keras 3 has no fit under MultiWorkerMirroredStrategy (keras-team/keras#20585).
            assert pod.environment["TF_USE_LEGACY_KERAS"] == "1"
    spec = run("tensorflow-distributed").resolution.spec
    assert spec is not None
    *_, program = spec.work.model_dump()["command"]
    assert '--backup-dir "$TRAINWRIGHT_CHECKPOINT_DIRECTORY/' in program, "in the folder of this identity alone"


def test_nccl_training_starts_32_ranks_by_one_mpirun() -> None:
    job, made = the("nccl-training", "MPIJob"), pods_of("nccl-training")
    assert job["apiVersion"] == "kubeflow.org/v2beta1"
    assert job["spec"]["slotsPerWorker"] == 8, "the operator counts no GPUs"
    assert job["spec"]["runPolicy"]["cleanPodPolicy"] == "Running", "by default workers keep their GPUs (mpi-operator#297)"
    assert {role: len(pods) for role, pods in made.items()} == {"launcher": 1, "worker": 4}
    words = made["launcher"][0].container["command"]
    mpirun = words[words.index("mpirun") :]
    assert mpirun[mpirun.index("-np") + 1] == "32"
    assert mpirun[mpirun.index("btl_tcp_if_include") + 1] == "eth0"
    # One element is one argument: mpirun takes "-np 32" for an option that it does not know. ssh's own options are one argument.
    assert [word for word in mpirun if " " in word] == [mpirun[mpirun.index("plm_rsh_args") + 1]]
    assert mpirun[-6:] == ["python", "/app/train.py", "--epochs", "10", "--batch-size", "64"]
    forwarded = {mpirun[index + 1] for index, word in enumerate(mpirun) if word == "-x"}
    assert forwarded >= {"NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "LD_LIBRARY_PATH", "PATH", "TRAINWRIGHT_SPEC"}


def test_nccl_training_has_a_launcher_with_resources_and_no_gpu() -> None:
    made = pods_of("nccl-training")
    launcher = made["launcher"][0]
    assert launcher.container["resources"]["limits"] == {"cpu": "1", "memory": "2Gi"}
    assert launcher.environment["NCCL_DEBUG"] == "INFO"
    assert launcher.environment["NCCL_SOCKET_IFNAME"] == "eth0"
    assert launcher.environment["LD_LIBRARY_PATH"] == "/usr/local/cuda/lib64"
    for worker in made["worker"]:
        assert worker.container["resources"]["limits"]["nvidia.com/gpu"] == "8"
        # The non-root recipe of mpi-operator (build/base): sshd of user 1000, with the keys in its home.
        assert "/usr/sbin/sshd" in worker.container["command"]
        assert worker.spec["securityContext"]["runAsNonRoot"] is True
        assert volume(worker, "shm")["emptyDir"]["medium"] == "Memory"
    job = the("nccl-training", "MPIJob")
    assert job["spec"]["sshAuthMountPath"] == "/home/mpiuser/.ssh"
    # A gang counts the launcher, so it cannot wait for its workers.
    assert job["spec"]["launcherCreationPolicy"] == "AtStartup"
    assert job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == 5


def test_xgboost_dist_has_somebody_who_starts_the_tracker() -> None:
    plan, job, made = run("xgboost-dist").plan, the("xgboost-dist", "XGBoostJob"), pods_of("xgboost-dist")
    assert job["spec"]["xgbReplicaSpecs"]["Master"]["replicas"] == 1, "the webhook wants it written"
    assert {role: len(pods) for role, pods in made.items()} == {"master": 1, "worker": 3}
    spec = run("xgboost-dist").resolution.spec
    assert spec is not None
    # The operator sets RANK and no DMLC_*: the supervisor of the pod with index 0 starts the tracker at this address.
    assert spec.world.rendezvous.model_dump() == {"kind": "dmlc-tracker", "host": f"{plan.name}-master-0", "port": 29500}
    assert spec.world.node_index_env == "RANK"
    assert [pod.environment["RANK"] for pod in (*made["master"], *made["worker"])] == ["0", "1", "2", "3"]
    for pod in (*made["master"], *made["worker"]):
        assert pod.container["name"] == "xgboost"
        assert pod.container["command"] == ["trainwright-trainer", "supervise"]


def test_xgboost_trainjob_gets_the_trackers_variables() -> None:
    plan, nodes = run("xgboost-trainjob").plan, pods_of("xgboost-trainjob")["node"]
    assert the("xgboost-trainjob", "TrainingRuntime")["spec"]["mlPolicy"]["xgboost"] == {}
    assert [node.environment["DMLC_TASK_ID"] for node in nodes] == ["0", "1", "2", "3"]
    assert {node.environment["DMLC_TRACKER_URI"] for node in nodes} == {plan.rendezvous.host}
    for node in nodes:  # the operator's webhook refuses a TrainJob that sets them
        assert not any(entry["name"].startswith("DMLC_") for entry in node.container["env"])


def test_ray_train_gives_its_gpus_back() -> None:
    job, result = the("ray-train", "RayJob"), run("ray-train")
    assert job["spec"]["shutdownAfterJobFinishes"] is True, "the cluster would keep its GPUs"
    assert "ttlSecondsAfterFinished" not in job["spec"]
    # A shell takes the entrypoint apart again.
    assert tuple(shlex.split(job["spec"]["entrypoint"])) == result.resolution.processes["head"].command
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["enableInTreeAutoscaling"] is False, "Argo CD would undo an autoscaler (kuberay #4149)"
    assert cluster["rayVersion"] == "2.60.0"
    start = cluster["headGroupSpec"]["rayStartParams"]
    assert (start["num-cpus"], start["num-gpus"]) == ("0", "0"), "nothing but the driver runs on the head"
    assert not any("/checkpoints" in word for word in result.resolution.processes["head"].command), "the folder of all identities"
    (group,) = cluster["workerGroupSpecs"]
    assert group["replicas"] == group["minReplicas"] == group["maxReplicas"] == 2
    container = group["template"]["spec"]["containers"][0]
    # The operator reads GPUs from limits alone.
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert group["rayStartParams"]["num-gpus"] == "4"
    head = cluster["headGroupSpec"]["template"]["spec"]
    assert "nvidia.com/gpu" not in head["containers"][0]["resources"]["limits"]
    # The operator mounts shared memory itself, and a second mount of its path would be refused.
    for pod in (head, group["template"]["spec"]):
        assert not any(entry["mountPath"] == "/dev/shm" for entry in pod["containers"][0]["volumeMounts"])
