"""Data sets and models of the Hugging Face Hub: the Job that fetches one, and its real command against a small Hub."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.compiler.manifest.data.prepared import MOUNT, fetch_job, own_job, pod_of, prepared
from tests.compiler.objects import environment
from tests.hub import COMMIT, TOKEN, Hub, serving

from trainwright.command.references import expand
from trainwright.report.plan import plan_lines
from trainwright.rules.pods.objects import schema_problems
from trainwright.rules.pods.pod_security import violations
from trainwright.run import Preparation

BIN = Path(sys.executable).parent
IMAGE = "registry.example.com/trainer@sha256:" + "2f" * 32
SOURCE = f"hf://datasets/example/texts@{COMMIT}"
OF_HUB: dict[str, Any] = {"source": SOURCE, "image": IMAGE, "credentials": {"token": {"secret": "hugging-face", "key": "token"}}}
TEXTS = {
    "README.md": b"# Texts\n",
    "data/train.jsonl": b'{"text": "one"}\n{"text": "two"}\n',
    "data/validation.jsonl": b'{"text": "three"}\n',
    "model.safetensors": os.urandom(20_000),
}


def container_of(**changes: Any) -> dict[str, Any]:
    container: dict[str, Any] = pod_of(fetch_job(prepared(**(OF_HUB | changes))))["containers"][0]
    return container


def test_the_job_asks_for_the_commit_and_refers_to_the_token() -> None:
    found = container_of(include=["data/*"], exclude=["*.md"], endpoint="https://hub.example.com")
    folder = found["command"][3]
    assert found["command"] == ["trainwright-trainer", "fetch", SOURCE, folder, "--include", "data/*", "--exclude", "*.md"]
    assert folder.startswith("/volume/data/digits/")
    told = environment(found)
    assert told["HF_TOKEN"] == {"secretKeyRef": {"name": "hugging-face", "key": "token"}}
    assert told["HF_ENDPOINT"] == "https://hub.example.com"
    assert not [name for name in told if name.startswith("RCLONE")]


def test_its_pod_may_run_in_a_restricted_namespace_and_the_run_waits() -> None:
    run = prepared(**OF_HUB)
    assert list(schema_problems(run.manifests, run.cluster.kubernetes)) == []
    assert list(violations(pod_of(fetch_job(run)), "restricted", run.cluster.kubernetes)) == []
    [waiting] = pod_of(own_job(run))["initContainers"]
    folder = Path(container_of()["command"][3]).relative_to("/volume")
    assert waiting["args"] == [f"/data/{folder.relative_to(MOUNT['sub_path'])}.complete"]
    assert f"  data          /data/digits, once, from {SOURCE} (claim checkpoints)" in plan_lines(run)


@pytest.mark.parametrize("change", [
    {"source": f"hf://datasets/example/texts@{COMMIT[::-1]}"}, {"include": ["data/*"]}, {"exclude": ["*.md"]},
    {"form": "dataset"}, {"endpoint": "https://hub.example.com"},
])  # fmt: skip
def test_other_files_are_another_folder(change: dict[str, Any]) -> None:
    assert container_of()["command"][3] != container_of(**change)["command"][3]
    assert container_of()["command"][3] == container_of(form="files", credentials=None)["command"][3]


@pytest.mark.parametrize(("change", "message"), [
    ({"source": "hf://datasets/example/texts"}, r"the 40 digits that `git ls-remote https://huggingface.co/datasets/example/texts`"),
    ({"source": "hf://datasets/example/texts@main"}, "may change under runs that read it"),
    ({"source": "hf://example/model", "revision": COMMIT}, "the revision of a repository is part of its source"),
    ({"source": f"hf://spaces/example/demo@{COMMIT}"}, "source"),
    ({"revision": 2}, "hf:// has no revision"),
    ({"region": "eu"}, "hf:// has no region"),
    ({"credentials": None, "service_account": "reader"}, "hf:// has no service_account"),
    ({"credentials": {"account_key": {"secret": "a", "key": "b"}}}, "credentials of hf:// are token"),
    ({"credentials": {"token": TOKEN}}, "credentials"),
    ({"source": f"hf://example/model@{COMMIT}", "form": "dataset"}, "a model is no dataset"),
    ({"subset": "en"}, "add form: dataset"),
    ({"source": "s3://example-datasets/digits", "credentials": None, "include": ["*"]}, "s3:// has no include"),
    ({"source": "s3://example-datasets/digits"}, "credentials of s3:// are access_key and secret_key"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Preparation.model_validate({key: value for key, value in (OF_HUB | change).items() if value is not None})


def played(hub: Hub, place: Path, token: str = "", **changes: Any) -> tuple[int, str, Path]:
    """The container of the Job on this machine: its exit code, what it printed, and the folder that it fills."""
    container = container_of(endpoint=hub.address, **changes)
    told = {key: TOKEN if isinstance(value, dict) else expand(value, {}) for key, value in environment(container).items()}
    if not token:
        del told["HF_TOKEN"]
    command = [expand(word, {}) for word in container["command"]]
    folder = command[3] = command[3].replace("/volume", str(place / "volume"), 1)
    search = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    told |= {"PATH": search, "HOME": str(place), "NO_PROXY": "127.0.0.1", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    printed = ended.stdout + ended.stderr
    assert TOKEN not in printed
    return ended.returncode, printed, Path(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_files_are_there_as_a_whole_and_then_the_marker(tmp_path: Path) -> None:
    with serving(Hub(TEXTS, private=True)) as hub:
        code, printed, folder = played(hub, tmp_path)
        assert (code, folder.with_name(f"{folder.name}.complete").exists()) == (12, False)
        assert f"{SOURCE}: the Hub has no such repository, or anybody (there is no token) may not see it" in printed
        code, printed, folder = played(hub, tmp_path, TOKEN)
        assert (code, printed) == (0, f"{SOURCE} is complete.\n")
        assert contents(folder) == TEXTS
        marker = folder.with_name(f"{folder.name}.complete")
        assert marker.read_text().startswith(f"{SOURCE}\ncomplete since 2")
        assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, marker.name]
        hub.private, hub.files = False, {}
        assert "is there already" in played(hub, tmp_path)[1]


def test_a_file_that_is_not_what_the_hub_has_is_fetched_again(tmp_path: Path) -> None:
    with serving(Hub(TEXTS)) as hub:
        hub.served["model.safetensors"] = bytes(20_000)
        code, printed, folder = played(hub, tmp_path)
        assert code == 203
        assert "model.safetensors: it is not what" in printed
        assert not folder.with_name(f"{folder.name}.complete").exists()
        hub.served.clear()
        hub.sent.clear()
        assert played(hub, tmp_path)[0] == 0
        assert contents(folder) == TEXTS
        assert hub.sent == ["model.safetensors"], "what was whole is not fetched again"


def test_the_trainer_reads_a_data_set_of_the_hub(tmp_path: Path) -> None:
    from datasets import load_from_disk  # type: ignore[import-untyped]

    with serving(Hub(TEXTS)) as hub:
        code, printed, folder = played(hub, tmp_path, form="dataset", include=["data/*.jsonl"])
    assert code == 0, printed
    assert load_from_disk(str(folder))["train"]["text"][:] == ["one", "two"]
    assert {path.name for path in folder.parent.iterdir()} == {folder.name, f"{folder.name}.complete"}


@pytest.mark.parametrize(("change", "hub", "code", "message"), [
    ({"source": f"hf://datasets/example/texts@{COMMIT[::-1]}"}, Hub(TEXTS), 12, "has no such commit"),
    ({}, Hub(TEXTS, gated=True), 12, "accept its terms"),
])  # fmt: skip
def test_what_the_hub_does_not_give_is_said(change: dict[str, Any], hub: Hub, code: int, message: str, tmp_path: Path) -> None:
    with serving(hub):
        ended = played(hub, tmp_path, **change)
    assert (ended[0], message in ended[1]) == (code, True), ended[1]
    assert "Traceback" not in ended[1]
