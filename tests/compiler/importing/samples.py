"""Manifests as people write them, one or two of each kind, all written for these tests."""

from __future__ import annotations

import textwrap

POD = """
containers:
- name: {name}
  image: registry.example.com/team/train:1.2
  command: [{command}]
  resources: {{limits: {{cpu: 4, memory: 16Gi}}}}
"""


def pod(indent: int, name: str = "main", command: str = "python, /app/train.py", more: str = "") -> str:
    """The spec of a pod, at a depth."""
    return textwrap.indent(POD.format(name=name, command=command) + more, " " * indent)


def replica(role: str, count: int, name: str, command: str, more: str = "") -> str:
    return f"    {role}:\n      replicas: {count}\n      template:\n        spec:{pod(10, name, command, more)}"


PYTORCH = """\
# Fine-tunes the small model.
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: small-model
  namespace: nlp
  labels:
    team: language
    kueue.x-k8s.io/queue-name: research  # shared with the others
spec:
  runPolicy: {backoffLimit: 9, activeDeadlineSeconds: 86400, ttlSecondsAfterFinished: 60}
  pytorchReplicaSpecs:
    Master: &pods
      replicas: 1
      template:
        metadata: {labels: {app: small-model}}
        spec:
          nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}
          tolerations:
          - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
          dnsConfig: {searches: [example.com]}
          containers:
          - name: pytorch
            image: registry.example.com/nlp/train:2.1
            command: [torchrun, --nproc_per_node=8, --nnodes=3, /scripts/train.py]
            env:
            # NCCL is quiet by default.
            - {name: NCCL_DEBUG, value: INFO}
            - {name: HF_TOKEN, value: hf_abcdefghijklmnopqrstuvwxyz012345}
            resources:
              limits: {cpu: 96, memory: 900Gi, nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32}
            volumeMounts:
            - {name: shm, mountPath: /dev/shm}
            - {name: scripts, mountPath: /scripts}
            - {name: data, mountPath: /data, readOnly: true}
          volumes:
          - {name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}
          - {name: scripts, configMap: {name: small-model-scripts}}
          - {name: data, persistentVolumeClaim: {claimName: corpus}}
    Worker:
      replicas: 2
      template:
        metadata: {labels: {app: small-model}}
        spec:
          nodeSelector: {node.kubernetes.io/instance-type: p5.48xlarge}
          tolerations:
          - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
          dnsConfig: {searches: [example.com]}
          containers:
          - name: pytorch
            image: registry.example.com/nlp/train:2.1
            command: [torchrun, --nproc_per_node=8, --nnodes=3, /scripts/train.py]
            env:
            - {name: NCCL_DEBUG, value: INFO}
            - {name: HF_TOKEN, value: hf_abcdefghijklmnopqrstuvwxyz012345}
            resources:
              limits: {cpu: 96, memory: 900Gi, nvidia.com/gpu: 8, vpc.amazonaws.com/efa: 32}
            volumeMounts:
            - {name: shm, mountPath: /dev/shm}
            - {name: scripts, mountPath: /scripts}
            - {name: data, mountPath: /data, readOnly: true}
          volumes:
          - {name: shm, emptyDir: {medium: Memory, sizeLimit: 64Gi}}
          - {name: scripts, configMap: {name: small-model-scripts}}
          - {name: data, persistentVolumeClaim: {claimName: corpus}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: small-model-scripts, namespace: nlp}
data:
  train.py: |
    import torch
    print(torch.__version__)
"""

PYTORCH_AS_A_RUN = """\
# Fine-tunes the small model.
run: small-model
team: language
namespace: nlp
cluster: imported
target: pytorch-job
# shared with the others
queue: research
image: registry.example.com/nlp/train:2.1
topology: {kind: ddp, nodes: 3, gpus_per_node: 8}
workload: {kind: command, command: [torchrun, --nproc_per_node=8, --nnodes=3, /scripts/train.py]}
env:
  # NCCL is quiet by default.
  NCCL_DEBUG: INFO
  HF_TOKEN: {secret: small-model-secrets, key: HF_TOKEN}
files:
  /scripts/train.py: |
    import torch
    print(torch.__version__)
file_folders: [/scripts]
mounts: {/data: {claim: corpus, read_only: true}}
resources: {cpu: 96, memory: 900Gi, shared_memory: 64Gi}
restarts: 2
deadline: 1d
pod_labels: {app: small-model}
labels: {team: language}
overrides:
  pod:
    master: {dnsConfig: {searches: [example.com]}}
    worker: {dnsConfig: {searches: [example.com]}}
"""

JOB = f"""\
apiVersion: batch/v1
kind: Job
metadata: {{generateName: sweep-}}
spec:
  completions: 4
  parallelism: 4
  completionMode: Indexed
  backoffLimit: 2
  template:
    spec:{pod(6, more='''
initContainers:
- {name: fetch, image: "busybox:1.36", command: [wget, "http://example.com/data"]}
restartPolicy: Never
''')}"""

JOB_SET = f"""\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: with-evaluator}}
spec:
  replicatedJobs:
  - name: trainers
    template:
      spec:
        completions: 2
        parallelism: 2
        template:
          spec:{pod(12, command="torchrun, /app/train.py")}
  - name: evaluator
    template:
      spec:
        template:
          spec:{pod(12, "eval", "python, /app/eval.py")}"""

MPI = f"""\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: all-reduce}}
spec:
  slotsPerWorker: 4
  mpiReplicaSpecs:
{replica("Launcher", 1, "launch", 'mpirun, -np, "8", /app/all_reduce')}
{replica("Worker", 2, "work", "/usr/sbin/sshd, -De")}"""

TF = f"""\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {{name: wide-and-deep}}
spec:
  tfReplicaSpecs:
{replica("Chief", 1, "tensorflow", "python, /app/train.py")}
{replica("PS", 2, "tensorflow", "python, /app/train.py")}
{replica("Worker", 3, "tensorflow", "python, /app/train.py")}"""

XGBOOST = f"""\
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata: {{name: trees}}
spec:
  xgbReplicaSpecs:
{replica("Master", 1, "xgboost", "python, /app/train.py")}
{replica("Worker", 2, "xgboost", "python, /app/train.py")}"""

TRAIN_JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: on-a-runtime}
spec:
  runtimeRef: {name: our-torch}
  trainer:
    numNodes: 2
    command: [torchrun, /app/train.py]
    env: [{name: LEVEL, value: info}]
    resourcesPerNode: {limits: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: our-torch}
spec:
  mlPolicy: {numNodes: 1, torch: {numProcPerNode: 4}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec:
                containers:
                - {name: node, image: "registry.example.com/team/torch:2.9", workingDir: /app}
"""

RAY = """\
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: tuned}
spec:
  entrypoint: |
    python -c "
    import ray
    ray.init()
    print(ray.cluster_resources())
    "
  rayClusterSpec:
    rayVersion: 2.52.0
    headGroupSpec:
      rayStartParams: {}
      template: {spec: {containers: [{name: ray-head, image: "rayproject/ray:2.52.0"}]}}
    workerGroupSpecs:
    - groupName: gpus
      replicas: 2
      rayStartParams: {}
      template:
        spec:
          containers:
          - {name: ray-worker, image: "rayproject/ray:2.52.0", resources: {limits: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}}}
"""

VOLCANO = f"""\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: with-volcano}}
spec:
  minAvailable: 2
  schedulerName: volcano
  queue: training
  plugins: {{svc: [], env: []}}
  tasks:
  - name: trainer
    replicas: 2
    template:
      spec:{pod(8, command="torchrun, /app/train.py")}"""

SAMPLES = {
    "pytorch-job": PYTORCH, "indexed-job": JOB, "job-set": JOB_SET, "mpi-job": MPI, "tf-job": TF, "xgboost-job": XGBOOST,
    "train-job": TRAIN_JOB, "ray-job": RAY, "volcano-job": VOLCANO,
}  # fmt: skip
"""Target -> a manifest of its kind."""
