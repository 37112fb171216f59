"""Defaults beneath runs: what wins, where it is, and that a merged run is the run written out in full."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tests.compiler.compiling import compile_data, written
from tests.compiler.strategies import pairs

from trainwright.findings import CompileError, Finding
from trainwright.findings.locate import Locator
from trainwright.reading import validate
from trainwright.reading.defaults import DefaultsFile, read_defaults
from trainwright.reading.document import Document, parse_yaml
from trainwright.report.facts import default_facts
from trainwright.report.schema import file_schema_of
from trainwright.run import Run
from trainwright.run.defaults import CHOOSERS, OWN, Defaults

Data = dict[str, Any]

RUN = """\
run: probe
namespace: training
image: registry.example.com/x:1
topology: {kind: ddp, nodes: 2, gpus_per_node: 0}
workload: {kind: command, command: ["true"]}
env: {SAID: by the run, ALL: null}
security: {user: 1000}
queue: null
"""
DEFAULTS = """\
all:
  cluster: lab
  image: registry.example.com/all:1
  env: {ALL: a, SAID: all, EACH: all}
  queue: batch
  restarts: 1
  image_pull_secrets: [one, two]
clusters:
  lab:
    team: nlp
    restarts: 2
    security: {user: 7, group: 8}
    mounts:
      /data: {claim: data, read_only: true}
namespaces:
  training:
    restarts: 3
    mounts: {/data: {claim: other}}
teams:
  nlp:
    env:
      EACH: nlp
    image_pull_secrets: [three]
    restarts: 4
  cv: {restarts: 5}
"""


def defaults_of(text: str, folder: Path) -> DefaultsFile:
    path = folder / "defaults.yaml"
    path.write_text(text, encoding="utf-8")
    return read_defaults(path, "charts/defaults.yaml")


def refused(text: str, folder: Path) -> Finding:
    with pytest.raises(CompileError) as error:
        defaults_of(text, folder)
    (finding,) = error.value.findings
    return finding


def test_the_special_wins_over_the_general_and_the_run_over_all(tmp_path: Path) -> None:
    merged = defaults_of(DEFAULTS, tmp_path).merged(parse_yaml(RUN, "charts/runs/probe.yaml"))
    run = validate(Run, merged)
    assert (run.cluster, run.team, run.restarts) == ("lab", "nlp", 4)
    assert run.image == "registry.example.com/x:1"
    assert run.env == {"EACH": "nlp", "SAID": "by the run"}, "mappings merge by key, and null takes a key back"
    assert run.queue is None
    assert (run.security.user, run.security.group) == (1000, 8)
    assert run.image_pull_secrets == ("three",), "lists are replaced"
    assert merged.data["mounts"] == {"/data": {"claim": "other"}}, "a mount is one thing"


def test_what_a_run_has_from_defaults_lies_in_their_file(tmp_path: Path) -> None:
    merged = defaults_of(DEFAULTS, tmp_path).merged(parse_yaml(RUN, "charts/runs/probe.yaml"))
    places = {pointer: str(merged.where(pointer)) for pointer in (
        "/cluster", "/team", "/env", "/env/EACH", "/env/SAID", "/security/group", "/security/user", "/mounts/~1data/claim",
        "/image_pull_secrets/0", "/queue", "/priority",
    )}  # fmt: skip
    shared, own = "charts/defaults.yaml", "charts/runs/probe.yaml"
    assert places == {
        "/cluster": f"{shared}:2:3", "/team": f"{shared}:10:5", "/env": f"{own}:6:1", "/env/EACH": f"{shared}:22:7",
        "/env/SAID": f"{own}:6:7", "/security/group": f"{shared}:12:25", "/security/user": f"{own}:7:12",
        "/mounts/~1data/claim": f"{shared}:18:22", "/image_pull_secrets/0": f"{shared}:23:26", "/queue": f"{own}:8:1",
        "/priority": f"{own}:1:1",
    }  # fmt: skip
    locate = Locator(own, merged.positions, defaulted=merged.defaulted)
    assert str(locate.source("run:/env/EACH")) == f"{shared}:22:7"
    assert locate.source("run:/priority") is None
    assert default_facts(merged.defaulted.values) == {
        "cluster": "lab", "team": "nlp", "env/EACH": "nlp", "security/group": 8, "mounts//data/claim": "other",
        "image_pull_secrets": "three", "restarts": 4,
    }  # fmt: skip


def test_nothing_stays_of_a_merge_in_the_defaults(tmp_path: Path) -> None:
    defaults = defaults_of(DEFAULTS, tmp_path)
    before = copy.deepcopy(defaults.document.data)
    defaults.merged(parse_yaml(RUN, "charts/runs/probe.yaml"))
    assert defaults.document.data == before


@pytest.mark.parametrize(
    ("text", "code", "line", "message", "fix"),
    [
        ("all: {restart: 3}", "TW105", 1, "no key `restart` in all", "did you mean `restarts`?"),
        ("everyone: {restarts: 3}", "TW105", 1, "no key `everyone`", "known keys: all, clusters, namespaces, teams"),
        ("teams:\n  nlp: {restarts: many}", "TW107", 2, "`teams.nlp.restarts` must be a whole number", "a whole number"),
        ("all:\n  state: done", "TW105", 2, "no key `state`", ""),
        ("clusters:\n  lab: {cluster: other}", "TW105", 2, "no key `cluster`", "move it to `all`"),
        ("all:\n  image: null", "TW107", 2, "`all.image`", "text"),
        ("clusters:\n  lab:", "TW107", 2, "`clusters.lab` is empty", "remove the key"),
        ("teams:\n  nlp:\n    mounts: {/data: {clam: data}}", "TW105", 3, "no key `clam`", "did you mean `claim`?"),
        ("all:\n  resources: {cpu: 2, requests: {cpu: 4}}", "TW107", 2, "requests.cpu is 4", "lower the request"),
        ("teams:\n  A b: {restarts: 3}", "TW107", 2, "the key `teams[\"A b\"]`", "write a-b"),
        ("[]", "TW104", 1, "a list", "key: value"),
    ],
)
def test_what_is_wrong_is_said_of_the_defaults_alone(
    text: str, code: str, line: int, message: str, fix: str, tmp_path: Path
) -> None:
    finding = refused(text, tmp_path)
    assert (finding.code, finding.where.file, finding.where.line) == (code, "charts/defaults.yaml", line), finding
    assert message in finding.message, finding
    assert fix in finding.fix, finding


def test_a_special_default_can_take_back_a_general_one(tmp_path: Path) -> None:
    text = "all: {queue: batch, env: {A: a, B: b}, security: {user: 5, group: 6}}\n" \
           "teams: {nlp: {queue: null, env: {A: null}, security: {user: null}}}\n"
    data, defaulted = defaults_of(text, tmp_path).beneath({"team": "nlp"})
    assert data == {"env": {"B": "b"}, "security": {"group": 6}, "team": "nlp"}
    assert set(defaulted.positions) == {"/env", "/env/B", "/security", "/security/group"}


COMMAND = 'workload: {kind: command, command: ["true"]}'


@pytest.mark.parametrize(
    ("workload", "lineage"),
    [
        (COMMAND, "first"),
        ('workload: {kind: command, command: ["true"], resume_from: /checkpoints/old}', "first"),
        ("workload: {kind: trainer}", None),
        ("workload: {kind: boosting}", None),
    ],
)
def test_a_lineage_in_the_defaults_is_for_those_that_have_none_of_their_own(
    tmp_path: Path, workload: str, lineage: str | None
) -> None:
    own = parse_yaml(RUN.replace(COMMAND, workload), "run.yaml")
    document = defaults_of("all: {checkpoints: {lineage: first, keep: 4}}\n", tmp_path).merged(own)
    assert document.data["checkpoints"] == {**({"lineage": lineage} if lineage else {}), "keep": 4}
    assert document.defaulted.values["checkpoints"] == document.data["checkpoints"]
    alone = defaults_of("all: {checkpoints: {lineage: first}}\n", tmp_path).merged(own)
    assert ("checkpoints" in alone.data) == ("checkpoints" in alone.defaulted.values) == bool(lineage)


def test_null_in_a_run_is_an_error_where_no_default_has_the_key(tmp_path: Path) -> None:
    merged = defaults_of("all: {restarts: 3}", tmp_path).merged(parse_yaml(RUN + "team: nlp\ncluster: lab\n", "run.yaml"))
    with pytest.raises(CompileError, match=r"env\.ALL"):
        validate(Run, merged)


def test_the_schema_of_editors_takes_what_is_read_and_refuses_what_is_not() -> None:
    check = jsonschema.Draft202012Validator(file_schema_of(Defaults))
    assert not list(check.iter_errors(parse_yaml(DEFAULTS, "x").data))
    assert list(check.iter_errors({"all": {"workload": {"kind": "command", "command": ["true"]}}}))
    layer = file_schema_of(Defaults)["$defs"]["OfAll"]["properties"]
    assert layer["restarts"]["description"].startswith("How many failures may count")
    assert not [name for name, schema in layer.items() if "default" in schema]
    assert file_schema_of(Run)["required"] == ["run", "topology", "workload"], "what defaults can say is not missed by an editor"
    assert set(layer) == set(Run.model_fields) - OWN


# The law: defaults beneath a run are the run written out in full.


@st.composite
def split_runs(draw: st.DrawFn) -> tuple[Data, Data, Data, Data]:
    """A cluster, a run, what is left of it, and defaults that say the rest, each on a layer that holds for the run."""
    cluster, run = draw(pairs())
    left, groups = copy.deepcopy(run), {"all": {"restarts": 77, "image": "registry.example.com/of-no-run:1"}}
    layers = {"all": groups["all"], **{group: {} for group in CHOOSERS.values()}}
    for field in sorted(run.keys() - OWN - CHOOSERS.keys() - {name for name, value in run.items() if value is None}):
        layer = layers[draw(st.sampled_from(tuple(layers)))]
        keys = list(run[field]) if isinstance(run[field], dict) else []
        count = draw(st.integers(0, len(keys)))
        if 0 < count < len(keys):
            layer[field] = {key: run[field][key] for key in keys[:count]}
            left[field] = {key: run[field][key] for key in keys[count:]}
        elif draw(st.booleans()):
            layer[field] = left.pop(field)
    groups |= {group: {run[field]: layers[group]} for field, group in CHOOSERS.items()}
    for field in CHOOSERS:
        if draw(st.booleans()):
            groups["all"][field] = left.pop(field)
    if "restarts" not in run:
        run["restarts"] = left["restarts"] = 3
    return cluster, run, left, groups


@given(split_runs())
@settings(max_examples=25)
def test_a_merged_run_is_the_run_written_out_in_full(drawn: tuple[Data, Data, Data, Data]) -> None:
    cluster, run, left, groups = drawn
    defaults = DefaultsFile(Path("defaults.yaml"), Document("charts/defaults.yaml", groups, {}))
    merged = defaults.merged(parse_yaml(written(left), "run.yaml"))
    assert merged.data == run
    compiled, expected = compile_data(cluster, merged.data), compile_data(cluster, run)
    assert (compiled.identity, compiled.manifests) == (expected.identity, expected.manifests)
    assert compiled.findings == expected.findings


@given(split_runs())
@settings(max_examples=15)
def test_a_run_in_python_has_the_same_defaults(drawn: tuple[Data, Data, Data, Data]) -> None:
    _, run, left, groups = drawn
    defaults = DefaultsFile(Path("defaults.yaml"), Document("charts/defaults.yaml", groups, {}))
    if not {"team", "namespace", "cluster", "image"} <= left.keys():
        left |= {field: run[field] for field in ("team", "namespace", "cluster", "image")}
    try:
        made = validate(Run, parse_yaml(written(left), "run.yaml"))
    except CompileError:
        reject()  # a `Run` is whole by itself: what is left of one may be none
    data, _ = defaults.beneath({name: getattr(made, name) for name in made.model_fields_set})
    assert Run.model_validate(data) == validate(Run, parse_yaml(written(run), "run.yaml"))
