"""What pydantic refuses, in the words and on the lines of the person who wrote the file."""

from __future__ import annotations

import copy
import io
import time
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from trainwright.cluster import Cluster
from trainwright.findings import CompileError, Finding
from trainwright.reading import validate, validate_data
from trainwright.reading.document import Document, parse_yaml
from trainwright.report.finding import render_findings
from trainwright.run import ClaimMount, Run, TrainerWorkload
from trainwright.topology import DDP
from trainwright.units import Bytes, Duration

RUN = """\
run: digits
team: vision
namespace: training
cluster: laptop
image: registry.example.com/trainer@sha256:0
trainer_version: 0.2.0
topology: {kind: ddp, nodes: 2, gpus_per_node: 0}
batch: {micro: 32}
learning_rate: {base: 2e-3}
workload:
  kind: trainer
  task: image-classification
  model: {architecture: resnet, num_labels: 10, num_channels: 1, image_size: 8}
  data: {source: digits}
  optimizer: {kind: adamw, betas: [0.9, 0.99]}
  epochs: 3
checkpoints: {every: 30m}
resources: {memory: 8Gi}
mounts:
  /checkpoints: {claim: checkpoints}
  /scratch: {scratch: 1Gi}
env: {LEVEL: "3", TOKEN: {secret: hub, key: token}}
labels: {example.com/owner: vision}
waivers: [{code: TW305, reason: the tag is local, expires: 2030-01-31}]
"""


SCRIPT = """\
run: probe
team: vision
namespace: training
cluster: laptop
image: registry.example.com/trainer@sha256:0
topology: {kind: ddp, nodes: 2, gpus_per_node: 0}
workload:
  kind: script
  command: [python, train.py]
"""
SIDECAR = "containers:\n  - {name: a, kind: sidecar, image: x, cpu: 1, memory: 1Gi}\n"


@pytest.mark.parametrize(
    ("run", "text", "place"),
    [
        (SCRIPT, 'files: {/a/b: x}\nfile_modes:\n  /a/c: "0555"\n', "/file_modes/~1a~1c"),
        (SCRIPT, "probes: {alive: {port: 80}}\n", "/probes"),
        (SCRIPT, "pre_stop:\n  sleep: 2m\n", "/pre_stop/sleep"),
        (SCRIPT, "roles:\n  node:\n    args: [a]\n", "/roles/node/args"),
        (SCRIPT, f"{SIDECAR}  - {{name: a, kind: init, image: x, cpu: 1, memory: 1Gi}}\n", "/containers/1"),
        (SCRIPT, "containers:\n  - {name: a, kind: init, image: x, cpu: 1, memory: 1Gi,\n     ends_itself: true}\n",
         "/containers/0/ends_itself"),
        (SCRIPT, "resources:\n  cpu: 4\n  requests:\n    cpu: 8\n", "/resources/requests/cpu"),
        (SCRIPT, "security:\n  user: 0\n  root: false\n", "/security/root"),
        (SCRIPT, "checkpoints:\n  mount: /saved\n  store: s3://bucket\n", "/checkpoints/store"),
        (RUN, "grace: 2m\n", "/grace"),
        (RUN, "deadline: 2d\n", "/deadline"),
        (RUN.replace("checkpoints: {every: 30m}", "checkpoints:\n  every: 30m\n  lineage: first"), "", "/checkpoints/lineage"),
        (RUN.replace("  epochs: 3", "  epochs: 3\n  decay_fraction: 0.1"), "", "/workload/decay_fraction"),
    ],
)
def test_a_key_that_does_not_fit_the_others_is_on_its_own_line(run: str, text: str, place: str) -> None:
    (finding,) = refused(run + text)
    document = parse_yaml(run + text, "run.yaml")
    assert (finding.where.pointer, finding.where.line) == (place, document.positions[place][0])


def test_a_key_of_another_form_stands_beside_the_key_that_makes_the_form() -> None:
    text = "containers: [{kind: sidecar, name: a, container: {name: b, image: c}}]\n"
    (finding,) = refused(RUN + text)
    assert (finding.code, finding.where.pointer) == ("TW105", "/containers/0/name")
    assert finding.fix == "remove it, or `container`: only one of the two can stand here"


ONLY_READ = "stands for the keys of a Secret as files, which a pod can only read"


@pytest.mark.parametrize(
    ("mount", "message", "fix"),
    [
        ("{secret: s, read_only: true}", "there is no key `read_only` in mounts[\"/x\"]", f"remove it; `secret: …` {ONLY_READ}"),
        ("{secret: s, attributes: {}}", "there is no key `attributes` in mounts[\"/x\"]", f"remove it; `secret: …` {ONLY_READ}"),
        ("{claim: a, scratch: 1Gi}", "there is no key `scratch` in mounts[\"/x\"]",
         "remove it, or `claim`: only one of the two can stand here"),
        ("{nfs: server, read_only: true}", '`mounts["/x"]` has no key `path`', "add `path: …` (text)"),
        ("{projected: [{token: t, audience: a, expires: 1m}]}",
         '`mounts["/x"].projected[0]`: a token lives for 10 minutes at least', "write 10m or more"),
        ("{projected: [{token: t, audienc: a}]}", 'there is no key `audienc` in mounts["/x"].projected[0]',
         "did you mean `audience`?"),
        ("{projected: []}", '`mounts["/x"].projected` is empty', "write at least 1 item"),
    ],
)
def test_a_mount_that_is_none_is_said_once_and_of_the_kind_that_was_meant(mount: str, message: str, fix: str) -> None:
    (finding,) = refused(f"{SCRIPT}mounts: {{/x: {mount}}}\n")
    assert (finding.message, finding.fix) == (message, fix)


def refused(text: str, model: type[Run] | type[Cluster] = Run) -> tuple[Finding, ...]:
    with pytest.raises(CompileError) as error:
        validate(model, parse_yaml(text, "run.yaml"))
    return error.value.findings


CLUSTER = """\
cluster: lab
kubernetes: "1.33"
operators: {jobset: {version: "0.8"}}
node_pools:
  a: {cpus: 8, memory: 32Gi, fabric: {interface: eth0}}
"""


def test_a_key_that_is_none_of_the_words_has_a_fix() -> None:
    (finding,) = refused(CLUSTER.replace("jobset:", "job-set:"), Cluster)
    assert finding.message == "`operators` knows no `job-set`"
    assert finding.fix.startswith("did you mean jobset? Allowed: jobset, ")
    (finding,) = refused(CLUSTER.replace("jobset:", "foo:"), Cluster)
    assert finding.fix == "write one of jobset, training-operator, trainer, mpi-operator, kuberay"
    (finding,) = refused(CLUSTER.replace("jobset:", "volcano:"), Cluster)
    assert finding.fix == "write `scheduling: {gang: volcano, version: …}` beside operators"


@pytest.mark.parametrize("interface", ["^lo", "=eth0", "eth0,", "eth 0"])
def test_a_sign_with_a_meaning_is_not_dropped_from_a_value(interface: str) -> None:
    (finding,) = refused(CLUSTER.replace("eth0", f'"{interface}"'), Cluster)
    assert "exact names" in finding.message
    assert "such as eth0 or eth0,eth1" in finding.fix


@pytest.mark.parametrize(("name", "fix"), [("My_Lab", "write my-lab"), ("^lab", "write lower case"), ("a+b", "write lower")])
def test_only_a_slip_of_the_pen_is_repaired(name: str, fix: str) -> None:
    (finding,) = refused(CLUSTER.replace("cluster: lab", f'cluster: "{name}"'), Cluster)
    assert finding.fix.startswith(fix)


@pytest.mark.parametrize("written", ['"eth0,eth1"', "[eth0, eth1]"])
def test_several_interfaces_are_a_list(written: str) -> None:
    profile = validate(Cluster, parse_yaml(CLUSTER.replace("eth0", written), "cluster.yaml"))
    assert profile.node_pools["a"].fabric.interface == "eth0,eth1"


def changed(old: str, new: str) -> str:
    assert RUN.count(old) == 1
    return RUN.replace(old, new)


def test_a_run_is_read() -> None:
    run = validate(Run, parse_yaml(RUN, "run.yaml"))
    assert run.topology == DDP(kind="ddp", nodes=2, gpus_per_node=0)
    assert run.mounts["/checkpoints"] == ClaimMount(claim="checkpoints")
    assert run.checkpoints.every == Duration(1800)
    assert run.resources.memory == Bytes(2**33)
    assert run.waivers[0].expires == date(2030, 1, 31)
    assert isinstance(run.workload, TrainerWorkload)
    assert run.workload.optimizer.kind == "adamw"


# What is replaced, by what; then code, line, message and fix.
CASES = [
    ("nodes: 2", "nods: 2", "TW105", 7, "no key `nods` in topology", "did you mean `nodes`?"),
    ("gpus_per_node: 0", "gpusPerNode: 0", "TW105", 7, "no key `gpusPerNode`", "`gpus_per_node`"),
    ("trainer_version:", "epochs:", "TW105", 6, "no key `epochs` at the top level", "move it to `workload` (of kind trainer)"),
    ("  epochs: 3", "  epochs: 3\n  batch: {micro: 1}", "TW105", 17, "`batch` in workload", "move it to the top level"),
    ("micro: 32", "micro: 32, depth: 5", "TW105", 8, "no key `depth` in batch", "remove it; known keys: micro, accumulation"),
    ("claim: checkpoints", "clam: checkpoints", "TW105", 20, 'no key `clam` in mounts["/checkpoints"]', "did you mean `claim`?"),
    ("team: vision\n", "", "TW106", 1, "key `team` is missing", "add `team: …` (text)"),
    (", gpus_per_node: 0", "", "TW106", 7, "`topology` has no key `gpus_per_node`", "add `gpus_per_node: …` (a whole number)"),
    ("{secret: hub, key: token}", "{secret: hub}", "TW106", 22, "`env.TOKEN` has no key `key`", "add `key: …` (text)"),
    ("  kind: trainer\n", "", "TW106", 10, "`workload` has no key `kind`", "one of trainer, boosting, script, command"),
    ("{source: digits}", "{sourc: digits}", "TW106", 14, "no key `source`", "instead of `sourc`"),
    ("[0.9, 0.99]", "[0.9]", "TW106", 15, "`workload.optimizer.betas` needs one more item", "add a number"),
    ("kind: trainer", "kind: trainr", "TW107", 11, "`workload.kind` cannot be trainr", "did you mean trainer?"),
    ("image-classification", "classify", "TW107", 12, "`workload.task` cannot be classify", "one of image-class"),
    ("nodes: 2", "nodes: '2'", "TW107", 7, '`topology.nodes` must be a whole number, not "2"', "write 2 without quotes"),
    ("nodes: 2", "nodes: 2.0", "TW107", 7, "must be a whole number, not 2.0", "write 2"),
    ("nodes: 2", "nodes: true", "TW107", 7, "must be a whole number, not true", "write a whole number"),
    ("nodes: 2", "nodes: 0", "TW107", 7, "must be at least 1, not 0", "write 1 or more"),
    ("nodes: 2", "nodes: 5000", "TW107", 7, "must be at most 4,096, not 5000", "write 4,096 or less"),
    ("base: 2e-3", "base: 0", "TW107", 9, "must be more than 0, not 0", "write a number above 0"),
    ("base: 2e-3", "base: '2e-3'", "TW107", 9, "must be a number", "write 2e-3 without quotes"),
    ("team: vision", "team: 5", "TW107", 2, "`team` must be text, not 5", 'write "5" in quotes'),
    ("team: vision", "team: Vision_Lab", "TW107", 2, "must be lower case letters", "write vision-lab"),
    ("team: vision", "team: ''", "TW107", 2, "`team` is empty", "write at least 1 character"),
    ("run: digits", "run: " + "a" * 41, "TW107", 1, "`run` has 41 characters", "write at most 40 characters"),
    ("claim: checkpoints", "claim: c, read_only: yes", "TW107", 20, 'must be true or false, not "yes"', "write true"),
    ("claim: checkpoints", "claim: c, sub_path: a/../b", "TW107", 20, "it must stay inside the volume", "remove '..'"),
    ("{claim: checkpoints}", "{}", "TW107", 20, "none of the forms that it can have", "write `claim: …`, `scratch: …`"),
    ("{claim: checkpoints}", "checkpoints", "TW107", 20, "a claim, scratch space or another volume", "{claim: checkpoints}"),
    ("  /scratch:", "  scratch/:", "TW107", 21, 'the key `mounts["scratch/"]` must be an absolute path', "such as /data"),
    ("  /scratch:", "  /scratch/:", "TW107", 21, "without a slash at its end", "write /scratch"),
    ('"3"', "3", "TW107", 22, "`env.LEVEL` must be text, not 3", 'write "3" in quotes'),
    ('"3"', "[3]", "TW107", 22, "`env.LEVEL` must be text, not a list", "write text"),
    ("every: 30m", "every: 30", "TW107", 17, "`checkpoints.every`: 30 has no unit", "write 30s, 30m or 30h"),
    ("memory: 8Gi", "memory: 8GB", "TW107", 18, "8GB is not a number of bytes", "write 8Gi, or 8G"),
    ("checkpoints: {every: 30m}", "checkpoints:", "TW107", 17, "`checkpoints` is empty", "or remove the key"),
    ("{kind: ddp, nodes: 2, gpus_per_node: 0}", "ddp", "TW107", 7, 'must be a mapping, not "ddp"', "one of ddp, zero1,"),
    ("batch: {micro: 32}", "batch: {micro: 32}\nnodes: 4", "TW105", 9, "no key `nodes` at", "move it to `topology`"),
    ("{claim: checkpoints}", "{claim: checkpoints, scratch: 1Gi}", "TW105", 20, "no key `scratch`", "remove it, or `claim`"),
    ("run: digits", "run: 1.3", "TW107", 1, "`run` must be text, not 1.3", 'write "1.3" in quotes, or "1.30" if that was meant'),
    ("expires: 2030-01-31", "expires: 2030-02-31", "TW107", 24, "must be a day of the calendar", "such as 2026-03-31"),
    ("[0.9, 0.99]", "0.9", "TW107", 15, "must be a list, not 0.9", "write a list"),
    ("[0.9, 0.99]", "[0.9, 0.99, 1]", "TW107", 15, "has 3 items", "write at most 2 items"),
    ("base: 2e-3", "base: 1, scaling: linear", "TW107", 9, "scaling linear needs base_batch", "keys of learning_rate"),
    ("num_channels: 1", "num_channels: 3", "TW107", 10, "digits are grey images", "workload"),
    ("{source: digits}", "{source: python-stdlib}", "TW107", 10, "cannot read data source", "use digits or image-folder, or"),
]


@pytest.mark.parametrize(("old", "new", "code", "line", "message", "fix"), CASES)
def test_one_finding_in_plain_words(old: str, new: str, code: str, line: int, message: str, fix: str) -> None:
    findings = refused(changed(old, new))
    assert [(finding.code, finding.where.line) for finding in findings] == [(code, line)]
    assert message in findings[0].message
    assert fix in findings[0].fix


MANY = [f"K{number}: 3" for number in range(4000)]


@pytest.mark.parametrize(
    "text", [RUN + "\n".join(MANY), RUN.replace("env: {", f"env: {{{', '.join(MANY)}, ")], ids=["unknown keys", "wrong values"]
)
def test_thousands_of_mistakes_are_refused_soon(text: str) -> None:
    """A file that is no run at all is answered at once, and not with a list of thousands."""
    started = time.process_time()
    findings = refused(text)
    assert time.process_time() - started < 3
    assert len(findings) == 50


def test_pointers_and_columns() -> None:
    (finding,) = refused(changed("claim: checkpoints", "claim: c, read_only: yes"))
    assert (finding.where.pointer, finding.where.column) == ("/mounts/~1checkpoints/read_only", 28)
    (finding,) = refused(changed(", gpus_per_node: 0", ""))
    assert finding.where.pointer == "/topology/gpus_per_node"


def test_a_misspelt_key_is_not_a_missing_one_too() -> None:
    assert [finding.code for finding in refused(changed("run: digits", "rum: digits"))] == ["TW105"]


def test_all_findings_of_a_broken_run(snapshot: SnapshotAssertion) -> None:
    text = """\
run: Digits_1
team: 5
namespce: training
image: ""
topology: {kind: dpd, nodes: 0}
workload:
  kind: trainer
  task: causal-lm
  model: {architecture: lama}
  epochs: many
mounts:
  /data: {claim: x, sub_path: 3}
  data: {size: 1Gi}
env: {1A: x, B: {secret: s}}
overrides: {objects: [{target: job-sett, kind: Job, patch: {spec: null}}]}
"""
    stream = io.StringIO()
    render_findings(refused(text), Console(file=stream, force_terminal=False))
    assert stream.getvalue() == snapshot


def test_a_profile_is_read_with_the_same_words() -> None:
    text = "cluster: laptop\nkubernetes: 1.31\nnode_pools:\n  cpu: {cpus: 4, memory: 4Gi, fabric: {kind: infinband}}\nsize: 3\n"
    assert [(finding.where.line, finding.message, finding.fix) for finding in refused(text, Cluster)] == [
        (2, "`kubernetes` must be text, not 1.31", 'write "1.31" in quotes'),
        (4, "`node_pools.cpu.fabric.kind` cannot be infinband", "did you mean infiniband? Allowed: tcp, infiniband, roce, efa"),
        (5, "there is no key `size` at the top level", "move it to `namespaces.<name>.claims.<name>`"),
    ]


def test_the_place_of_what_is_too_deep_can_be_read() -> None:
    deep: dict[str, Any] = {}
    for _ in range(400):
        deep = {"x": deep}
    with pytest.raises(CompileError) as caught:
        validate_data(Run, {"files": {5: deep}}, None, {})
    assert max(len(str(finding.where)) for finding in caught.value.findings) < 1000


def test_python_values_with_models_among_them() -> None:
    data = {**parse_yaml(RUN, "run.yaml").data, "topology": DDP(kind="ddp", nodes=3, gpus_per_node=0), "waivers": []}
    assert validate_data(Run, data, None, {}).topology.nodes == 3
    with pytest.raises(CompileError) as error:
        validate_data(Run, {**data, "teem": 1, "topology": 3}, "chart.py", {"": (7, 1)})
    assert [(finding.code, finding.where.pointer, finding.where.line) for finding in error.value.findings] == [
        ("TW107", "/topology", 7), ("TW105", "/teem", 7),
    ]


def _places(value: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield way
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(item, (*way, key))


DATA = parse_yaml(RUN, "run.yaml").data
NAMES = st.text(max_size=9)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | NAMES
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2))


@settings(deadline=None)
@given(st.sampled_from([way for way in _places(DATA) if way]), st.booleans(), NAMES, ANYTHING)
def test_any_change_of_a_run_is_a_run_or_findings(way: tuple[str | int, ...], rename: bool, name: str, value: Any) -> None:
    data = copy.deepcopy(DATA)
    parent = data
    for key in way[:-1]:
        parent = parent[key]  # type: ignore[index]
    if rename and isinstance(parent, dict):
        parent[name] = parent.pop(str(way[-1]))
    else:
        parent[way[-1]] = value  # type: ignore[index]
    findings: tuple[Finding, ...] = ()
    try:
        validate(Run, Document("run.yaml", data, {"": (1, 1)}))
    except CompileError as error:
        findings = error.findings
    assert all(finding.fix and finding.message and finding.where.line == 1 for finding in findings)
    assert all("Input" not in finding.message and len(finding.message) <= 240 for finding in findings)
