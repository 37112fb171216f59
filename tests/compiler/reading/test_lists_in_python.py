"""In Python a list is written as a list, and mypy agrees, also that of people who do without pydantic's plugin."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from trainwright.run import CommandWorkload, RoleParts, ScriptWorkload

ROOT = Path(__file__).parents[3]
MODELS = [
    *(ROOT / "constructs" / "trainwright" / "run").glob("*.py"),
    *(ROOT / "constructs" / "trainwright" / "cluster").glob("*.py"),
    ROOT / "constructs" / "trainwright" / "security.py",
    *(ROOT / "trainer" / "trainwright_trainer" / "contract" / f"{name}.py" for name in ("boosting", "data", "model", "training")),
]

PROGRAM = """
from trainwright.cluster.addons import Kueue, Scheduling
from trainwright.cluster.model import StorageClass
from trainwright.run import (
    CommandWorkload, NodeAffinity, NodeLabel, Overrides, ProjectedMount, ProjectedSecret, RoleParts, ScriptWorkload, Security,
)
from trainwright_trainer.contract.model import ResNet

command: list[str] = ["python", "train.py"]
ScriptWorkload(command=command)
CommandWorkload(command=command, args=["--fast"])
RoleParts(command=command, args=[])
Security(capabilities=["IPC_LOCK"])
NodeAffinity(required=[NodeLabel(key="zone", operator="In", values=["a", "b"])])
ProjectedMount(projected=[ProjectedSecret(secret="keys")])
Overrides(objects=[])
Kueue(version="0.19", integrations=["batch/job"])
Scheduling(queues=["research"])
StorageClass(access=["ReadWriteMany"])
ResNet(num_labels=10, depths=[2, 2, 2, 2])
"""


def verdict(program: str, folder: Path) -> str:
    """Of mypy, as people have it who only install Trainwright."""
    (folder / "chart.py").write_text(program, encoding="utf-8")
    where = f"{ROOT / 'constructs'}:{ROOT / 'trainer'}"
    settings = f"[mypy]\nstrict = true\nmypy_path = {where}\nexplicit_package_bases = true\n"
    (folder / "mypy.ini").write_text(settings, encoding="utf-8")
    words = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--python-executable", sys.executable, "chart.py"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_mypy_takes_lists_and_no_text_in_place_of_one(tmp_path: Path) -> None:
    assert verdict(PROGRAM, tmp_path).startswith("Success")
    wrong = verdict(f'{PROGRAM}ScriptWorkload(command="python train.py")\n', tmp_path)
    assert 'Argument "command" to "ScriptWorkload"' in wrong
    assert wrong.count("error:") == 1


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_field_asks_for_a_tuple(path: Path) -> None:
    for model in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(model, ast.ClassDef) and "NamedTuple" not in map(ast.unparse, model.bases):
            fields = [one for one in model.body if isinstance(one, ast.AnnAssign)]
            assert [ast.unparse(one) for one in fields if ", ...]" in ast.unparse(one.annotation)] == [], "write ListOf"


@pytest.mark.parametrize("made", [
    lambda: ScriptWorkload(command="python train.py"),
    lambda: CommandWorkload(command="python train.py"),
    lambda: CommandWorkload(args="python train.py"),
    lambda: RoleParts(command="python train.py"),
])  # fmt: skip
def test_a_text_in_place_of_a_command_is_said_with_what_to_write(made: Callable[[], object]) -> None:
    with pytest.raises(ValidationError, match=re.escape("list of words, not a text; write ['python', 'train.py']")):
        made()


def test_a_value_keeps_what_nobody_can_change() -> None:
    words = ["python", "train.py"]
    work = ScriptWorkload(command=words)
    words.append("--fast")
    assert work.command == ("python", "train.py")
    assert CommandWorkload(args=["x"]).words == ("x",)
