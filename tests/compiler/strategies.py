"""Random runs and cluster profiles as plain data, written as users would write them.

``clusters`` and ``runs`` draw only what must compile; ``mutations`` breaks such data in one or two places, with the values that
break programs: not a number, infinite, huge, empty, far too long, of the wrong type, or in another script.
"""

from __future__ import annotations

import copy
import string
from functools import cache
from typing import Any

from hypothesis import strategies as st

from trainwright.manifest.plain import problems

Data = dict[str, Any]

DIGEST = "sha256:" + "0123456789abcdef" * 4
REGISTRY = "registry.example.com"
GPU_MODELS = ("H100", "A100", "L4")

_LOWER = string.ascii_lowercase
_INNER = _LOWER + string.digits + "-"

# fmt: off
NASTY: tuple[Any, ...] = (
    None, True, False, [], {}, [None], {"a": None}, [[]], {"": ""}, {"kind": "ddp"}, {"$jsii.byref": "x"}, {"__proto__": 1},
    0, -1, 1, 0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf"), 4096, 10**6, 1e6, 2**31, 2**40, 2**53,
    2**53 + 1, 2**63, 10**400, -(10**400),
    "", " ", "\n", "\t", "\x00", "\x07", "a\tb", "a\nb", "\u0085", "\u2028", "\ufeff", "\u202eabc",
    "ß", "İstanbul", "名前", "🚀",
    "=", "<<", "~", "null", "true", "yes",
    "0o17", "0x1F", "1e5", "1_000", ".nan", "NaN", "-.inf", "12:30", "2030-01-01", "{}", "[]",
    "- a", "$(HOME)", "${HOME}", "{name}", "{0}", "%s", "../..", "/", "//", "/a/../b", "A", "-", "--x y", "a.b", "a/b", "a=b",
    "a" * 64, "a" * 300,
)
# fmt: on
"""Values that a YAML file or a Python program can hold and that nobody asked for."""


@cache
def labels(longest: int = 63) -> st.SearchStrategy[str]:
    """DNS labels that start with a letter, up to a length."""
    inner = st.text(_INNER, max_size=longest - 2)
    ends = st.sampled_from(_LOWER + string.digits)
    longer = st.builds(lambda first, middle, last: first + middle + last, st.sampled_from(_LOWER), inner, ends)
    return st.one_of(longer, st.sampled_from(_LOWER), st.just("n" * longest))


@cache
def texts() -> st.SearchStrategy[str]:
    """Text that a person might put into a variable or an argument."""
    return st.one_of(
        # a lone = and the like are refused, and hypothesis draws what stands in any test that was loaded
        st.text(string.ascii_letters + string.digits + " _-./:=,+%@", max_size=20).filter(
            lambda text: not text.startswith("-") and not any(problems(text))
        ),
        st.sampled_from(
            ("", "0", "1e5", "true", "null", "Zürich", "名前", "🚀 start", "a: b", "# no comment", "'", '"', "\\n", "{x}", "%d")
        ),
    )


@cache
def _label_maps() -> st.SearchStrategy[dict[str, str]]:
    keys = st.builds(lambda prefix, name: prefix + name, st.sampled_from(("", "example.com/", "a.b-c.example/")), labels(63))
    values = st.one_of(st.just(""), labels(63), st.sampled_from(("True", "1.0", "A_b-C.d", "1e5")))
    return st.dictionaries(keys, values, max_size=3)


@st.composite
def _pools(draw: st.DrawFn, gpus: bool) -> Data:
    fabric: Data = {"kind": draw(st.sampled_from(("tcp", "infiniband", "roce", "efa"))), "links": draw(st.integers(1, 8))}
    if draw(st.booleans()):
        fabric |= {"interface": "eth0", "hca": "=mlx5_0,mlx5_1", "gigabits_per_link": 400}
    if draw(st.booleans()):
        fabric |= {"resource": "rdma/shared", "resource_count": draw(st.integers(1, 4)), "ipc_lock": draw(st.booleans())}
    pool: Data = {
        "cpus": draw(st.sampled_from((16, "64", "96000m", 192))),
        "memory": draw(st.sampled_from(("256Gi", "1T", 2**40))),
        "fabric": fabric,
    }
    if gpus:
        model = draw(st.sampled_from(GPU_MODELS))
        pool["gpu"] = {"model": model, "memory": draw(st.sampled_from(("40Gi", "80Gi"))), "per_node": draw(st.integers(1, 8))}
    if draw(st.booleans()):
        pool["labels"] = draw(_label_maps())
    taints = st.fixed_dictionaries(
        {"key": st.sampled_from(("nvidia.com/gpu", "example.com/spot", "dedicated"))},
        optional={"value": st.sampled_from(("", "true", "training")), "effect": st.sampled_from(("NoSchedule", "NoExecute"))},
    )
    pool["taints"] = draw(st.lists(taints, max_size=2))
    if draw(st.booleans()):
        pool["spot"] = {"notice": draw(st.sampled_from(("30s", "2m", "1h30m")))}
    return pool


@st.composite
def _namespaces(draw: st.DrawFn) -> Data:
    claims: Data = {
        "checkpoints": {
            "storage_class": "nfs",
            "size": draw(st.sampled_from(("10Gi", "2T", 10**9))),
            "write_mebibytes_per_second": 1000,
        },
        "dataset": {"managed": False, "access": "ReadOnlyMany"},
    }
    if draw(st.booleans()):
        claims[draw(labels(60)) + ".v1"] = {"size": "1Gi", "access": "ReadWriteMany"}
    return {"claims": claims, "managed": draw(st.booleans()), "pod_security": "privileged"}


@st.composite
def clusters(draw: st.DrawFn) -> Data:
    """A profile with CPU and GPU pools, in which any run of :func:`runs` finds a place."""
    names = draw(st.lists(labels(63), min_size=2, max_size=4, unique=True))
    pools = {name: draw(_pools(gpus=bool(number))) for number, name in enumerate(names)}
    cluster: Data = {
        "cluster": draw(labels(63)),
        "kubernetes": draw(st.sampled_from(("1.33", "1.34", "1.35"))),
        "node_pools": pools,
        "namespaces": draw(st.dictionaries(labels(63), _namespaces(), min_size=1, max_size=3)),
        "storage_classes": {"nfs": {"access": ["ReadWriteMany"]}},
    }
    if draw(st.booleans()):
        cluster["registries"] = [REGISTRY]
    return cluster


@st.composite
def _topologies(draw: st.DrawFn, cluster: Data) -> Data:
    largest = max((pool["gpu"]["per_node"] for pool in cluster["node_pools"].values() if "gpu" in pool), default=0)
    gpus = draw(st.integers(0, largest))
    topology: Data = {"kind": "ddp", "nodes": draw(st.integers(1, 5)), "gpus_per_node": gpus}
    if not gpus and draw(st.booleans()):
        topology["processes_per_node"] = draw(st.integers(1, 3))
    return topology


@st.composite
def _optimizers(draw: st.DrawFn) -> Data:
    if draw(st.booleans()):
        return {"kind": "adamw", "betas": [0.9, draw(st.sampled_from((0.95, 0.999)))]}
    return {"kind": "sgd", "momentum": draw(st.sampled_from((0, 0.9)))}


@st.composite
def _trainers(draw: st.DrawFn) -> Data:
    work: Data = {"kind": "trainer"}
    if draw(st.booleans()):
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
                "num_hidden_layers": draw(st.integers(1, 4)),
                "num_attention_heads": 4,
                "num_labels": 10,
            },
        }
    else:
        work |= {
            "task": "causal-lm",
            "data": {"source": "python-stdlib", "sequence_length": 64},
            "model": {"architecture": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128,
                      "num_hidden_layers": draw(st.integers(1, 4)), "num_attention_heads": 4},
        }
    work["optimizer"] = draw(_optimizers())
    work |= draw(st.one_of(
        st.fixed_dictionaries({"epochs": st.floats(0.1, 100)}),
        st.fixed_dictionaries({"steps": st.integers(1, 10**6)}),
    ))
    work |= draw(st.fixed_dictionaries({}, optional={
        "precision": st.sampled_from(("fp32", "bf16")), "schedule": st.sampled_from(("constant", "linear", "cosine")),
        "clip_norm": st.one_of(st.none(), st.floats(0.1, 10)), "seed": st.integers(0, 2**53),
    }))
    return work


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
    for claim in namespace["claims"]:
        if claim.endswith(".v1"):
            mounts["/third"] = {"claim": claim}
    return mounts


@cache
def _overrides() -> st.SearchStrategy[Data]:
    return st.sampled_from(
        (
            {"pod": {"node": {"priorityClassName": "high"}}},
            {"pod": {"node": {"containers": [{"name": "trainer", "env": [{"name": "EXTRA", "value": "1"}]}]}}},
            {"pod": {"node": {"tolerations": [{"key": "example.com/extra", "operator": "Exists"}]}}},
            {
                "objects": [
                    {"target": "indexed-job", "kind": "Job", "patch": {"metadata": {"annotations": {"example.com/owner": "me"}}}}
                ]
            },
            {"objects": [{"target": "indexed-job", "kind": "Job", "patch": {"spec": {"activeDeadlineSeconds": 86400}}}]},
        )
    )


_VARIABLES = st.text(string.ascii_uppercase + "_", min_size=1, max_size=12).map(lambda name: "APP_" + name)
_SECRETS = st.fixed_dictionaries({"secret": labels(63), "key": st.sampled_from(("token", "a.b-c_D"))})


@st.composite
def runs(draw: st.DrawFn, cluster: Data) -> Data:
    """A run for a cluster of :func:`clusters` that must compile; it may have warnings."""
    namespace = draw(st.sampled_from(sorted(cluster["namespaces"])))
    workload = draw(
        st.one_of(
            _trainers(),
            st.fixed_dictionaries(
                {"kind": st.just("script"), "command": st.lists(texts(), min_size=1, max_size=4)},
                optional={"protocol": st.booleans()},
            ),
            st.fixed_dictionaries(
                {"kind": st.just("command"), "command": st.lists(texts(), min_size=1, max_size=4)},
                optional={"resume_from": st.just("/checkpoints/earlier")},
            ),
        )
    )
    run: Data = {
        "run": draw(labels(40)), "team": draw(labels(63)), "namespace": namespace, "cluster": cluster["cluster"],
        "image": f"{REGISTRY}/team/image" + draw(st.sampled_from((f"@{DIGEST}", f":v1@{DIGEST}", ":latest"))),
        "topology": draw(_topologies(cluster)), "workload": workload, "trainer_version": "0.1.0",
    }
    if workload["kind"] == "trainer" or draw(st.booleans()):
        run |= {
            "batch": {"micro": draw(st.integers(1, 8)), "accumulation": draw(st.integers(1, 4))},
            "learning_rate": draw(_rates()),
        }
    run["mounts"] = draw(_mounts(cluster["namespaces"][namespace]))
    run |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "env": st.dictionaries(_VARIABLES, st.one_of(texts(), _SECRETS), max_size=3),
                "labels": _label_maps(),
                "pod_labels": _label_maps(),
                "overrides": _overrides(),
                "service_account": labels(63),
                "image_pull_secrets": st.lists(labels(63), max_size=2, unique=True),
                "restarts": st.integers(0, 1000),
                "peer_wait": st.sampled_from(("30m", "2h", "90s")),
                "attempt": st.integers(1, 10**6),
                "checkpoints": st.fixed_dictionaries(
                    {}, optional={"every": st.just("10m"), "every_steps": st.integers(1, 1000), "keep": st.integers(2, 9)}
                ),
            },
        )
    )
    return run


def pairs() -> st.SearchStrategy[tuple[Data, Data]]:
    """A cluster and a run that must compile for it."""
    return clusters().flatmap(lambda cluster: st.tuples(st.just(cluster), runs(cluster)))


def pointers(data: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to every value inside of data."""
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path for key, value in children for path in ((*above, key), *pointers(value, (*above, key)))]


def _parent(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path[:-1]:
        data = data[key]
    return data


def replaced(data: Data, path: tuple[str | int, ...], value: Any) -> Data:
    """A copy with another value at a place."""
    copied = copy.deepcopy(data)
    _parent(copied, path)[path[-1]] = copy.deepcopy(value)
    return copied


@st.composite
def _mutated(draw: st.DrawFn, data: Data) -> Data:
    broken = copy.deepcopy(data)
    path = draw(st.sampled_from(pointers(broken)))
    parent, key = _parent(broken, path), path[-1]
    action = draw(st.sampled_from(("replace", "replace", "remove", "add", "rename")))
    if action == "replace":
        parent[key] = draw(st.sampled_from(NASTY))
    elif action == "remove":
        del parent[key]
    elif isinstance(parent, dict) and action == "add":
        parent[draw(st.sampled_from(("", "unknown", "名", "a" * 300, "run", "suspend")))] = draw(st.sampled_from(NASTY))
    elif isinstance(parent, dict):
        parent[str(draw(st.sampled_from(NASTY)))] = parent.pop(key)
    else:
        parent.append(draw(st.sampled_from(NASTY)))
    return broken


@st.composite
def mutations(draw: st.DrawFn) -> tuple[Data, Data]:
    """A cluster and a run, of which one or both are broken in one or two places."""
    cluster, run = draw(pairs())
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.integers(0, 3)):
            run = draw(_mutated(run))
        else:
            cluster = draw(_mutated(cluster))
    return cluster, run
