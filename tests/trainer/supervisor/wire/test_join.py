"""Who may train together with node 0, and a join that every version of the trainer can read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.trainer.supervisor.conftest import NewRun
from tests.trainer.supervisor.pods import from_nothing

from trainwright_trainer import __version__
from trainwright_trainer.contract import ExitCode
from trainwright_trainer.rank import software
from trainwright_trainer.supervisor.wire.control import difference_from_node_0
from trainwright_trainer.supervisor.wire.messages import MESSAGE, Join, Knock

JOIN = {
    "type": "join", "node": 1, "host": "pod-1", "sha256": "a" * 64, "version": __version__,
    "identity": "fake-1a2b3c", "attempt": "0a",
}


def differs(changed: dict[str, object], versions: dict[str, str] | None = None) -> str | None:
    join = MESSAGE.validate_python({**JOIN, "versions": software.installed() if versions is None else versions, **changed})
    assert isinstance(join, Join)
    return difference_from_node_0(join, "a" * 64, 4)


def test_a_pod_like_node_0() -> None:
    assert differs({}) is None


@pytest.mark.parametrize(("changed", "sentence"), [
    ({"sha256": "b" * 64}, "their specifications have the sha256 bbbbbbbbbbbb and aaaaaaaaaaaa; every pod must mount the same"),
    ({"version": "0.0.1"}, f"their trainers are of version 0.0.1 and {__version__}; every pod must run the same image"),
    ({"node": 4}, "it says that it is node 4, which is not one of 1 to 3"),
    ({"node": 0}, "it says that it is node 0"),
])
def test_pods_that_differ(changed: dict[str, object], sentence: str) -> None:
    assert (differs(changed) or "").startswith(sentence)


def test_a_package_that_differs() -> None:
    ours = software.installed()["torch"]
    theirs = {**software.installed(), "torch": "1.0"}
    assert differs({}, theirs) == f"they have torch 1.0 and {ours}; every pod must run the same image"


def test_words_of_other_releases_are_read() -> None:
    """A trainer that dropped a line for a field that it does not know could tell nobody why."""
    join = MESSAGE.validate_python({**JOIN, "of_a_later_release": 1})
    assert isinstance(join, Join)
    knock = MESSAGE.validate_python({"type": "knock", "identity": "fake-1a2b3c", "of_a_later_release": 1})
    assert isinstance(knock, Knock)


def test_pods_with_other_software_do_not_train_together(new_run: NewRun, tmp_path: Path) -> None:
    metadata = tmp_path / "packages" / "horovod-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: horovod\nVersion: 0.0.1\n")
    run = new_run(nodes=2)
    run.begin = from_nothing
    run.start(0)
    run.start(1, environment={"PYTHONPATH": str(tmp_path / "packages")})
    assert run.wait() == [ExitCode.TOPOLOGY_MISMATCH] * 2, run.logs()
    for pod in run.pods:
        cause = pod.message().cause
        assert cause is not None
        assert cause.message.startswith("node 1 (")
        assert cause.message.endswith(
            "and node 0 differ: they have horovod 0.0.1 and not at all; every pod must run the same image"
        )
    assert run.journal("started") == []
