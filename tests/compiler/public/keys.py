"""What the keys of a manifest are in a run: rows of the page on manifests, each held against what the run compiles to."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """One key of a manifest."""

    there: str
    """Part of the manifest, as YAML: it stands in what the run compiles to, and in nothing without ``here``."""
    here: str
    """Part of the run."""
    target: str = ""
    """The run's target, where it is not a Job."""
    note: str = ""
    """What the page adds."""


IMAGE = "registry.example.com/tools/relay@sha256:" + "b" * 64
POOLS = "labels and taints are those of the pool in the profile"

KEYS: dict[str, tuple[Key, ...]] = {
    "The object": (
        Key("metadata: {labels: {example.com/bill: a}}", "labels: {example.com/bill: a}"),
        Key("metadata: {annotations: {example.com/bill: a}}", "annotations: {example.com/bill: a}"),
        Key("metadata: {labels: {kueue.x-k8s.io/queue-name: training}}", "queue: training"),
        Key("completions: 3", "topology: {nodes: 3}"),
        Key("parallelism: 3", "topology: {nodes: 3}"),
        Key("backoffLimitPerIndex: 5", "restarts: 5", note="on other targets for the whole run"),
        Key("podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [3]}}]}",
            "exit_codes: [{means: fail, codes: [3]}]", note="of a command"),
        Key("activeDeadlineSeconds: 172800", "deadline: 2d", note="of a script or a command"),
        Key("ttlSecondsAfterFinished: 86400", "ttl: 1d", note="of a script or a command; Argo CD then runs it again"),
    ),
    "The pod": (
        Key("metadata: {labels: {example.com/net: a}}", "pod_labels: {example.com/net: a}"),
        Key("metadata: {annotations: {example.com/net: a}}", "pod_annotations: {example.com/net: a}"),
        Key("nodeSelector: {node.kubernetes.io/instance-type: h100x8-spot}", "node_pool: h100-spot", note=POOLS),
        Key("tolerations: [{key: example.com/spot, value: 'true'}]", "node_pool: h100-spot", note=POOLS),
        Key("tolerations: [{key: example.com/a, operator: Exists}]",
            "overrides: {pod: {node: {tolerations: [{key: example.com/a, operator: Exists}]}}}", note="of this run alone"),
        Key("nodeSelectorTerms: [{matchExpressions: [{key: example.com/disk, operator: In, values: [nvme]}]}]",
            "node_affinity: {required: [{key: example.com/disk, operator: In, values: [nvme]}]}"),
        Key("podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "[{labelSelector: {matchLabels: {app: cache}}, topologyKey: example.com/rack}]}",
            "pod_affinity: {required: [{labels: {app: cache}, topology_key: example.com/rack}]}"),
        Key("podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "[{labelSelector: {matchLabels: {app: a}}, topologyKey: kubernetes.io/hostname}]}",
            "pod_anti_affinity: {required: [{labels: {app: a}, topology_key: kubernetes.io/hostname}]}"),
        Key("priorityClassName: training-high", "priority: training-high"),
        Key("schedulingGates: [{name: example.com/gate}]", "scheduling_gates: [example.com/gate]"),
        Key("runtimeClassName: nvidia", "runtime_class: nvidia"),
        Key("serviceAccountName: trainer", "service_account: trainer"),
        Key("imagePullSecrets: [{name: registry}]", "image_pull_secrets: [registry]"),
        Key("terminationGracePeriodSeconds: 300", "grace: 5m", note="of a script or a command"),
        Key("securityContext: {runAsUser: 1234}", "security: {user: 1234}"),
        Key("securityContext: {fsGroup: 4321}", "security: {fs_group: 4321}"),
        Key("initContainers: [{name: fetch}]",
            f"containers: [{{name: fetch, kind: init, image: '{IMAGE}', command: [fetch], cpu: 1, memory: 1Gi}}]"),
        Key("resourceClaims: [{name: channel, resourceClaimTemplateName: channels}]",
            "resource_claims: {channel: {template: channels}}"),
        Key("volumes: [{persistentVolumeClaim: {claimName: training-dataset}}]",
            "mounts: {/data: {claim: training-dataset, read_only: true}}"),
        Key("volumes: [{emptyDir: {sizeLimit: 100Gi}}]", "mounts: {/fast: {scratch: 100Gi}}"),
        Key("volumes: [{emptyDir: {medium: Memory, sizeLimit: 32Gi}}]", "resources: {shared_memory: 32Gi}"),
        Key("volumes: [{configMap: {name: settings}}]", "mounts: {/etc/app: {config_map: settings}}"),
        Key("volumes: [{secret: {secretName: keys}}]", "mounts: {/keys: {secret: keys}}"),
    ),
    "The container that trains": (
        Key(f"image: {IMAGE}", f"image: {IMAGE}"),
        Key("imagePullPolicy: Always", "image_pull_policy: Always"),
        Key("command: [torchrun, /app/other.py]", "workload: {kind: command, command: [torchrun, /app/other.py]}"),
        Key("args: [--config, a]", "workload: {kind: command, command: [torchrun, /app/train.py], args: [--config, a]}"),
        Key("workingDir: /app", "workload: {working_dir: /app}"),
        Key("env: [{name: LEVEL, value: info}]", "env: {LEVEL: info}"),
        Key("env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hugging-face, key: token}}}]",
            "env: {HF_TOKEN: {secret: hugging-face, key: token}}"),
        Key("env: [{name: LEVEL, valueFrom: {configMapKeyRef: {name: settings, key: level}}}]",
            "env: {LEVEL: {config_map: settings, key: level}}"),
        Key("env: [{name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]",
            "env: {NODE_NAME: {field: spec.nodeName}}"),
        Key("envFrom: [{secretRef: {name: store}}]", "env_from: [{secret: store}]"),
        Key("resources: {limits: {nvidia.com/gpu: 4}}", "topology: {gpus_per_node: 4}"),
        Key("resources: {limits: {cpu: 16}}", "resources: {cpu: 16}"),
        Key("resources: {limits: {memory: 64Gi}}", "resources: {memory: 64Gi}"),
        Key("resources: {requests: {cpu: 8}}", "resources: {cpu: none, requests: {cpu: 8}}"),
        Key("resources: {limits: {ephemeral-storage: 200Gi}}", "resources: {ephemeral_storage: 200Gi}"),
        Key("volumeMounts: [{mountPath: /data, readOnly: true}]", "mounts: {/data: {claim: training-dataset, read_only: true}}"),
        Key("ports: [{name: dashboard, containerPort: 8080}]", "ports: {dashboard: 8080}", note="of a script or a command"),
        Key("livenessProbe: {httpGet: {path: /well, port: 8080}}", "probes: {alive: {http: /well, port: 8080}}",
            note="of a command"),
        Key("lifecycle: {preStop: {exec: {command: [python, drain.py]}}}", "pre_stop: {command: [python, drain.py]}",
            note="of a command or a script"),
        Key("securityContext: {readOnlyRootFilesystem: true}", "security: {read_only_root: true}"),
    ),
    "Kinds of operators": (
        Key("pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 2}}", "topology: {nodes: 3}", "pytorch-job"),
        Key("elasticPolicy: {minReplicas: 1, maxReplicas: 4}", "topology: {elastic: {min_nodes: 1, max_nodes: 4}}",
            "pytorch-job"),
        Key("nprocPerNode: '4'", "topology: {gpus_per_node: 4}", "pytorch-job"),
        Key("trainer: {numNodes: 3}", "topology: {nodes: 3}", "train-job"),
        Key("failurePolicy: {maxRestarts: 5}", "{restarts: 5, recovery: whole-job}", "job-set"),
    ),
}  # fmt: skip
"""Part of a manifest -> its keys, in the order of a manifest."""


def key_tables() -> str:
    """For the page on manifests."""
    return "\n".join(f"### {title}\n\n{_table(rows)}" for title, rows in KEYS.items())


def _table(rows: tuple[Key, ...]) -> str:
    lines = ["| in a manifest | in a run | |", "| --- | --- | --- |"]
    for row in rows:
        said = "; ".join(part for part in (f"on {row.target}" if row.target else "", row.note) if part)
        lines.append(f"| `{row.there}` | `{row.here}` | {said} |".replace("b" * 64, "…"))
    return "\n".join(lines) + "\n"
