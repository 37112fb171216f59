"""Every line of dist/ has an answer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.compiler.compiling import TODAY
from tests.compiler.fleets import FLEET
from tests.compiler.projects import ROOT

from trainwright.cli.explain import explainer_for
from trainwright.explain import Explainer, Explanation
from trainwright.findings import CompileError
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project, load_sources

FILES = sorted(path.relative_to(ROOT / "dist").as_posix() for path in (ROOT / "dist").rglob("*.k8s.yaml"))


@cache
def project(root: Path) -> tuple[Project, Build]:
    found = Project(root)
    return found, build_project(load_sources(found), TODAY)


def explainer(name: str, root: Path = ROOT) -> Explainer:
    where, build = project(root)
    made = explainer_for(where, build, where.dist / name)
    assert made is not None
    return made


def walk(explain: Explainer, text: str) -> Iterator[Explanation]:
    """Every answer, checked: one for each line, in order, with words."""
    answers = list(explain.all())
    lines = text.removesuffix("\n").split("\n")
    assert [answer.line for answer in answers] == list(range(1, len(lines) + 1))
    for answer, line in zip(answers, lines, strict=True):
        assert answer.text == line.strip()
        assert len(answer.reason) > 3
        assert answer.reason != "part of the object", f"{answer.pointer} has no reason of its own, and none above it"
        assert answer.pointer or line == "---" or line.startswith("#"), f"no place for {line!r}"
        yield answer


@pytest.mark.parametrize("name", FILES)
def test_every_line_of_dist_has_an_answer(name: str) -> None:
    text = (ROOT / "dist" / name).read_text(encoding="utf-8")
    for answer in walk(explainer(name), text):
        if answer.where is None:
            continue
        assert answer.where.file is not None
        assert (ROOT / answer.where.file).is_file()
        assert answer.where.line is not None


@pytest.fixture(scope="session")
def fleet_dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden fleet, written by cdk8s: what no run of this repository has."""
    from trainwright.cdk8s import write_files

    folder = tmp_path_factory.mktemp("fleet")
    (folder / "charts").symlink_to(FLEET / "charts")
    outputs = project(FLEET)[1].outputs
    write_files({path: output.manifests for path, output in outputs.items()}, folder / "dist")
    return folder


def test_every_line_of_the_fleet_has_an_answer(fleet_dist: Path) -> None:
    for path in sorted((fleet_dist / "dist").rglob("*.k8s.yaml")):
        name = path.relative_to(fleet_dist / "dist").as_posix()
        assert list(walk(explainer(name, fleet_dist), path.read_text(encoding="utf-8")))


def line_of(file: str, text: str) -> int:
    """Number of the line of a user's file that holds a text."""
    (number,) = [number for number, line in enumerate((ROOT / file).read_text(encoding="utf-8").split("\n"), 1) if text in line]
    return number


DIGITS, LLAMA = "laptop/training/runs/digits-ddp.k8s.yaml", "h100-ib/training/runs/llama-1b-ddp.k8s.yaml"


@pytest.mark.parametrize(
    ("name", "pointer", "file", "text"),
    [
        (DIGITS, "/Job/spec/completions", "charts/runs/digits-ddp.yaml", "nodes: 2"),
        (DIGITS, "/Job/spec/template/spec/containers/0/image", "charts/runs/digits-ddp.yaml", "image: "),
        (DIGITS, "/ConfigMap/data/run.json#/work/model/hidden_size", "charts/runs/digits-ddp.yaml", "hidden_size: 64"),
        (DIGITS, "/ConfigMap/data/run.json#/work/model/num_labels", "charts/runs/digits-ddp.yaml", "num_labels: 10"),
        (DIGITS, "/ConfigMap/data/run.json#/work/batch/micro", "charts/runs/digits-ddp.yaml", "batch: {micro: 32}"),
        (DIGITS, "/ConfigMap/data/run.json#/work/checkpoints/every_steps", "charts/runs/digits-ddp.yaml", "every_steps: 100"),
        (
            LLAMA,
            "/Job/spec/template/spec/tolerations/0/key",
            "charts/clusters/h100-ib.yaml",
            "taints: [{key: nvidia.com/gpu, effect: NoSchedule}]\n",
        ),
        (
            "h100-ib/training/foundation/training.k8s.yaml",
            "/PersistentVolumeClaim/spec/resources/requests/storage",
            "charts/clusters/h100-ib.yaml",
            "size: 4Ti",
        ),
        (
            LLAMA,
            "/Job/spec/template/spec/containers/0/resources/limits/nvidia.com~1gpu",
            "charts/runs/llama-1b-ddp.yaml",
            "gpus_per_node: 8",
        ),
        (
            LLAMA,
            "/Job/spec/template/spec/containers/0/resources/limits/rdma~1rdma_shared_device_a",
            "charts/clusters/h100-ib.yaml",
            "resource: rdma/rdma_shared_device_a",
        ),
    ],
)
def test_an_answer_names_the_line_that_decides(name: str, pointer: str, file: str, text: str) -> None:
    answer = explainer(name).pointer(pointer)
    assert answer is not None
    assert answer.where is not None
    expected = first_line_of(file, text) if text.endswith("\n") else line_of(file, text)
    assert (answer.where.file, answer.where.line) == (file, expected)


@pytest.mark.parametrize(
    "pointer", ["/Job/spec/backoffLimitPerIndex", "/Job/spec/template/spec/containers/0/resources/limits/cpu"]
)
def test_a_default_has_no_line(pointer: str) -> None:
    """It stands nowhere in the run's file, and its first line would say nothing."""
    answer = explainer(LLAMA).pointer(pointer)
    assert answer is not None
    assert answer.where is None
    assert answer.reason


def first_line_of(file: str, text: str) -> int:
    return (ROOT / file).read_text(encoding="utf-8").split(text)[0].count("\n") + 1


def test_variables_of_the_fabric_name_the_profile() -> None:
    explain = explainer(LLAMA)
    named = {
        answer.text.removeprefix("- name: "): answer.where for answer in explain.all() if answer.text.startswith("- name: NCCL_")
    }
    assert named.keys() == {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA"}
    for variable, text in (("NCCL_SOCKET_IFNAME", "      interface: eth0"), ("NCCL_IB_HCA", "hca: ")):
        where = named[variable]
        assert where is not None
        assert (where.file, where.line) == ("charts/clusters/h100-ib.yaml", first_line_of("charts/clusters/h100-ib.yaml", text))


def test_overrides_name_their_own_line(fleet_dist: Path) -> None:
    explain = explainer("fabric/training/runs/everything.k8s.yaml", fleet_dist)
    text = (FLEET / "charts/runs/everything.yaml").read_text(encoding="utf-8")
    for pointer, written in (
        ("/Job/spec/template/spec/priorityClassName", "priorityClassName"),
        ("/Job/spec/activeDeadlineSeconds", "activeDeadlineSeconds"),
        ("/Job/metadata/annotations/example.com~1owner", "example.com/owner"),
    ):
        answer = explain.pointer(pointer)
        assert answer is not None
        assert answer.reason == "an override of the run"
        assert answer.where is not None
        assert answer.where.line == text[: text.index(written)].count("\n") + 1


IMAGE = f"registry.example.com/own/image@sha256:{'a' * 64}"
PROFILE = """cluster: here
kubernetes: "1.34"
node_pools: {cpu: {cpus: 64, memory: 256Gi}}
namespaces:
  strict: {pod_security: restricted, claims: {saved: {managed: false}}}
  open: {pod_security: privileged}
"""
HEAD = f"""team: t
cluster: here
image: {IMAGE}
topology: {{kind: ddp, nodes: 2, gpus_per_node: 0, processes_per_node: 1}}
"""
STATED = {
    "open": f"""workload: {{kind: command, command: [python, /app/train.py]}}
namespace: open
security: {{user: 0, capabilities: [SYS_ADMIN], privileged: true}}
containers:
  - {{name: prepare, kind: init, image: {IMAGE}, command: [/prepare], cpu: 1, memory: 1Gi, security: {{privileged: true}}}}
""",
    "strict": """workload: {kind: script, command: [python, /app/train.py]}
mounts: {/checkpoints: {claim: saved}}
checkpoints: {lineage: first}
security: {user: 1000}
""",
}
"""What each run says below its head; ``strict`` has its namespace from the defaults."""


@pytest.fixture(scope="session")
def stated_dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose runs state who they are and where they save, with its ``dist/``."""
    from trainwright.cdk8s import write_files

    folder = tmp_path_factory.mktemp("stated")
    files = {"clusters/here.yaml": PROFILE, "defaults.yaml": "all:\n  namespace: strict\n"}
    files |= {f"runs/{name}.yaml": f"run: {name}\n{HEAD}{text}" for name, text in STATED.items()}
    for name, text in files.items():
        (folder / "charts" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "charts" / name).write_text(text, encoding="utf-8")
    write_files({path: output.manifests for path, output in project(folder)[1].outputs.items()}, folder / "dist")
    return folder


SPEC = "/Job/spec/template/spec"
ASKED, BY_STANDARD = "as asked", "as the `restricted` pod security standard asks"
BY_ALL = "as the run, the profile and the level of the namespace say"
CALLED = "the run's own checkpoint directory, called after its lineage"


@pytest.mark.parametrize(
    ("run", "pointer", "reason", "place"),
    [
        ("open", f"{SPEC}/securityContext", f"who the pod's processes are, {BY_ALL}", None),
        ("open", f"{SPEC}/securityContext/runAsUser", ASKED, "runs/open.yaml:8"),
        ("open", f"{SPEC}/containers/0/securityContext", f"what the processes may do, {BY_ALL}", None),
        ("open", f"{SPEC}/containers/0/securityContext/privileged", ASKED, "runs/open.yaml:8"),
        ("open", f"{SPEC}/initContainers", "what starts before the work", None),
        ("open", f"{SPEC}/initContainers/0/command", ASKED, "runs/open.yaml:10"),
        ("open", f"{SPEC}/initContainers/0/securityContext/privileged", ASKED, "runs/open.yaml:10"),
        ("strict", f"{SPEC}/securityContext/runAsNonRoot", "the user is not root", "runs/strict.yaml:9"),
        ("strict", f"{SPEC}/containers/0/securityContext", f"what the processes may do, {BY_ALL}", None),
        ("strict", f"{SPEC}/containers/0/securityContext/allowPrivilegeEscalation", BY_STANDARD, None),
        ("strict", "/ConfigMap/data/run.json#/work/state_directory", CALLED, "runs/strict.yaml:8"),
        ("strict", "/Job/metadata/namespace", ASKED, "defaults.yaml:2"),
        ("strict", "/Service/metadata/namespace", ASKED, "defaults.yaml:2"),
        ("strict", "/ConfigMap/metadata/namespace", ASKED, "defaults.yaml:2"),
    ],
)
def test_an_answer_says_no_more_than_is_there(stated_dist: Path, run: str, pointer: str, reason: str, place: str | None) -> None:
    answer = explainer(f"here/{run}/runs/{run}.k8s.yaml", stated_dist).pointer(pointer)
    assert answer is not None
    assert answer.reason == reason
    assert (answer.where and f"{answer.where.file}:{answer.where.line}") == (place and f"charts/{place}")


def test_the_variable_that_names_the_checkpoints_has_the_line_of_their_lineage(stated_dist: Path) -> None:
    answers = list(explainer("here/strict/runs/strict.k8s.yaml", stated_dist).all())
    named = {answer.where.line for answer in answers if answer.reason == CALLED and answer.where and "/env/" in answer.pointer}
    assert named == {8}


def test_what_is_past_the_end_has_no_answer() -> None:
    explain = explainer(DIGITS)
    assert explain.line(0) is None
    assert explain.line(10**6) is None
    assert explain.pointer("/Job/spec/nothing") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "just text\n",
        "- a\n- b\n",
        "a: [\n",
        "a: &x [*x]\n",
        "kind: Job\n",
        "? [a]\n: b\n",
        "[" * 3000,
        "a: &x 1\nb: *x\n",
        "{{a: b}: c}\n",
    ],
)
def test_a_file_that_is_not_what_was_written_is_a_finding(text: str) -> None:
    output = project(ROOT)[1].runs["digits-ddp"].output
    with pytest.raises(CompileError) as caught:
        Explainer(text, "dist/x", output)
    (found,) = caught.value.findings
    assert found.code == "TW503"
    assert "trainwright synth" in found.fix


@pytest.mark.parametrize(("place", "stated"), [
    ("/task", True), ("/model/architecture", True), ("/model/dropout", False), ("/data/source", True), ("/data/held_out", False),
    ("/precision", True), ("/optimizer", False), ("/optimizer/kind", False), ("/optimizer/weight_decay", False),
    ("/clip_norm", False),
])
def test_a_value_is_said_to_be_stated_or_a_default_and_never_both(place: str, stated: bool) -> None:
    name = "laptop/training/runs/digits-ddp.k8s.yaml"
    answer = next(one for one in explainer(name).all() if one.pointer.endswith(f"#/work{place}"))
    assert answer.reason == ("as the run states it" if stated else "the default: the run states none")
    assert stated == (answer.where is not None and answer.where.pointer == f"/workload{place}")
