"""Each word that people bring from elsewhere is told what it is here, and each line that is proposed for it compiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel
from tests.compiler.findings.page import overlay

from trainwright.cluster import Cluster
from trainwright.compile import compile_run
from trainwright.findings import CompileError, Finding
from trainwright.reading import validate_data
from trainwright.reading.document import parse_yaml, read_yaml
from trainwright.reading.words import KEYS, VALUES, Word
from trainwright.run import Run

ROOT = Path(__file__).resolve().parents[3]
Data = dict[str, Any]
Path_ = tuple[str, ...]

OPERATORS = {
    "training-operator": {"version": "1.9"}, "mpi-operator": {"version": "0.6"}, "kuberay": {"version": "1.4"},
    "trainer": {"version": "2.1"}, "jobset": {"version": "0.12"},
}
CLUSTER: Data = overlay(read_yaml(ROOT / "charts" / "clusters" / "h100-ib.yaml").data, {
    "operators": overlay(OPERATORS, {"training-operator": {"init_image": "registry.example.com/alpine:3.20"}}),
    "kueue": {"version": "0.15"}, "package_index": "https://pypi.example.com/simple",
    "namespaces": {"training": {"pod_security": "baseline", "queues": {"training": {"cluster_queue": "shared"}}}},
})  # fmt: skip
TRAINER: Data = overlay(read_yaml(ROOT / "charts" / "runs" / "digits-ddp.yaml").data, {
    "cluster": "h100-ib", "topology": {"kind": "ddp", "nodes": 2, "gpus_per_node": 8},
})  # fmt: skip
def put(data: Data, path: Path_, value: Any) -> Data:
    """The data with a value at a path, and mappings on the way where there are none."""
    key, *below = path
    held = data.get(key)
    return data | {key: put(held if isinstance(held, dict) else {}, tuple(below), value) if below else value}


NOTHING = dict.fromkeys(("batch", "learning_rate"))
SCRIPT: Data = overlay(TRAINER, NOTHING | {"workload": {"kind": "script", "command": ["python", "/app/train.py"]}})
SCRIPT |= {"security": {"user": 1000}, "workload": {"kind": "script", "command": ["python", "/app/train.py"]}}
COMMAND: Data = SCRIPT | {"workload": {"kind": "command", "command": ["torchrun", "/app/train.py"]}}
FURTHER: Data = SCRIPT | {"target": "job-set", "roles": {"eval": {"command": ["python", "/app/eval.py"]}}}
ELASTIC: Data = SCRIPT | {"target": "pytorch-job"}
GROWN: Data = put(ELASTIC, ("topology", "elastic"), {"min_nodes": 1, "max_nodes": 4})
LANGUAGE: Data = read_yaml(ROOT / "charts" / "runs" / "llama-1b-ddp.yaml").data
MPIRUN = {"kind": "command", "command": ["mpirun", "-np", "16", "--hostfile", "/etc/mpi/hostfile", "python", "/app/train.py"]}
OTHERS = (SCRIPT | {"target": "mpi-job", "workload": MPIRUN}, SCRIPT | {"target": "tf-job"}, COMMAND | {"target": "ray-job"})
RUNS = (SCRIPT, TRAINER, COMMAND, FURTHER, ELASTIC, GROWN, LANGUAGE, *OTHERS)


class Met(NamedTuple):
    """A word where somebody wrote it."""

    model: type[BaseModel]
    row: Word
    path: Path_
    """Of the key."""
    value: Any
    is_value: bool

    @property
    def id(self) -> str:
        return f"{'.'.join(self.path)}: {self.value}" if self.is_value else ".".join(self.path)


SAMPLES: Data = {"text": "training-checkpoints", "number": 8, "list": ["a"], "mapping": {"a": "b"}, "true": True}
NAMES = {"mounts": "/data", "env": "LEVEL", "roles": "eval", "node_pools": "h100", "namespaces": "training"}


def met(model: type[BaseModel]) -> Iterator[Met]:
    """Every word of every row, in a place where it may stand."""
    for row in KEYS[model.__name__]:
        at = _path("" if row.at == "/" else row.at)
        for word in row.words.split(", "):
            yield Met(model, row, (*at, word), {"some": "value"}, is_value=False)
    for row in VALUES[model.__name__]:
        for word in row.words.split(", "):
            yield Met(model, row, _path(row.at), SAMPLES.get(word, word), is_value=True)


def _path(at: str) -> Path_:
    path: Path_ = ()
    for key in at.split(".") if at else ():
        path = (*path, NAMES[path[-1]] if key == "<name>" else key)
    return path


def refused(model: type[BaseModel], data: Data) -> list[Finding]:
    with pytest.raises(CompileError) as error:
        validate_data(model, data, None, {})
    return list(error.value.findings)


def bases(one: Met) -> list[Data]:
    return [CLUSTER] if one.model is Cluster else list(RUNS)


def compiles(model: type[BaseModel], data: Data) -> list[Finding]:
    """What stands against it."""
    data = {key: value for key, value in data.items() if value is not None}
    try:
        if model is Cluster:
            validate_data(Cluster, data, None, {})
        else:
            compile_run(validate_data(Run, data, None, {}), validate_data(Cluster, CLUSTER, None, {}), today=date(2026, 7, 1))
    except CompileError as error:
        return list(error.findings)
    return []


def ways(text: str) -> list[list[str]]:
    """The lines of each way: ``or`` stands between them."""
    return [lines for part in re.split(r"\bor\b(?=[^`]*`)", text) if (lines := re.findall("`([^`]+)`", part))]


EVERY = [one for model in (Run, Cluster) for one in met(model)]
every_word = pytest.mark.parametrize("one", EVERY, ids=[one.id for one in EVERY])


@every_word
def test_a_word_is_told_what_it_is_here(one: Met) -> None:
    key = one.path[-1]
    for base in bases(one):
        said = [finding for finding in refused(one.model, put(base, one.path, one.value)) if one.row.here in finding.message]
        if said:
            break
    (finding,) = said
    assert finding.code == ("TW107" if one.is_value else "TW105")
    assert (one.row.lines(key, one.value) if one.row.write else "remove it") in finding.fix or one.row.to == ".."
    assert len(finding.message) < 240
    assert len(finding.fix) < 240


@every_word
def test_each_line_compiles_where_it_is_pasted(one: Met) -> None:
    above = one.path[:-1]
    to = above if one.row.to is None else above[:-1] if one.row.to == ".." else _path(one.row.to)
    key = above[-1] if one.row.to == ".." else one.path[-1]
    for lines in ways(one.row.lines(key, one.value)) or [[]]:
        problems = list[list[Finding]]()
        for data in bases(one):
            if one.is_value and one.row.to is not None and one.path == ("target",):
                data = overlay(data, {"target": None})
            for line in lines:
                ((written, value),) = parse_yaml(line.replace("sha256:DIGEST", f"sha256:{'b' * 64}"), "line").data.items()
                data = put(data, (*to, written), value)
            problems.append(compiles(one.model, data))
            if not problems[-1]:
                break
        assert [] in problems, (lines, [[finding.message for finding in found] for found in problems])


def test_no_word_has_two_rows_for_one_place() -> None:
    for rows in (*KEYS.values(), *VALUES.values()):
        said = [(row.at, word.replace("_", "").replace("-", "")) for row in rows for word in row.words.split(", ")]
        assert not [one for one in said if said.count(one) > 1]


@pytest.mark.parametrize(("change", "fix"), [
    ({"gpus": 4}, "in `topology`, write `gpus_per_node: 4`"),
    ({"topology": {"GPUs": 4}}, "write `gpus_per_node: 4`"),
    ({"resources": {"nvidia.com/gpu": 4}}, "in `topology`, write `gpus_per_node: 4`"),
    ({"numNodes": 3}, "in `topology`, write `nodes: 3`"),
    ({"pvc": "my-data"}, "write `mounts: {/checkpoints: {claim: my-data}}`"),
    ({"mounts": {"/data": {"pvc": "my-data"}}}, "write `claim: my-data`"),
    ({"mounts": {"/data": {"emptyDir": {}}}}, "write `scratch: 100Gi`"),
    ({"mounts": {"/data": "my-data"}}, "write `/data: {claim: my-data}` for a claim of the namespace, or `/data: {scratch: "),
    ({"mounts": {"/data": "20Gi"}}, "or `/data: {scratch: 20Gi}` for space that goes with the pod"),
    ({"learning_rate": 2e-5}, "write `learning_rate: {base: 2e-05}`"),
    ({"batch": 32}, "write `batch: {micro: 32}`"),
    ({"env": {"TOKEN": {"valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}}}, "write `secret: hugging-face`"),
    ({"env": {"LEVEL": {"value": "info"}}}, "in `env`, write `LEVEL: info`"),
])  # fmt: skip
def test_a_line_has_what_the_user_wrote(change: Data, fix: str) -> None:
    (finding,) = refused(Run, overlay(TRAINER, change))
    assert finding.fix.startswith(fix) or finding.fix.find(f", {fix}") > 0


def test_what_the_lines_state_is_not_said_to_be_missing() -> None:
    said = refused(Run, overlay(TRAINER, {"topology": {"elastic": {"min": 1, "max": 3}}}))
    assert [finding.fix for finding in said] == ["write `min_nodes: 1`", "write `max_nodes: 3`"]


@pytest.mark.parametrize("mount", [{"gcs": "b"}, {"gcs": "b", "read_only": True}, {"pvc": "data", "medium": "Memory"}])
def test_a_word_among_several_forms_leaves_no_form_incomplete(mount: Data) -> None:
    said = refused(Run, overlay(TRAINER, {"mounts": {"/y": mount}}))
    assert "TW106" not in {finding.code for finding in said}


def test_a_key_is_moved_to_what_every_run_has_first() -> None:
    (finding,) = refused(Run, overlay(TRAINER, {"memory": "4Gi"}))
    assert finding.fix.startswith("move it to `resources`")


@pytest.mark.parametrize("change", [
    {"containers": [{"name": "a", "kind": "sidecar", "image": "a", "volumes": []}]},
    {"probes": {"alive": {"timeout": "3s", "port": 80}}},
])  # fmt: skip
def test_a_key_that_a_place_knows_in_another_form_is_no_such_word(change: Data) -> None:
    fixes = [finding.fix for finding in refused(Run, overlay(TRAINER, change))]
    assert not [fix for fix in fixes if "mounts:" in fix or "deadline" in fix]


def test_defaults_know_the_same_words() -> None:
    from trainwright.run.defaults import Defaults

    (finding,) = refused(Defaults, {"clusters": {"h100-ib": {"mounts": {"/data": {"pvc": "my-data"}}}}})
    assert finding.fix == "write `claim: my-data`"


def test_a_word_that_no_row_has_is_answered_as_before() -> None:
    (finding,) = refused(Run, overlay(TRAINER, {"topology": {"node": 3, "nodes": None}}))
    assert finding.fix == "did you mean `nodes`?"
