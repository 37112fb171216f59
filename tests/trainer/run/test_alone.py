"""The script's hand in a process without a supervisor."""

from __future__ import annotations

import ast
import enum
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import trainwright_trainer.run
from trainwright_trainer import run
from trainwright_trainer.run.launched import World, world
from trainwright_trainer.run.stated import ConfigError, as_kind

FILES = sorted(Path(trainwright_trainer.run.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_its_words_are_those_of_an_old_python(path: Path) -> None:
    """No machine of ours has one, so the grammar is what can be asked here."""
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
    assert any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)


def test_it_needs_the_standard_library_alone() -> None:
    program = "import sys; from trainwright_trainer import run; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-S", "-c", program], env={"PYTHONPATH": str(FILES[0].parents[2])}, check=True,
                           capture_output=True, text=True).stdout.split()  # fmt: skip
    assert set(found) - sys.stdlib_module_names <= {"trainwright_trainer", "__main__"}
    assert "dataclasses" not in found, "it takes 10 ms"


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_signal_stops_a_process_that_is_alone(number: str) -> None:
    program = f"""
        import os, signal
        from trainwright_trainer import run
        assert not run.should_stop()
        run.step(1, loss=0.5)
        os.kill(os.getpid(), signal.{number})
        assert run.should_stop()
        run.stopped()
    """
    assert subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False).returncode == 210


@pytest.mark.parametrize(("environment", "expected"), [
    ({}, World(0, 1, 0, 1)),
    ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, World(5, 8, 1, 4)),
    ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
      "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, World(3, 4, 1, 2)),
    ({"PMI_RANK": "1", "PMI_SIZE": "2"}, World(1, 2, 0, 1)),
    ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}, World(2, 4, 0, 1)),
    ({"SLURM_NTASKS": "4"}, World(0, 1, 0, 1)),  # of a shell in an allocation, which is no task
    ({"RANK": "", "WORLD_SIZE": "8"}, World(0, 1, 0, 1)),
])
def test_the_world_is_what_the_launcher_says(environment: dict[str, str], expected: World) -> None:
    assert world(environment) == expected


class Kind(enum.Enum):
    FAST = "fast"


@dataclass
class Model:
    layers: int
    dropout: float = 0.0


@dataclass
class Settings:
    model: Model
    lr: float = 1e-3
    name: str | None = None
    kind: Kind = Kind.FAST
    folder: Path = Path(".")
    sizes: list[int] = field(default_factory=list)
    betas: tuple[float, float] = (0.9, 0.99)
    mode: Literal["a", "b"] = "a"
    more: dict[str, Any] = field(default_factory=dict)


def test_a_dataclass_gets_its_own_types() -> None:
    stated = {
        "model": {"layers": 2}, "lr": 1, "name": None, "kind": "fast", "folder": "/data", "sizes": [1, 2], "betas": [0, 1],
        "mode": "b", "more": {"x": [1]},
    }
    assert as_kind(Settings, stated) == Settings(
        Model(2), 1.0, None, Kind.FAST, Path("/data"), [1, 2], (0.0, 1.0), "b", {"x": [1]}
    )


@pytest.mark.parametrize(("stated", "words"), [
    ({}, "config.model is missing"),
    ({"model": {"layer": 2}}, "config.model.layer is not one of Model's fields; did you mean layers?"),
    ({"model": {"layers": 2.5}}, "config.model.layers is 2.5, and the script wants int"),
    ({"model": {"layers": True}}, "config.model.layers is True"),
    ({"model": 3}, "config.model is 3, and the script wants a mapping"),
    ({"model": {"layers": 1}, "kind": "slow"}, "config.kind is 'slow', and the script wants Kind"),
    ({"model": {"layers": 1}, "mode": "c"}, "config.mode is 'c', and the script wants 'a' or 'b'"),
    ({"model": {"layers": 1}, "betas": [1]}, "the script wants 2 values"),
    ({"model": {"layers": 1}, "sizes": [1, "2"]}, "config.sizes[1] is '2'"),
    ({"model": {"layers": 1}, "name": 3}, "config.name is 3, and the script wants str"),
])
def test_what_does_not_fit_is_refused(stated: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as error:
        as_kind(Settings, stated)
    assert words in str(error.value)


class Pydantic(BaseModel):
    lr: float = 0.5


def test_a_pydantic_model_reads_for_itself() -> None:
    assert as_kind(Pydantic, {"lr": 2}) == Pydantic(lr=2.0)
    with pytest.raises(ConfigError, match="lr"):
        as_kind(Pydantic, {"lr": "much"})


def test_without_a_run_a_file_may_say_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINWRIGHT_SPEC", raising=False)
    assert run.config(Pydantic) == Pydantic()
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"lr": 3}))
    monkeypatch.setenv("TRAINWRIGHT_CONFIG", str(path))
    assert run.config(Pydantic).lr == 3
    path.write_text("[1]")
    with pytest.raises(ConfigError, match="no JSON object"):
        run.config()


ANYTHING = st.none() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)


@given(st.dictionaries(st.sampled_from(["lr", "name", "kind", "folder", "sizes", "betas", "mode", "more", "other"]), ANYTHING))
def test_anything_is_read_or_refused(stated: dict[str, Any]) -> None:
    try:
        as_kind(Settings, {"model": {"layers": 1}, **stated})
    except ConfigError as error:
        assert str(error).startswith("config.")  # noqa: PT017 - either is fine


def test_the_page_has_a_script_that_runs_on_a_laptop(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/script-library.md").read_text()
    [program] = re.findall(r"^```python laptop.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "laptop.py").write_text(program)
    for steps in (250, 300):
        (tmp_path / "config.json").write_text(json.dumps({"steps": steps}))
        told = {**os.environ, "TRAINWRIGHT_CONFIG": str(tmp_path / "config.json")}
        done = subprocess.run([sys.executable, "laptop.py"], cwd=tmp_path, env=told, check=True, capture_output=True, text=True)
        assert int(done.stdout) == steps * (steps + 1) // 2
    assert (tmp_path / "checkpoints/commits").is_dir()
