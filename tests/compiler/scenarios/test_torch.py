"""Runs of torch: what each states is in its objects, and what the usual copy of it gets wrong is right."""

from __future__ import annotations

import json

from tests.compiler.scenarios.committed import mount, pods_of, run, the, volume

FILE = "/etc/deepspeed/ds_config.json"


def test_bert_finetune_is_elastic_from_2_to_8_nodes() -> None:
    plan, job, workers = run("bert-finetune").plan, the("bert-finetune", "PyTorchJob"), pods_of("bert-finetune")["worker"]
    # Workers alone: with a master beside an elasticPolicy the rendezvous is full without it (kubeflow/trainer#2277).
    assert list(job["spec"]["pytorchReplicaSpecs"]) == ["Worker"]
    assert job["spec"]["nprocPerNode"] == "8"
    elastic = job["spec"]["elasticPolicy"]
    assert (elastic["minReplicas"], job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"], elastic["maxReplicas"]) == (2, 4, 8)
    assert "nProcPerNode" not in elastic, "the webhook refuses it beside nprocPerNode"
    # Otherwise the gang would need all four (kubeflow/trainer#1515).
    assert job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == 2
    for worker in workers:
        assert worker.environment["PET_NNODES"] == "2:8"
        assert worker.environment["PET_RDZV_BACKEND"] == "c10d"
        assert worker.environment["PET_RDZV_ENDPOINT"] == f"{plan.name}-worker-0:29500"
        assert worker.environment["NCCL_DEBUG"] == "INFO"
        assert worker.container["resources"]["limits"].items() >= {
            "memory": "256Gi", "nvidia.com/gpu": "8", "rdma/rdma_shared_device_a": "1",
        }.items()
        assert not any(word.startswith("--nnodes") for word in worker.container["command"])
        assert volume(worker, "shm")["emptyDir"]["medium"] == "Memory"
        assert mount(worker, "/dev/shm")
    assert plan.checkpoint is not None, "an elastic run starts its ranks again whenever nodes come or go"


def test_bert_finetune_keeps_its_batch_at_every_size() -> None:
    plan = run("bert-finetune").plan
    assert plan.batch is not None
    assert plan.elastic is not None
    assert (plan.batch.micro, plan.batch.ranks, plan.batch.effective) == (32, 32, 2048)
    assert [size.nodes for size in plan.elastic.sizes] == [2, 3, 4, 5, 6, 7, 8]
    assert {size.effective for size in plan.elastic.sizes} == {2048}
    assert {size.peak for size in plan.elastic.sizes} == {2e-5}


def test_supervisor_and_operator_agree_on_the_rendezvous() -> None:
    """The operator's rdzvConf goes into PET_RDZV_CONF, and the supervisor reads the specification."""
    spec, elastic = run("bert-finetune").resolution.spec, the("bert-finetune", "PyTorchJob")["spec"]["elasticPolicy"]
    assert spec is not None
    rendezvous = spec.world.rendezvous.model_dump()
    told = {entry["key"]: int(entry["value"]) for entry in elastic["rdzvConf"]}
    assert told == {
        "last_call_timeout": rendezvous["last_call_seconds"],
        "keep_alive_interval": rendezvous["keep_alive_seconds"],
        "keep_alive_max_attempt": rendezvous["keep_alive_attempts"],
    }
    assert elastic["maxRestarts"] == rendezvous["max_restarts"]


def test_resnet50_imagenet_has_a_master_and_three_workers() -> None:
    plan, job, made = run("resnet50-imagenet").plan, the("resnet50-imagenet", "PyTorchJob"), pods_of("resnet50-imagenet")
    assert {role: len(pods) for role, pods in made.items()} == {"master": 1, "worker": 3}
    # The webhook wants it written: nothing is defaulted before it (pytorchjob_webhook.go).
    assert job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] == 1
    everyone = [*made["master"], *made["worker"]]
    assert [pod.environment["PET_NODE_RANK"] for pod in everyone] == ["0", "1", "2", "3"]
    for pod in everyone:
        assert pod.container["resources"]["limits"].items() >= {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}.items()
        assert pod.environment["NCCL_SOCKET_IFNAME"] == "eth0"
        assert pod.labels["sidecar.istio.io/inject"] == "false"
        assert mount(pod, "/data")["readOnly"] is True
        assert volume(pod, "imagenet")["persistentVolumeClaim"] == {"claimName": "imagenet", "readOnly": True}
        assert volume(pod, "shm")["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
        # The node's WORLD_SIZE is the operator's; ranks get theirs from the supervisor.
        assert pod.container["command"] == ["trainwright-trainer", "supervise"]
    assert plan.checkpoint is not None
    assert plan.learning_rate is not None
    assert plan.learning_rate.peak == 0.01 * 4, "batch 32 of one GPU became 128 of four, and SGD's rate follows it"
    assert plan.learning_rate.warmup_steps > 0
    assert plan.duration is not None
    assert plan.duration.epochs == 10


def test_hostnetwork_ddp_has_ports_and_nodes_of_its_own() -> None:
    plan, made = run("hostnetwork-ddp").plan, pods_of("hostnetwork-ddp")
    for pod in [*made["master"], *made["worker"]]:
        assert pod.spec["hostNetwork"] is True
        assert pod.spec["dnsPolicy"] == "ClusterFirstWithHostNet", "the node's resolver knows no name of the cluster"
        (term,) = pod.spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        assert term["labelSelector"]["matchLabels"].items() <= pod.labels.items()
        ports = {port["name"]: port["containerPort"] for port in pod.container["ports"]}
        assert len(set(ports.values())) == 3
        assert all(20_000 <= port < 30_000 for port in ports.values()), "below NodePort services and outgoing connections"
        assert pod.environment["MASTER_PORT"] == str(ports["pytorchjob-port"]) == str(plan.rendezvous.port)
        # On the node's network a pod sees the node's interfaces: its own eth0 is not there.
        assert pod.environment["NCCL_SOCKET_IFNAME"] == "bond0"


def test_gang_scheduled_training_has_the_keys_that_volcano_reads() -> None:
    result, job = run("gang-scheduled-training"), the("gang-scheduled-training", "PyTorchJob")
    # The operator makes the PodGroup, where its flag says so; one of ours beside it would be a second.
    assert not [manifest for manifest in result.manifests if manifest["kind"] == "PodGroup"]
    assert result.cluster.operators["training-operator"].gang_scheduler == "volcano"
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == {
        "minAvailable": 8, "queue": "research", "priorityClass": "training-high",
    }
    assert "schedulerName" not in job["spec"], "no field of the kind"
    for replicas in job["spec"]["pytorchReplicaSpecs"].values():
        assert replicas["template"]["spec"]["schedulerName"] == "volcano"
        assert not any("pod-group" in key for key in replicas["template"]["metadata"]["labels"])


def test_llama_finetune_shares_70b_over_32_gpus() -> None:
    plan, nodes = run("llama-finetune").plan, pods_of("llama-finetune")["node"]
    assert plan.topology == "ZeRO-3 (DeepSpeed)"
    assert plan.batch is not None
    assert (plan.batch.micro, plan.batch.accumulation, plan.batch.ranks, plan.batch.effective) == (4, 8, 32, 1024)
    assert plan.learning_rate is not None
    assert plan.learning_rate.peak == 2e-5
    assert plan.duration is not None
    assert plan.duration.epochs == 3
    assert plan.memory is not None
    assert plan.memory.high < plan.memory.limit
    assert len(nodes) == 4
    for node in nodes:
        assert node.container["resources"]["limits"].items() >= {
            "nvidia.com/gpu": "8", "rdma/rdma_shared_device_a": "1",
        }.items()
        assert node.container["resources"]["requests"] == node.container["resources"]["limits"]
        assert volume(node, "shm")["emptyDir"]["sizeLimit"] == "64Gi"
        assert mount(node, "/data")["readOnly"] is True
        assert mount(node, "/checkpoints")
        assert not any(entry["name"] == "JOB_COMPLETION_INDEX" for entry in node.container["env"]), "the Job controller sets it"
    # 2Ti, as this is often seen, hold two checkpoints of a 70B model; three are kept, and a fourth is written beside them.
    claim = run("llama-finetune").cluster.namespaces["training"].claims["training-checkpoints"]
    assert (claim.storage_class, str(claim.size), claim.access) == ("nfs-csi", "4Ti", "ReadWriteMany")


def test_llama_finetune_finds_rank_0_and_fails_as_a_whole() -> None:
    plan, job, service = run("llama-finetune").plan, the("llama-finetune", "Job"), the("llama-finetune", "Service")
    # Names resolve before pods are ready, for pods whose subdomain is the Service's name (kubernetes, DNS for Services and Pods).
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert (plan.rendezvous.kind, plan.rendezvous.host) == ("static", f"{plan.name}-0.{plan.name}")
    assert (job["spec"]["completionMode"], job["spec"]["completions"], job["spec"]["parallelism"]) == ("Indexed", 4, 4)
    # A Job-wide backoffLimit counts each pod of one incident, and delays them by powers of two.
    assert "backoffLimit" not in job["spec"]
    assert job["spec"]["backoffLimitPerIndex"] == 3
    assert job["spec"]["maxFailedIndexes"] == 0
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never", "podFailurePolicy asks for it"
    assert not any("pod-group" in key for key in job["spec"]["template"]["metadata"]["labels"])
    assert "suspend" not in job["spec"]
    assert "ttlSecondsAfterFinished" not in job["spec"]


def test_deepspeed_training_delivers_its_file_and_finds_rank_0() -> None:
    plan, nodes = run("deepspeed-training").plan, pods_of("deepspeed-training")["node"]
    assert the("deepspeed-training", "Service")["spec"]["publishNotReadyAddresses"] is True
    config = the("deepspeed-training", "ConfigMap")
    for node in nodes:
        mounted = mount(node, FILE)
        settings = json.loads(config["data"][mounted["subPath"]])
        assert settings["train_batch_size"] == 128
        assert settings["train_micro_batch_size_per_gpu"] * settings["gradient_accumulation_steps"] * plan.world.size == 128
        assert settings["fp16"] == {"enabled": True}
        assert settings["gradient_clipping"] == 1.0
        assert settings["zero_optimization"] == {
            "stage": 3, "overlap_comm": True, "contiguous_gradients": True, "reduce_bucket_size": 500_000_000,
            "stage3_prefetch_bucket_size": 500_000_000, "stage3_param_persistence_threshold": 1_000_000,
        }
        assert node.environment["PET_MASTER_ADDR"] == f"{plan.name}-0.{plan.name}"
        assert node.environment["PET_NODE_RANK"] == str(node.index)
        assert (node.environment["PET_NNODES"], node.environment["PET_NPROC_PER_NODE"]) == ("4", "8")
    assert len(nodes) == 4


def test_sdk_train_states_its_trainer() -> None:
    for name, nodes, gpus in (("sdk-train", 4, 2), ("sdk-train-one-node", 1, 4)):
        job, runtime, pods = the(name, "TrainJob"), the(name, "TrainingRuntime"), pods_of(name)["node"]
        # Without `trainer` the operator sets no variable; with "auto" it may count CPUs (trainer pkg/runtime/…/torch.go).
        assert job["spec"]["trainer"]["numNodes"] == nodes == len(pods)
        assert job["spec"]["trainer"]["numProcPerNode"] == gpus
        assert job["spec"]["trainer"]["resourcesPerNode"]["limits"]["nvidia.com/gpu"] == str(gpus)
        assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
        template = runtime["spec"]["template"]["spec"]
        assert [replicated["name"] for replicated in template["replicatedJobs"]] == ["node"]
        containers = template["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
        assert [container["name"] for container in containers] == ["node"]
        assert "subdomain" not in template["network"], "the operator's address of rank 0 would be wrong"
        assert "ttlSecondsAfterFinished" not in template, "the operator makes a deleted JobSet again (trainer #3779)"
        # Kueue reads the queue on the object that carries the run, and on nothing below it (kueue #2612).
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
        assert all("kueue.x-k8s.io/queue-name" not in pod.labels for pod in pods)
        assert "suspend" not in job["spec"]
