"""The examples of a chart author's own app, run as their author would."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLE = DOCS / "examples" / "own-app"


class YamlFile(SingleFileSnapshotExtension):
    """The snapshot is the file itself, so that a review shows YAML."""

    _write_mode = WriteMode.TEXT
    file_extension = "yaml"


def run(script: Path, folder: Path, outdir: Path) -> str:
    done = subprocess.run([sys.executable, script], env={**os.environ, "CDK8S_OUTDIR": str(outdir)}, cwd=folder,
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_example_app(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    assert run(EXAMPLE / "main.py", tmp_path, tmp_path / "out") == ""
    [file] = (tmp_path / "out").iterdir()
    assert file.read_text() == snapshot(extension_class=YamlFile, name="digits")


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / "cdk8s.md").read_text(), re.DOTALL)


def test_the_example_of_the_page(project: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(examples()[0])
    said = run(tmp_path / "app.py", project, tmp_path / "out")
    assert re.fullmatch(r"mnist-[a-z0-9]{8} 2 \['ConfigMap', 'Service', 'Job'\]\n", said)
    text = (tmp_path / "out" / "training.k8s.yaml").read_text()
    assert re.findall("^kind: (.*)$", text, re.MULTILINE) == ["ConfigMap", "Service", "Job"] * 2


def test_the_example_with_objects_of_cdk8s_plus(project: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(examples()[1])
    brings, *own = ast.literal_eval(run(tmp_path / "app.py", project, tmp_path / "out"))
    assert brings[0] == "bring-supervisor", "the laptop's profile names its image"
    assert own == [("relay", [{"mountPath": "/run", "name": "volume-1"}]), ("installer", None)]
    text = (tmp_path / "out" / "training.k8s.yaml").read_text()
    assert text.count("name: volume-1") == 3, "the volume, and its mounts in both containers"
    assert len(examples()) == 2
