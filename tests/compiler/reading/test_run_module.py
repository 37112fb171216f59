"""Runs written in Python."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.findings import CompileError, Finding
from trainwright.reading import validate
from trainwright.reading.defaults import DefaultsFile
from trainwright.reading.document import Document, parse_yaml
from trainwright.reading.run_module import load_python_runs
from trainwright.run import Run
from trainwright.units import Cpu

GOOD = """\
from trainwright.run import CommandWorkload, Run
from trainwright.topology import DDP

NODES = 2
print("planning")
RUN = Run(
    run="probe", team="nlp", namespace="training", cluster="laptop", image="registry.example.com/x:1",
    topology=DDP(kind="ddp", nodes=NODES, gpus_per_node=0),
    workload=CommandWorkload(kind="command", command=("true",)),
)
"""
MIXED = GOOD.replace(" Run(", " dict(")
"""A dict that holds models."""
PLAIN = GOOD.replace(" Run(", " dict(").replace("DDP(", "dict(").replace("CommandWorkload(", "dict(")


def refused(folder: Path, text: str) -> tuple[Finding, ...]:
    path = folder / "probe.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CompileError) as error:
        load_python_runs(path, "charts/runs/probe.py")
    return error.value.findings


def test_a_module_is_read_preserving_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "probe.py"
    path.write_text(GOOD, encoding="utf-8")
    before = set(sys.modules)
    ((run, *_),) = load_python_runs(path)
    assert (run.run, run.topology.nodes) == ("probe", 2)
    assert not [name for name in sys.modules.keys() - before if "probe" in name]
    assert [entry.name for entry in tmp_path.iterdir()] == ["probe.py"]
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "planning\n")


@pytest.mark.parametrize("text", [
    PLAIN, MIXED, MIXED.replace('kind="ddp", ', "").replace('kind="command", ', ""), MIXED.replace("(\"true\",)", "['true']"),
])  # fmt: skip
def test_a_dict_is_a_run_too_also_with_models(tmp_path: Path, text: str) -> None:
    path = tmp_path / "probe.py"
    path.write_text(text, encoding="utf-8")
    ((run, *_),) = load_python_runs(path)
    path.write_text(GOOD, encoding="utf-8")
    ((expected, *_),) = load_python_runs(path)
    assert run == expected


TYPED = """\
from trainwright.run import *
from trainwright.topology import DDP
from trainwright_trainer.contract.data import Digits
from trainwright_trainer.contract.model import ViT

RUNS = [dict(
    run="probe-1", topology=DDP(nodes=2, gpus_per_node=0), batch=Batch(micro=8), resources=Resources(memory="4Gi"),
    mounts={"/data": ClaimMount(claim="data")}, security=Security(user=1000), learning_rate=LearningRate(base=2e-3),
    workload=TrainerWorkload(task="image-classification", epochs=3, data=Digits(), model=ViT(
        image_size=8, patch_size=2, num_channels=1, num_labels=10,
        hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)),
)]
"""
WRITTEN = """\
run: probe-1
topology: {kind: ddp, nodes: 2, gpus_per_node: 0}
batch: {micro: 8}
resources: {memory: 4Gi}
mounts: {/data: {claim: data}}
security: {user: 1000}
learning_rate: {base: 0.002}
workload:
  kind: trainer
  task: image-classification
  epochs: 3
  data: {source: digits}
  model: {architecture: vit, image_size: 8, patch_size: 2, num_channels: 1, num_labels: 10, hidden_size: 64,
          intermediate_size: 128, num_hidden_layers: 2, num_attention_heads: 4}
"""


def test_defaults_lie_beneath_what_models_state(tmp_path: Path) -> None:
    """As beneath a file: what a model has by default is nothing that the run states."""
    groups = {"all": {
        "team": "nlp", "namespace": "training", "cluster": "laptop", "image": "registry.example.com/x:1",
        "resources": {"cpu": 3}, "security": {"group": 8},
    }}  # fmt: skip
    defaults = DefaultsFile(tmp_path / "defaults.yaml", Document("charts/defaults.yaml", groups, {}))
    path = tmp_path / "probe.py"
    path.write_text(TYPED, encoding="utf-8")
    ((run, *_),) = load_python_runs(path, "charts/runs/probe.py", defaults)
    assert run == validate(Run, defaults.merged(parse_yaml(WRITTEN, "run.yaml")))
    assert (run.team, run.resources.cpu, run.security.group) == ("nlp", Cpu.parse(3), 8)


@pytest.mark.parametrize(
    ("text", "code", "line", "message", "fix"),
    [
        ("import os\nimport cdk8s\n", "TW108", 2, "may not import cdk8s", "trainwright.run"),
        ("from constructs import Construct\n", "TW108", 1, "may not import constructs", "trainwright.run"),
        ("import cdk8s._jsii\n", "TW108", 1, "may not import cdk8s", "trainwright.run"),
        ("import cdk8s_plus_33\n", "TW108", 1, "may not import", "trainwright.run"),
        ("import trainwright.cdk8s\n", "TW108", 1, "may not import trainwright.cdk8s", "trainwright.run"),
        ("x = 1\ndef f(:\n", "TW108", 2, "not valid Python", "syntax"),
        ("def f():\n    return 1 / 0\n\nRUN = f()\n", "TW108", 2, "ZeroDivisionError: division by zero", "correct this line"),
        ("import json\njson.loads('{')\n", "TW108", 2, "JSONDecodeError", "correct this line"),
        ("raise ValueError('a\\nb')\n", "TW108", 1, "ValueError: a; b", "correct this line"),
        ("import no_such_package\n", "TW108", 1, "No module named 'no_such_package'", "install the package"),
        ("import sys\nsys.exit(0)\n", "TW108", 2, "ends the program", "remove the call"),
        ("x = 1\n", "TW108", 1, "exports no RUN", "RUN = Run(...)"),
        ("x = 1\nRUN = 3\n", "TW108", 2, "RUN is of type int", "RUN = Run(...)"),
        ("\nRUN = {'run': float('nan')}\n", "TW108", 2, "what JSON cannot", "finite numbers"),
        (GOOD.replace("NODES = 2", "NODES = 0"), "TW107", 8, "`nodes` must be at least 1", "1 or more"),
        (GOOD.replace("team=", "teem="), "TW105", 6, "no key `teem`", "did you mean `team`?"),
        (PLAIN.replace("team=", "teem="), "TW105", 6, "no key `teem`", "did you mean `team`?"),
        (MIXED.replace("nodes=NODES", "nodes=0"), "TW107", 8, "`nodes` must be at least 1", "1 or more"),
        (f"{MIXED}RUN['topology'] = RUN['topology'].model_copy(update={{'nodes': 0}})\n",
         "TW107", 6, "`topology.nodes` must be at least 1", "1 or more"),
        ("x = 1\nRUN = {'run': object()}\n", "TW108", 2, "what JSON cannot: Object of type object", "types of trainwright.run"),
        ("import asyncio\nraise asyncio.CancelledError()\n", "TW108", 2, "CancelledError", "correct this line"),
        ("x = 1\nraise KeyboardInterrupt\n", "TW108", 2, "KeyboardInterrupt", "correct this line"),
        ("def f():\n    f()\nf()\n", "TW108", 2, "RecursionError", "correct this line"),
        ("import typing as t\nimport pydantic as p\nclass Own(p.BaseModel):\n    f: t.Callable\n    n: int\nOwn(f=len, n='x')\n",
         "TW107", 6, "`n` must be a whole number", "write a value"),  # a model of their own that no JSON Schema describes
        ("from collections import UserDict as D\nclass Mine(D):\n    def keys(self):\n        raise LookupError\nRUN = Mine()\n",
         "TW108", 5, "what JSON cannot", "text"),
    ],
)
def test_refused(tmp_path: Path, text: str, code: str, line: int, message: str, fix: str) -> None:
    finding = refused(tmp_path, text)[0]
    assert (finding.code, finding.where.file, finding.where.line) == (code, "charts/runs/probe.py", line)
    assert message in finding.message
    assert fix in finding.fix


COPIED = f"{GOOD}RUN = RUN.model_copy(update=%s)\n"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (COPIED % {"restarts": "three"}, "TW107", "`restarts` must be a whole number"),
        (COPIED % "{'restarts': 10**5000}", "TW107", "`restarts` is a number beyond 2^53"),
        (COPIED % "{'files': {'/a': {'b': [{'c': 10**5000}]}}}", "TW107", '`files["/a"].b[0].c` is a number beyond 2^53'),
        (COPIED % "dict(topology=RUN.topology.model_copy(update={'kind': 10**5000}))", "TW107", "`topology.kind` is a number"),
        (COPIED % {"labels": {"bad key!": "x"}}, "TW107", 'the key `labels["bad key!"]`'),
        (COPIED % {"overrides": {"pod": {"node": {"a": [{1}]}}}}, "TW107", "`overrides.pod.node.a[0]` is nothing that JSON"),
        (COPIED % {"restarst": 1}, "TW105", "no key `restarst`"),
        (COPIED % "{'peer_wait': chr(0xd800)}", "TW107", "half a surrogate pair"),
        (COPIED % "{'peer_wait': object()}", "TW107", "`peer_wait`: a value of type object is not a duration"),
        (COPIED % "dict(topology=RUN.topology.model_copy(update=dict(nodes=-1)))", "TW107", "`topology.nodes` must be at least"),
        (f"{GOOD}RUN.labels['bad key!'] = 'x'\n", "TW107", 'the key `labels["bad key!"]`'),
        (f"{GOOD}RUN = Run.model_construct(run='probe')\n", "TW106", "key `team` is missing"),
        (f"{GOOD}RUN.overrides.pod['node'] = {{'a': RUN.overrides.pod}}\n", "TW107", "`overrides.pod.node.a.node.a` holds"),
    ],
)
def test_what_python_puts_into_a_run_without_validation_is_refused(tmp_path: Path, text: str, code: str, message: str) -> None:
    """``model_copy``, ``model_construct`` and a dict that is changed in place make runs that no YAML could state."""
    finding = refused(tmp_path, text)[0]
    assert (finding.code, finding.where.line) == (code, 6)
    assert message in finding.message


def test_ctrl_c_while_a_module_runs_ends_the_program(tmp_path: Path) -> None:
    (tmp_path / "probe.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", encoding="utf-8")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what it runs in the background without one
    try:
        with pytest.raises(KeyboardInterrupt):
            load_python_runs(tmp_path / "probe.py")
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_missing_module(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as error:
        load_python_runs(tmp_path / "none.py")
    assert [finding.code for finding in error.value.findings] == ["TW101"]


def test_cdk8s_stays_hidden_and_whole_where_the_process_uses_it(tmp_path: Path) -> None:
    """In a chart author's app cdk8s is there already; a run module must not lean on that, nor break it."""
    (tmp_path / "probe.py").write_text("import cdk8s\n", encoding="utf-8")
    program = """
import sys, types
from pathlib import Path
for name in ("cdk8s", "cdk8s._jsii", "constructs", "jsii"):
    sys.modules[name] = types.ModuleType(name)
kept = dict(sys.modules)
from trainwright.findings import CompileError
from trainwright.reading.run_module import load_python_runs
try:
    load_python_runs(Path(sys.argv[1]))
except CompileError as error:
    print(error.findings[0].code)
assert all(sys.modules[name] is kept[name] for name in kept)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "probe.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "TW108\n"
