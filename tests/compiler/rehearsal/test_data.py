"""A run whose data is fetched, rehearsed where nothing fetches it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.compiler.manifest.data.prepared import own_job, pod_of, prepared
from tests.compiler.rehearsal.stage import manifests, of_kind, overridden, play

READ = "from pathlib import Path; print(Path('/data/digits/a.txt').read_text())"


def waiting_run() -> list[dict[str, Any]]:
    """A pod with the very container that waits, and the folder of its data."""
    found = manifests(READ)
    spec = of_kind(found, "Job")["spec"]["template"]["spec"]
    compiled = pod_of(own_job(prepared()))
    spec["initContainers"] = compiled["initContainers"]
    data = [mount for mount in compiled["containers"][0]["volumeMounts"] if mount["name"] == "checkpoints"]
    main = spec["containers"][0]
    main["volumeMounts"] = [mount for mount in main["volumeMounts"] if mount["name"] == "code"] + data
    spec["volumes"].append({"name": "checkpoints", "persistentVolumeClaim": {"claimName": "checkpoints"}})
    return found


def test_nothing_waits_and_a_folder_stands_for_the_data(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("my own digits")
    outcome, recorder = play(waiting_run(), tmp_path / "w", mounts={"/data/digits": tmp_path / "mine"})
    assert outcome.status == "Complete"
    assert recorder.said(0) == ["my own digits"]
    said = "data: is not fetched here, and nothing waits for it: give a folder for the path, --mount PATH=FOLDER"
    assert said in list(overridden(recorder))
