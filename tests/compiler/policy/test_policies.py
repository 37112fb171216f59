"""Policies hold the runs of a real project to what the page says, on finished objects."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.projects import Scratch, assert_ended, scratch
from tests.pages import DOCS, blocks

PAGE = DOCS / "policies.md"
SHOWN = {block.what: block.body for block in blocks(PAGE)}
EXAMPLES = {what.split()[1]: body for what, body in SHOWN.items() if what.startswith("policy ")}


@pytest.fixture(scope="module")
def project_once(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    return scratch(tmp_path_factory.mktemp("policies") / "project")


@pytest.fixture
def project(project_once: Scratch) -> Scratch:
    shutil.rmtree(project_once.path("charts/policies"), ignore_errors=True)
    project_once.git("checkout", "--quiet", "--", ".")
    return project_once


def policy(code: str = "SEC-1", **demand: Any) -> str:
    import yaml

    return str(yaml.safe_dump({"code": code, "title": "a policy", "why": "because", "fix": "do not", **demand}))


def test_the_example_of_the_page_says_what_the_page_shows(project: Scratch) -> None:
    team = re.search(r"^team: (.+)$", project.read("charts/runs/llama-finetune.yaml"), re.MULTILINE)
    assert team
    project.write("charts/policies/gpu-cap.yaml", EXAMPLES["gpu-cap.yaml"].replace("[research]", f"[{team[1]}]"))
    ended = project.run("check", "--quiet", "llama-finetune", "llama-1b-ddp")
    assert_ended(ended, 1)
    assert ended.stderr == SHOWN["says gpu-cap.yaml"], "the other one is exempt"


def test_an_exemption_ends(project: Scratch) -> None:
    text = EXAMPLES["gpu-cap.yaml"].replace("teams: [research], ", "").replace("2026-12-31", "2026-01-31")
    project.write("charts/policies/gpu-cap.yaml", text)
    ended = project.run("check", "--quiet", "llama-1b-ddp")
    assert_ended(ended, 1, "GPU-1", "at most 16 are allowed; its exemption ended on 2026-01-31")


def test_a_run_that_breaks_a_policy_is_not_written_and_the_others_are(project: Scratch) -> None:
    project.write("charts/policies/gpus.yaml", policy(gpus={"per_run": 16}, applies_to={"clusters": ["h100-ib"]}))
    project.edit("charts/runs/llama-1b-ddp.yaml", "nodes: 4", "nodes: 8")
    project.edit("charts/runs/digits-ddp.yaml", "run: digits-ddp", "run: digits-ddp\nlabels: {note: here}")
    before = project.dist()
    assert_ended(project.run("synth"), 1, "llama-1b-ddp.yaml", "SEC-1 a policy: it asks for 64 GPUs")
    assert project.dist() == before
    assert_ended(project.run("synth", "--keep-going"), 1, "SEC-1")
    changed = {path for path, text in project.dist().items() if before[path] != text}
    assert changed == {"laptop/training/runs/digits-ddp.k8s.yaml"}


def test_a_warning_lets_the_run_through_and_is_shown(project: Scratch) -> None:
    text = policy(severity="warning", gpus={"per_run": 16}, applies_to={"clusters": ["h100-ib"]})
    project.write("charts/policies/gpus.yaml", text)
    assert_ended(project.run("check"), 0, "warning SEC-1")


def test_a_cap_on_all_names_those_that_count(project: Scratch) -> None:
    project.write("charts/policies/gpus.yaml", policy(gpus={"altogether": 40}, applies_to={"clusters": ["h100-ib"]}))
    ended = project.run("check", "--quiet")
    assert_ended(ended, 1, "charts/policies/gpus.yaml:", "at most 40 are allowed: ", "llama-1b-ddp 32")
    project.write("charts/policies/gpus.yaml", policy(gpus={"altogether": 4000}, applies_to={"clusters": ["h100-ib"]}))
    assert_ended(project.run("check", "--quiet"), 0)


@pytest.mark.parametrize(("demand", "run", "words"), [
    ({"registries": ["registry.example.com/trainwright"]}, "torchrun-command", "is not from registry.example.com/"),
    ({"queues": ["none-such"]}, "llama-finetune", "should be in one of none-such"),
    ({"priorities": ["none-such"]}, "llama-finetune", "priority"),
    ({"labels": {"cost-center": []}}, "digits-ddp", "label cost-center is missing"),
    ({"forbid": ["host-network"]}, "hostnetwork-ddp", "its pods are on the node's network"),
], ids=lambda value: next(iter(value)) if isinstance(value, dict) else "")  # fmt: skip
def test_each_demand_finds_its_run(project: Scratch, demand: dict[str, Any], run: str, words: str) -> None:
    project.write("charts/policies/one.yaml", policy(**demand))
    ended = project.run("check", "--quiet", run)
    assert_ended(ended, 1, "error SEC-1 a policy: ", words)
    assert all(line.startswith(f"charts/runs/{run.replace('-', '_')}.py") or line.startswith(f"charts/runs/{run}.yaml")
               for line in ended.stderr.splitlines() if " error " in line)  # fmt: skip


OVERRIDE = """overrides:
  pod:
    node:
      initContainers:
        - name: other
          image: registry.example.com/elsewhere/tool@sha256:%s
          resources: {limits: {cpu: 1, memory: 1Gi}}
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
team:""" % ("c" * 64)


def test_what_an_override_brings_in_is_seen(project: Scratch) -> None:
    project.write("charts/policies/images.yaml", policy(registries=["registry.example.com/trainwright"]))
    assert_ended(project.run("check", "--quiet", "digits-ddp"), 0)
    project.edit("charts/runs/digits-ddp.yaml", "team:", OVERRIDE)
    assert_ended(project.run("check", "--quiet", "digits-ddp"), 1, "SEC-1 a policy: image registry.example.com/elsewhere/tool@")


def test_what_an_operator_adds_is_seen(project: Scratch) -> None:
    """Each worker of a PyTorchJob with a master gets an init container, whose image the profile states."""
    project.write("charts/policies/images.yaml", policy(registries=["registry.example.com"]))
    project.edit("charts/clusters/kubeflow-a100.yaml", ", init_image: registry.example.com/alpine:3.20", "")
    project.edit("charts/clusters/kubeflow-a100.yaml", "registries: [registry.example.com]", "")
    said = "SEC-1 a policy: image alpine:3.10 of container init-pytorch, which the operator adds, is not from"
    assert_ended(project.run("check", "--quiet", "resnet50-imagenet"), 1, said)
    assert "init-pytorch" not in project.run("check", "--quiet", "resnet-train").stderr, "a TFJob gets none"
    project.write("charts/policies/images.yaml", policy(registries=["registry.example.com", "alpine:3.10"]))
    assert "SEC-1" not in project.run("check", "--quiet", "resnet50-imagenet").stderr


SIDECAR_OF_POOL = """    pods:
      containers:
        - name: helper
          kind: sidecar
          image: registry.example.com/elsewhere/tool@sha256:%s
          cpu: 0.1
          memory: 64Mi
""" % ("c" * 64)


def test_the_image_of_a_pools_sidecar_is_found_in_the_profile(project: Scratch) -> None:
    profile = "charts/clusters/laptop.yaml"
    project.edit(profile, "  cpu:\n", f"  cpu:\n{SIDECAR_OF_POOL}")
    project.write("charts/policies/images.yaml", policy(registries=["registry.example.com/trainwright"]))
    ended = project.run("check", "--quiet", "digits-ddp")
    assert_ended(ended, 1, "SEC-1 a policy: image registry.example.com/elsewhere/tool@")
    assert re.search(rf"^{profile}:\d+.*SEC-1", ended.stderr, re.MULTILINE), ended.stderr


@pytest.mark.parametrize(("text", "words"), [
    (policy("TW200", gpus={"per_run": 1}), "code"),
    (policy(gpus={"per_run": 1}, queues=["a"]), "this one demands gpus and queues"),
    (policy(), "this one demands nothing"),
    (policy(gpus={}), "gpus caps nothing"),
    (policy(gpu={"per_run": 1}), "did you mean `gpus`"),
    (policy(forbid=["roots"]), "root"),
], ids=["own code", "two demands", "none", "no cap", "typo", "unknown"])  # fmt: skip
def test_a_bad_policy_is_one_finding_on_its_line(project: Scratch, text: str, words: str) -> None:
    project.write("charts/policies/one.yaml", text)
    ended = project.run("check", "--quiet")
    assert_ended(ended, 1, words)
    assert len(re.findall(r"^charts/policies/one.yaml:\d+", ended.stderr, re.MULTILINE)) == 1, ended.stderr
    assert_ended(project.run("policies"), 1, words)


@pytest.mark.parametrize(("name", "unread"), [
    ("gpu/cap.yaml", "gpu"), ("cap.YAML", "cap.YAML"), ("cap.json", "cap.json"),
    ("README.md", None), ("OWNERS", None), ("_old/cap.yaml", None), (".cap.yaml.swp", None),
])  # fmt: skip
def test_a_policy_that_nobody_would_read_is_an_error(project: Scratch, name: str, unread: str | None) -> None:
    project.write(f"charts/policies/{name}", policy(gpus={"per_run": 1}))
    ended = project.run("check", "--quiet")
    assert_ended(ended, 1 if unread else 0, *([f"error TW101 charts/policies/{unread} is not read"] if unread else []))


def test_two_policies_of_one_code_are_refused(project: Scratch) -> None:
    for name in ("a", "b"):
        project.write(f"charts/policies/{name}.yaml", policy(gpus={"per_run": 1000}))
    assert_ended(project.run("check", "--quiet"), 1, "TW109", "policy SEC-1 is also in charts/policies/a.yaml")


def test_the_function_of_the_page_is_asked(project: Scratch) -> None:
    project.write("charts/policies/restarts.py", EXAMPLES["restarts.py"])
    assert_ended(project.run("check", "digits-ddp"), 0)
    project.edit("charts/runs/digits-ddp.yaml", "team:", "restarts: 100\nteam:")
    assert_ended(project.run("check", "digits-ddp"), 1, "warning OPS-7 few restarts: 100 restarts on 2 nodes", "digits-ddp.yaml:")


@pytest.mark.parametrize(("body", "words"), [
    ("    raise KeyError('x')", "check of policy OPS-1 fails: KeyError: 'x'"),
    ("    yield 'digits'", "check of policy OPS-1 gives str in place of the violation of a run that it got"),
    ("    yield Violation('other', 'words')", "gives Violation in place of the violation of a run that it got"),
    ("    return None", "check of policy OPS-1 fails: TypeError"),
    ("    raise SystemExit(0)", "check of policy OPS-1 fails: SystemExit: 0"),
    ("    import cdk8s", "check of policy OPS-1 fails: ModuleNotFoundError"),
], ids=["raises", "text", "unknown run", "nothing", "ends", "imports"])  # fmt: skip
def test_a_function_that_fails_is_an_error_of_its_module(project: Scratch, body: str, words: str) -> None:
    project.write("charts/policies/own.py", f"""from trainwright.policy import PythonPolicy, Violation
def check(runs):
{body}
POLICY = PythonPolicy(code="OPS-1", title="t", why="w", fix="f", check=check)
""")
    assert_ended(project.run("check", "--quiet"), 1, "charts/policies/own.py:4:", "TW108", words)


def test_a_function_that_prints_leaves_the_output_alone(project: Scratch) -> None:
    project.write("charts/policies/own.py", """from trainwright.policy import PythonPolicy
def check(runs):
    print("here", len(runs))
    return []
POLICY = PythonPolicy(code="OPS-1", title="t", why="w", fix="f", check=check)
""")
    ended = project.run("check", "--format", "sarif")
    assert_ended(ended, 0, "here ")
    assert json.loads(ended.stdout)["version"] == "2.1.0"


def test_no_function_changes_what_is_written(project: Scratch) -> None:
    project.write("charts/policies/own.py", """from trainwright.policy import PythonPolicy
def check(runs):
    for run in runs:
        for pod in run.pods:
            pod["hostNetwork"] = True
        for manifest in run.manifests:
            manifest.clear()
    return []
POLICY = PythonPolicy(code="OPS-1", title="t", why="w", fix="f", check=check)
""")
    assert_ended(project.run("check", "--quiet"), 0)


def test_a_module_without_a_policy_says_what_to_write(project: Scratch) -> None:
    project.write("charts/policies/own.py", "RUN = 1\n")
    assert_ended(project.run("check", "--quiet"), 1, "charts/policies/own.py:1:1", "exports no POLICY", "POLICY = PythonPolicy")


def test_a_plan_says_what_the_policies_say(project: Scratch) -> None:
    project.write("charts/policies/gpus.yaml", policy(gpus={"per_run": 16}))
    ended = project.run("plan", "llama-1b-ddp")
    assert_ended(ended, 0, "error SEC-1 a policy: it asks for 32 GPUs")


def test_the_list_names_file_and_weight(project: Scratch) -> None:
    assert project.run("policies").stdout.startswith("no policies")
    project.write("charts/policies/gpus.yaml", policy(gpus={"per_run": 16}))
    assert project.run("policies").stdout == "SEC-1     error    a policy (charts/policies/gpus.yaml)\n"
    assert Path(project.path("charts/policies/gpus.yaml")).exists()


def test_a_policy_about_what_no_profile_has_holds_nobody_and_says_so(project: Scratch) -> None:
    scope = {"clusters": ["h100-ib", "h100-bi"], "namespaces": ["trainings"]}
    project.write("charts/policies/gpus.yaml", policy(gpus={"per_run": 16}, applies_to=scope))
    ended = project.run("check", "--quiet")
    assert_ended(ended, 1, "gpus.yaml:4:5: error TW110 policy SEC-1 is about cluster h100-bi", "did you mean h100-ib?")
    assert_ended(ended, 1, "error TW303 policy SEC-1 is about namespace trainings", "did you mean training?")
    assert ended.stderr.count(" error ") == 2, ended.stderr


@pytest.mark.parametrize(("scope", "said"), [
    ({"teams": ["reserch"]}, "warning TW617 policy SEC-1 is about team reserch, which no run has"),
    ({"teams": ["research", "visoin"]}, "is about team visoin, which no run has"),
    ({"queues": ["nowhere"]}, "is about queue nowhere, which no profile has"),
])
def test_a_policy_about_a_team_or_queue_that_nobody_has_says_so(scope: dict[str, list[str]], said: str, project: Scratch) -> None:
    project.write("charts/policies/gpus.yaml", policy(gpus={"per_run": 1000}, applies_to=scope))
    ended = project.run("check")
    assert_ended(ended, 0, said)
    assert ended.stderr.count("TW617") == 1
    assert ("did you mean research?" in ended.stderr) == (scope.get("teams") == ["reserch"])


def test_defaults_of_a_team_that_no_run_has_say_so(project: Scratch) -> None:
    labels = "{labels: {example.com/a: b}}"
    project.write("charts/defaults.yaml", f"teams:\n  vsion: {labels}\n  vision: {labels}\n")
    ended = project.run("check")
    assert_ended(ended, 1, "charts/defaults.yaml:2:3: warning TW617 there are defaults for team vsion, which no run has")
    assert "did you mean vision?" in ended.stderr
    assert ended.stderr.count("TW617") == 1
