"""Each library in two pods: told to end, killed, and resumed, it ends with the weights of a run that was never interrupted."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.engines.adapters.tiny import write_conversations, write_model, write_preferences
from tests.engines.pods import Pod, Pods, address
from tests.engines.processes import ROOT
from tests.processes import wait_until
from tests.recipes import recipe

from trainwright_trainer.checkpoint.ledger import Ledger
from trainwright_trainer.commands.local import free_ports
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.contract.ledger import AttemptStarted

SCRIPTS = ("accelerated", "sharded", "fabric_loop")
LONGER = {"accelerated": pytest.mark.nightly, "fabric_loop": pytest.mark.nightly}
"""Those whose library another one has too, in a harder case."""
GUIDE = ROOT / "docs/guides/trl.md"


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Pods]:
    started = Pods(tmp_path)
    yield started
    started.close()


@dataclass
class Twin:
    """One script, as two runs that differ in their folder."""

    pods: Pods
    folder: Path
    command: list[str]
    config: dict[str, Any]
    result: str
    """Of the folder: what is compared in the end."""

    def start(self, name: str, pause: float = 0) -> list[Pod]:
        own = self.folder / name
        own.mkdir(exist_ok=True)
        control, rendezvous, http = free_ports(3)
        spec = {
            "run": "twin", "identity": "twin-1a2b3c", "http_port": http, "lifecycle": {"grace_seconds": 60},
            "world": {
                "nodes": 2, "processes_per_node": 1, "device": "cpu", "node_index_env": "NODE_INDEX", "control_port": control,
                "rendezvous": {"kind": "static", "host": address(0), "port": rendezvous},
            },
            "work": {
                "kind": "script", "command": self.command, "state_directory": str(own), "checkpoints": {"keep": 3},
                "config": self.config,
            },
        }
        told = {"TRAINWRIGHT_CHECKPOINT_DIRECTORY": str(own), "PAUSE": str(pause), "HF_HOME": str(self.folder / "hub")}
        return self.pods.start(spec, [{"NODE_INDEX": str(node), **told} for node in range(2)])

    def interrupt(self) -> None:
        """Run it whole; then told to end, killed, and to its end. Both have the same result."""
        ended(self.start("whole"), ExitCode.DONE)
        own = self.folder / "parts"
        first = self.start("parts", 0.3)
        wait_until(lambda: bool(commits(own)) or first[0].process.poll() is not None, "a commit")
        first[1].tell_to_end()
        ended(first, ExitCode.PREEMPTED_SAVED)
        stopped, before = first[0].message().committed_step, commits(own)
        assert stopped is not None
        second = self.start("parts", 0.3)
        wait_until(lambda: bool(commits(own) - before) or second[0].process.poll() is not None, "another commit")
        for pod in second:
            pod.kill()
        for pod in second:
            pod.process.wait()
        ended(self.start("parts"), ExitCode.DONE)
        starts = [event.committed_step for event in Ledger(own).events() if isinstance(event, AttemptStarted)]
        assert starts[:2] == [None, stopped]
        assert starts[2] is not None
        assert starts[2] > stopped
        results = [(self.folder / name / self.result).read_bytes() for name in ("whole", "parts")]
        assert results[0]
        assert results[0] == results[1]


def ended(pods: list[Pod], code: ExitCode) -> None:
    assert [pod.code() for pod in pods] == [code] * len(pods), "\n".join(pod.text for pod in pods)


def commits(state: Path) -> set[Path]:
    return set(state.glob("commits/*.json"))


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONGER.get(name, ())) for name in SCRIPTS])
def test_interrupted_it_ends_as_one_that_was_not(pods: Pods, tmp_path: Path, name: str) -> None:
    Twin(pods, tmp_path, [sys.executable, "-m", f"tests.engines.adapters.scripts.{name}"], {}, "result").interrupt()


@pytest.mark.nightly
@pytest.mark.rehearsal
def test_the_recipe_of_sft(pods: Pods, tmp_path: Path) -> None:
    """As it is in dist/, on a tiny model."""
    found = recipe("qwen-chat", tmp_path)
    write_model(tmp_path / "model")
    write_conversations(tmp_path / "conversations.jsonl")
    asked = found.config | {
        "model": str(tmp_path / "model"), "conversations": str(tmp_path / "conversations.jsonl"), "steps": 80, "save_steps": 10,
        "max_length": 32, "learning_rate": 1e-2,
    }
    Twin(pods, tmp_path, [sys.executable, str(found.program)], asked, "final/adapter_model.safetensors").interrupt()


@pytest.mark.nightly
def test_the_program_of_dpo(pods: Pods, tmp_path: Path) -> None:
    """As it stands in the guide."""
    [program] = re.findall(r"^```python app/dpo.py\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "dpo.py").write_text(program)
    write_model(tmp_path / "model")
    write_preferences(tmp_path / "preferences.jsonl")
    asked = {
        "model": str(tmp_path / "model"), "preferences": str(tmp_path / "preferences.jsonl"), "steps": 60, "save_steps": 10,
        "max_length": 32, "learning_rate": 1e-2,
    }
    Twin(pods, tmp_path, [sys.executable, str(tmp_path / "dpo.py")], asked, "final/adapter_model.safetensors").interrupt()


def test_each_script_is_tested() -> None:
    own = {path.stem for path in (Path(__file__).parent / "scripts").glob("*.py")} - {"weights"}
    assert own == set(SCRIPTS)
