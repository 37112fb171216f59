"""Random runs of every topology, on every target that carries it."""

from __future__ import annotations

import string
from functools import cache
from math import ceil
from pathlib import PurePosixPath
from typing import Any

from hypothesis import strategies as st
from tests.compiler.drawn_topologies import Shape, shapes
from tests.compiler.drawn_words import DIGEST, REGISTRY, label_maps, labels, spelled, texts
from tests.compiler.targets import BY_MPIRUN, CASES

from trainwright.operators import TARGETS

Data = dict[str, Any]

ENDED_BY_ONE_TASK = (*BY_MPIRUN, "parameter-server")
"""Shapes that a Volcano Job ends with one task, so that no other can be waited for."""


def role_of(shape: Shape) -> str:
    """A role that the run has for certain."""
    if shape.topology.get("chief"):
        return "chief"
    return "worker" if shape.name == "elastic" else next(iter(CASES[shape.target].roles_of(shape.name)))


@st.composite
def _optimizers(draw: st.DrawFn) -> Data:
    if draw(st.booleans()):
        return {"kind": "adamw", "betas": [0.9, draw(st.sampled_from((0.95, 0.999)))]}
    return {"kind": "sgd", "momentum": draw(st.sampled_from((0, 0.9)))}


def _metrics(pictures: bool) -> st.SearchStrategy[list[Data]]:
    wandb = st.fixed_dictionaries(
        {"to": st.just("wandb"), "project": st.sampled_from(("vision", "a b/c"))},
        optional={"entity": st.just("Labor ü"), "mode": st.sampled_from(("online", "offline"))},
    )
    one = wandb if pictures else st.one_of(st.just({"to": "tensorboard"}), wandb)
    return st.lists(one, max_size=2, unique_by=lambda sink: sink["to"])


@st.composite
def _trainers(draw: st.DrawFn, pictures: bool) -> Data:
    """Our trainer's work; of engine tensorflow pictures only."""
    work: Data = {"kind": "trainer"}
    blocks = draw(st.integers(1, 4))
    if pictures or draw(st.booleans()):
        work |= {
            "task": "image-classification",
            "data": {"source": "digits", "held_out": draw(st.sampled_from((0.1, 0.2)))},
            "model": {
                "architecture": "vit",
                "image_size": 8,
                "patch_size": 2,
                "num_channels": 1,
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": blocks,
                "num_attention_heads": 4,
                "num_labels": 10,
            },
        }
    else:
        work |= {
            "task": "causal-lm",
            "data": draw(st.sampled_from((
                {"source": "python-stdlib", "sequence_length": 64},
                {"source": "tokens", "path": "/checkpoints/tokens", "sequence_length": 64, "dtype": "uint32", "vocabulary": 256},
            ))),
            "model": {"architecture": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                      "num_hidden_layers": blocks, "num_attention_heads": 4},
        }  # fmt: skip
    work["optimizer"] = draw(_optimizers())
    work |= draw(
        st.one_of(
            st.fixed_dictionaries({"epochs": st.floats(0.1, 100)}),
            st.fixed_dictionaries({"steps": st.integers(1, 10**6)}),
        )
    )
    work |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "precision": st.sampled_from(("fp32", "bf16")),
                "schedule": st.sampled_from(("constant", "linear", "cosine", "wsd")),
                "clip_norm": st.one_of(st.none(), st.floats(0.1, 10)),
                "seed": st.integers(0, 2**53),
                "activation_checkpointing": st.booleans(),
                "compile": st.booleans(),
                "skip_non_finite": st.integers(1, 100),
                "skip_unreadable": st.integers(0, 100),
                "metrics": _metrics(pictures),
            },
        )
    )
    return work


def _boosting() -> st.SearchStrategy[Data]:
    return st.fixed_dictionaries(
        {
            "kind": st.just("boosting"),
            "booster": st.just({"objective": "binary:logistic", "max_depth": 8}),
            "data": st.just({"source": "table", "format": "parquet", "path": "/checkpoints/table", "label": "fraud"}),
            "rounds": st.integers(1, 10**6),
        },
        optional={"seed": st.integers(0, 2**53), "evaluation_metrics": st.just(["auc"])},
    )


def _names_a_program(words: list[str]) -> bool:
    """Whether the first is one: neither a line of several words nor what only a shell understands (TW405, TW414)."""
    return bool(words[0]) and not {" ", "="} & set(words[0]) and words[0] != "."


def _scripts() -> st.SearchStrategy[Data]:
    words = st.lists(texts(), min_size=1, max_size=4).filter(_names_a_program)
    training = st.fixed_dictionaries({
        "model": st.fixed_dictionaries({"architecture": st.just("other"), "parameters": st.integers(1, 10**7)}),
        "precision": st.sampled_from(("fp32", "bf16")),
        "optimizer": _optimizers(),
    }, optional={"sequence_length": st.integers(1, 4096), "activation_checkpointing": st.booleans()})
    said: dict[Any, st.SearchStrategy[Any]] = {
        "protocol": st.booleans(), "training": training, "resume_from": st.just("/checkpoints/earlier"),
    }
    return st.fixed_dictionaries({"kind": st.just("script"), "command": words}, optional=said)


def _commands(shape: Shape) -> st.SearchStrategy[Data]:
    # two shells read a Ray job's entrypoint, so it must be plain
    plain = spelled(string.ascii_letters + string.digits + "_-./:=,", shortest=1)
    words = st.lists(plain if shape.name == "ray" else texts(), min_size=1, max_size=4).filter(_names_a_program)
    earlier: dict[Any, st.SearchStrategy[Any]] = {"resume_from": st.just("/checkpoints/earlier")}
    if shape.name == "ray":
        return st.fixed_dictionaries({"kind": st.just("command"), "command": words}, optional=earlier)
    args: dict[Any, st.SearchStrategy[Any]] = {"args": st.lists(texts(), min_size=1, max_size=3)}
    named = st.fixed_dictionaries({"kind": st.just("command"), "command": words}, optional={**earlier, **args})
    return st.one_of(named, named, st.fixed_dictionaries({"kind": st.just("command"), **args}, optional=earlier))


def _workloads(shape: Shape) -> st.SearchStrategy[Data]:
    if shape.name in ("independent", "bare-mpi", "jax", "parameter-server"):
        return _commands(shape)
    if shape.name == "xgboost":
        return st.one_of(_boosting(), _boosting(), _scripts(), _commands(shape))
    trained = _trainers(pictures=shape.name == "multi-worker-mirrored")
    unread = _UNREAD.get(shape.topology.get("engine", shape.name), frozenset())
    trained = trained.map(lambda work: {key: value for key, value in work.items() if key not in unread})
    return st.one_of(trained, trained, _commands(shape), *(() if shape.name == "ray" else (_scripts(),)))


_UNREAD = {
    "deepspeed": frozenset({"skip_non_finite"}),
    "multi-worker-mirrored": frozenset({"activation_checkpointing", "compile", "skip_non_finite"}),
}
"""Engine, or shape -> what a run must not ask of it."""


@st.composite
def _rates(draw: st.DrawFn) -> Data:
    rate: Data = {"base": draw(st.floats(1e-6, 1)), "warmup_steps": draw(st.integers(0, 1000))}
    if draw(st.booleans()):
        rate |= {"base_batch": draw(st.integers(1, 4096)), "scaling": draw(st.sampled_from(("none", "linear", "square_root")))}
    return rate


@st.composite
def _mounts(draw: st.DrawFn, namespace: Data) -> Data:
    mounts: Data = {"/checkpoints": {"claim": "checkpoints"}}
    if draw(st.booleans()):
        mounts["/data"] = {"claim": "dataset", "read_only": True}
    if draw(st.booleans()):
        mounts["/data2/Bilder ü"] = {"claim": "dataset", "read_only": True, "sub_path": "a/b"}
    if draw(st.booleans()):
        mounts["/scratch"] = {"scratch": draw(st.sampled_from(("1Gi", "500M")))}
    for path, mount in _VOLUMES.items():
        if draw(st.integers(0, 5)) == 0:
            mounts[path] = mount
    for claim in namespace["claims"]:
        if claim.endswith(".v1"):
            mounts["/third"] = {"claim": claim}
    return mounts


_VOLUMES: Data = {
    "/fast": {"ephemeral": "100Gi", "storage_class": "local-nvme"},
    "/settings": {"config_map": "settings", "items": {"app.conf": "app/app.conf"}, "mode": "0555"},
    "/keys": {"secret": "keys", "mode": "0400"},
    "/all": {"projected": [{"config_map": "settings"}, {"secret": "keys", "items": {"a": "b/c"}}, {"token": "t", "audience": "a"},
                           {"fields": {"me": "metadata.name"}}], "mode": "0440"},
    "/bucket": {"csi": "s3.csi.example.com", "attributes": {"bucketName": "models", "at": "/"}, "read_only": True},
    "/written": {"volume": {"csi": {"driver": "fast.csi.example.com", "fsType": "xfs"}}, "read_only": True, "sub_path": "a/b"},
}
"""Those that every level of pod security allows."""


def _overrides(shape: Shape) -> st.SearchStrategy[Data]:
    role, case = role_of(shape), CASES[shape.target]
    container, (_, kind) = case.roles_of(shape.name).get(role, "tensorflow"), case.kind
    patches: list[Data] = [
        {"pod": {role: {"runtimeClassName": "nvidia"}}},
        {"pod": {role: {"containers": [{"name": container, "env": [{"name": "EXTRA", "value": "1"}]}]}}},
        {"pod": {role: {"tolerations": [{"key": "example.com/extra", "operator": "Exists"}]}}},
        {"objects": [{"target": case.name, "kind": kind, "patch": {"metadata": {"annotations": {"example.com/owner": "me"}}}}]},
    ]
    if case.kind == ("batch", "Job"):
        patches.append({"objects": [{"target": case.name, "kind": "Job", "patch": {"spec": {"activeDeadlineSeconds": 86400}}}]})
    return st.sampled_from(patches)


_AMOUNTS = st.fixed_dictionaries({}, optional={
    "cpu": st.sampled_from(("none", "2", "1500m")), "memory": st.sampled_from(("none", "6Gi")),
    "requests": st.fixed_dictionaries({}, optional={"cpu": st.just("500m"), "memory": st.just("2Gi")}),
    "ephemeral_storage": st.just("20Gi"), "hugepages": st.just({"2Mi": "512Mi"}),
    "devices": st.just({"example.com/fuse": 1, "example.com/none": 0}),
})  # fmt: skip
"""Of a pod; the requests are within each limit."""


def _beside_memory(parts: list[Data]) -> None:
    """Kubernetes gives huge pages to no pod without CPU and memory: where any part asks for them, each reserves memory."""
    for one in parts if any("hugepages" in one for one in parts) else ():
        if one.get("memory") == "none":
            one["requests"] = {**one.get("requests", {}), "memory": "2Gi"}


@st.composite
def _of_roles(draw: st.DrawFn, shape: Shape, work: str) -> Data:
    """What the pods of one role have of their own."""
    optional: dict[str, st.SearchStrategy[Any]] = {"env": st.just({"APP_ROLE": "first"})}
    if work in ("script", "command"):
        optional["resources"] = _AMOUNTS
    if shape.name != "ray":
        optional["image"] = st.just(f"{REGISTRY}/team/role@{DIGEST}")
        if work == "command":
            optional["args"] = st.lists(texts(), min_size=1, max_size=2)
    return {role_of(shape): draw(st.fixed_dictionaries({}, optional=optional))}


@st.composite
def _further(draw: st.DrawFn, shape: Shape, level: str, waits: bool) -> Data:
    """Roles besides those of the topology. ``waits`` says whether some pods may wait for others."""
    case = CASES[shape.target]
    own: Data = {"image": f"{REGISTRY}/team/service@{DIGEST}", **({"security": {"user": 1000}} if level == "restricted" else {})}
    optional: dict[str, st.SearchStrategy[Any]] = {
        "env": st.just({"APP_ROLE": "beside"}), "resources": st.just({"cpu": "500m", "memory": "1Gi", "shared_memory": "256Mi"}),
    }
    if shape.name != "ray":
        optional |= {
            "command": st.just(["serve", "--port", "9000"]), "args": st.just(["-v"]), "ports": st.just({"grpc": 9000}),
            "ready": st.just({"command": ["ready"]}),
        }
    if case.orders_start and waits:
        optional["starts"] = st.sampled_from(("before", "after", "with"))
    taken = ("evaluator",) if (shape.target, shape.name) == ("volcano-job", "multi-worker-mirrored") else ()
    free = [name for name in case.further if name not in taken]
    names = draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True))
    ends = case.orders_start and not (shape.target == "volcano-job" and shape.name in ENDED_BY_ONE_TASK)
    ending = {"must_end": draw(st.booleans())} if ends else {}
    return {
        name: {"pods": draw(st.integers(1, 3)), **own, **ending, **draw(st.fixed_dictionaries({}, optional=optional))}
        for name in names
    }


def _containers(level: str) -> st.SearchStrategy[list[Data]]:
    """Next to the one that trains, as every level allows them where the run states its user."""
    own: Data = {"image": f"{REGISTRY}/tools/helper@{DIGEST}", "cpu": "100m", "memory": "128Mi"}
    shared = {"/theirs": {"same_as": "/checkpoints", "read_only": True}, "/own": {"scratch": "1Gi"}}
    sidecar: Data = {"name": "relay", "kind": "sidecar", "mounts": shared, "started": {"port": 9999}}
    beside: Data = {"name": "watcher", "kind": "beside", "ends_itself": True, "args": ["--until", "$(END)"], "env": {"END": "x"}}
    first: Data = {"name": "installer", "kind": "init", "command": ["install"], "security": {"read_only_root": True}}
    if level != "restricted":
        first["security"] = {"user": 0}
    typed = st.sampled_from((first, sidecar, beside)).map(lambda one: own | one)
    stated = st.one_of(typed, typed, typed, st.just(_AS_KUBERNETES_WRITES_IT))
    return st.lists(stated, unique_by=lambda one: str(one.get("name")), max_size=4)


_AS_KUBERNETES_WRITES_IT: Data = {
    "kind": "sidecar",
    "container": {
        "name": "probed", "image": f"{REGISTRY}/tools/helper@{DIGEST}",
        "livenessProbe": {"httpGet": {"path": "/well", "port": "well"}, "initialDelaySeconds": 5},
        "ports": [{"name": "well", "containerPort": 8098}],
        "resources": {key: {"cpu": "100m", "memory": "128Mi"} for key in ("requests", "limits")},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": "saved", "mountPath": "/saved", "subPathExpr": "$(WHERE)"}, {"name": "own", "mountPath": "/own"},
        ],
        "env": [{"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
    },
    "volumes": [{"name": "own", "emptyDir": {"medium": "Memory"}}, {"name": "saved", "same_as": "/checkpoints"}],
}  # fmt: skip


@st.composite
def _lives(draw: st.DrawFn, shape: Shape, work: str) -> Data:
    """How a script or a command lives, as far as its target carries it."""
    optional: dict[str, st.SearchStrategy[Any]] = {
        "grace": st.just("5m"), "pre_stop": st.sampled_from(({"command": ["drain"]}, {"sleep": "5s"}, {"http": "/", "port": 80})),
        "ports": st.just({"dashboard": 8099}), "deadline": st.sampled_from(("90s", "2d")), "ttl": st.just("1d"),
    }
    if work == "command":
        optional["probes"] = st.just({"alive": {"http": "/well", "port": 8099, "every": "30s"}})
    refused = TARGETS[shape.target].cannot_carry
    drawn = draw(st.fixed_dictionaries({}, optional={key: one for key, one in optional.items() if key not in refused}))
    if CASES[shape.target].kind == ("trainer.kubeflow.org", "TrainJob"):
        drawn.pop("deadline", None)  # the profile may have a release without it
    return drawn


_LETTERS = string.ascii_uppercase.replace("K", "").replace("S", "")
"""Every word that makes a variable a secret (TW409) has a K or an S, and chance writes PSK soon enough."""
_VARIABLES = st.text(_LETTERS + "_", min_size=1, max_size=12).map(lambda name: "APP_" + name)
_SECRETS = st.fixed_dictionaries({"secret": labels(63), "key": st.sampled_from(("token", "a.b-c_D"))})


@cache
def _environments() -> st.SearchStrategy[Data]:
    settings = st.just({"config_map": "settings", "key": "mode"})
    own = st.dictionaries(_VARIABLES, st.one_of(texts(), _SECRETS, settings), max_size=3)
    return st.builds(
        lambda env, known: env | known, own, st.sampled_from(({}, {}, {"NCCL_DEBUG": "INFO"}, {"OMP_NUM_THREADS": "2"}))
    )


def _placed(shape: Shape, cluster: Data, namespace: Data) -> st.SearchStrategy[Data]:
    """Where the pods are, how they start and what network they use."""
    optional: dict[Any, st.SearchStrategy[Any]] = {"gang": st.booleans(), "priority": labels(63)}
    if cluster["topology"]:
        level = st.fixed_dictionaries(
            {"together": st.sampled_from(sorted(cluster["topology"]))}, optional={"required": st.booleans()}
        )
        optional["placement"] = level
    if "kueue" in cluster:
        if CASES[shape.target].kueue:
            optional["queue"] = st.sampled_from(sorted(namespace["queues"]))
    elif cluster.get("scheduling", {}).get("gang") == "volcano":
        optional["queue"] = labels(63)
    if CASES[shape.target].kind[0] in ("batch", "jobset.x-k8s.io", "trainer.kubeflow.org"):
        optional["on_disruption"] = st.sampled_from(("restart", "fail"))
    if CASES[shape.target].host_network and namespace["pod_security"] == "privileged":
        optional["host_network"] = st.booleans()
    drawn = st.fixed_dictionaries({}, optional=optional)
    return drawn if "kueue" in cluster else drawn.map(_without_idle_queue)


def _without_idle_queue(fields: Data) -> Data:
    """A queue of Volcano is read from the group of the pods: without a group nothing reads it."""
    return {key: value for key, value in fields.items() if key != "queue" or fields.get("gang", True)}


@st.composite
def _security(draw: st.DrawFn, shape: Shape, level: str) -> Data:
    """What the level of the namespace allows; under mpirun as a user in whose home there are keys, and root's are its alone."""
    users, by_mpirun = (1000,) if level == "restricted" else (0, 1000), shape.name in ("mpi", "bare-mpi", "horovod")
    security: Data = {"user": draw(st.sampled_from(users if by_mpirun else (*users, 2000)))}
    if level != "restricted" and draw(st.booleans()):
        security = {"root": True}
    capabilities = {"restricted": ("NET_BIND_SERVICE",), "baseline": ("SYS_CHROOT",), "privileged": ("IPC_LOCK", "SYS_PTRACE")}
    optional: dict[str, st.SearchStrategy[Any]] = {
        "group": st.integers(0, 9999), "fs_group": st.integers(0, 9999), "read_only_root": st.booleans(),
        "capabilities": st.just(list(capabilities[level])),
    }
    if by_mpirun and not security.get("user"):
        del optional["fs_group"]
    if level == "privileged":
        optional["privileged"] = st.booleans()
    return security | draw(st.fixed_dictionaries({}, optional=optional))


_FILES = st.dictionaries(
    st.sampled_from(("/etc/app/settings.json", "/etc/app/überschrift.txt", "/opt/a b/c")),
    st.one_of(texts(), st.just({"depth": 3, "names": ["a", None, 1.5]})),
    max_size=2,
)


def _prepared() -> st.SearchStrategy[Data]:
    """A data set that is fetched into a claim, once."""
    image = f"{REGISTRY}/tools/rclone@{DIGEST}"
    amounts: dict[Any, st.SearchStrategy[Any]] = {"revision": st.integers(1, 9), "memory": st.just("8Gi")}
    keys = {"access_key": {"secret": "object-store", "key": "id"}, "secret_key": {"secret": "object-store", "key": "key"}}
    open_to_all = st.fixed_dictionaries(
        {"source": st.just("gs://example-datasets/table"), "image": st.just(image)}, optional=amounts
    )
    with_keys = st.fixed_dictionaries(
        {"source": st.just("s3://example-datasets/a b/table"), "image": st.just(image), "credentials": st.just(keys)},
        optional={**amounts, "endpoint": st.just("https://store.example.com:9000"), "region": st.just("eu-west-1")},
    )
    return st.dictionaries(st.just("/checkpoints/table"), st.one_of(open_to_all, with_keys), max_size=1)


def _optional() -> dict[str, st.SearchStrategy[Any]]:
    every = {
        "every": st.just("10m"), "every_steps": st.integers(1, 1000), "keep": st.integers(2, 9), "save": st.just("blocking"),
        "failed_saves": st.integers(0, 9),
        "store": st.sampled_from(("s3://example-bucket", "s3://example.bucket/a/B_1")),
    }
    return {
        "env": _environments(),
        "files": _FILES,
        "prepare": _prepared(),
        "labels": label_maps(),
        "pod_labels": label_maps(),
        "pod_annotations": label_maps(),
        "annotations": label_maps(),
        "runtime_class": labels(63),
        "scheduling_gates": st.just(["example.com/hold"]),
        "node_affinity": st.sampled_from((
            {"required": [{"key": "example.com/disk", "operator": "In", "values": ["nvme", "ssd"]}]},
            {"preferred": [{"labels": [{"key": "example.com/age", "operator": "Lt", "values": ["3"]}], "weight": 7}]},
        )),
        "pod_affinity": st.sampled_from((
            {"required": [{"labels": {"app": "cache"}, "topology_key": "example.com/rack"}]},
            {"preferred": [{"labels": {"a": "b"}, "topology_key": "example.com/rack", "namespaces": ["data"], "weight": 7}]},
        )),
        "pod_anti_affinity": st.sampled_from((
            {"required": [{"expressions": [{"key": "app", "operator": "Exists"}], "topology_key": "kubernetes.io/hostname"}]},
        )),
        "service_account": labels(63),
        "image_pull_secrets": st.lists(labels(63), max_size=2, unique=True),
        "resource_claims": st.dictionaries(labels(63), st.sampled_from(
            ({"template": "rdma"}, {"claim": "shared"}, {"template": "rdma", "request": "nics"})
        ), max_size=2),
        "image_pull_policy": st.sampled_from(("Always", "IfNotPresent", "Never")),
        "restarts": st.integers(0, 1000),
        "node_lost": st.sampled_from(("1s", "5m", "1h")),
        "peer_lost": st.sampled_from(("8s", "30s", "2m")),
        "peer_wait": st.sampled_from(("30m", "2h", "90s")),
        "recovery": st.sampled_from(("in-place", "whole-job")),
        "recovery_wait": st.sampled_from(("15m", "1m")),
        "watchdog": st.fixed_dictionaries({}, optional={"training": st.just("10m"), "slowdown": st.floats(1.5, 100)}),
        "preflight": st.fixed_dictionaries({}, optional={
            "when": st.sampled_from(("on-gpus", "always")), "budget": st.just("2m"), "min_tflops": st.floats(0.5, 1e4),
            "min_share_of_median": st.floats(0, 0.9), "max_storage": st.just("20s"), "max_clock_skew": st.just("5s"),
        }),
        "attempt": st.integers(1, 10**6),
        "checkpoints": st.fixed_dictionaries({}, optional=every),
    }


def _least_micro(shape: Shape) -> int:
    """With which a batch that stays has a sample for each rank of the largest size."""
    elastic = shape.topology.get("elastic")
    return ceil(elastic["max_nodes"] / shape.topology["nodes"]) if elastic and elastic["batch"] == "keep" else 1


@st.composite
def runs(draw: st.DrawFn, cluster: Data) -> Data:
    """A run for a cluster of ``drawn_clusters`` that must compile; it may have warnings."""
    shape = draw(shapes(cluster))
    name = draw(st.sampled_from(sorted(cluster["namespaces"])))
    namespace, workload = cluster["namespaces"][name], draw(_workloads(shape))
    run: Data = {
        "run": draw(labels(shape.longest_name)), "team": draw(labels(63)), "namespace": name, "cluster": cluster["cluster"],
        "image": f"{REGISTRY}/team/image" + draw(st.sampled_from((f"@{DIGEST}", f":v1@{DIGEST}", ":latest"))),
        "topology": shape.topology, "target": shape.target, "workload": workload,
    }  # fmt: skip
    if workload["kind"] == "trainer" or (shape.name != "xgboost" and draw(st.booleans())):
        run |= {
            "batch": {"micro": draw(st.integers(_least_micro(shape), 8)), "accumulation": draw(st.integers(1, 4))},
            "learning_rate": draw(_rates()),
        }
    run["mounts"] = draw(_mounts(namespace))
    run |= draw(_placed(shape, cluster, namespace))
    level = namespace["pod_security"]
    if level == "restricted" or draw(st.booleans()):
        run["security"] = draw(_security(shape, level))
    if workload["kind"] in ("script", "command") and draw(st.booleans()):
        run["resources"] = draw(_AMOUNTS)
    if workload["kind"] in ("script", "command") and draw(st.booleans()):
        run |= draw(_lives(shape, workload["kind"]))
    if draw(st.integers(0, 3)) == 0 and ("user" in run.get("security", {}) or workload["kind"] in ("trainer", "boosting")):
        run["containers"] = draw(_containers(level))
    if draw(st.integers(0, 3)) == 0:
        run["roles"] = draw(_of_roles(shape, workload["kind"]))
    _beside_memory([one["resources"] for one in (run, *run.get("roles", {}).values()) if "resources" in one])
    alone = shape.name == "independent" or (shape.name == "ray" and workload["kind"] != "command")  # TW458: ranks would go there
    if CASES[shape.target].further and not alone and draw(st.integers(0, 3)) == 0:
        in_gang = run.get("gang", True) and cluster.get("scheduling", {}).get("gang") is not None
        run["roles"] = run.get("roles", {}) | draw(_further(shape, level, waits=not in_gang))
    run |= draw(st.fixed_dictionaries({}, optional={**_optional(), "overrides": _overrides(shape)}))
    if run.get("files") and draw(st.booleans()):
        run["file_modes"] = {min(run["files"]): draw(st.sampled_from(("0444", "555")))}
    if run.get("files") and draw(st.booleans()):
        run["file_folders"] = [str(PurePosixPath(min(run["files"])).parent)]
    if workload["kind"] in ("script", "command") and draw(st.booleans()):
        stated = {"lineage": draw(st.sampled_from(("first", "7k3m9q2x", "a-2"))), **draw(st.sampled_from(({}, {"by": "own"})))}
        run["checkpoints"] = {**run.get("checkpoints", {}), **stated}
    return run
