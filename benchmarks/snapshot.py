"""How long a diagnosis of many pods and the status of many runs take: `python benchmarks/snapshot.py [PODS] [RUNS]`."""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from trainwright.live.diagnose import diagnose
from trainwright.live.runs import case_for, expected, written_for
from trainwright.live.snapshot import of_list, read_snapshot
from trainwright.live.status import status_lines
from trainwright.project.load import Project
from trainwright.project.status import last_records

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOT = ROOT / "docs" / "examples" / "snapshots" / "waiting.json"


def several(data: dict[str, Any], pods: int) -> dict[str, Any]:
    """The snapshot with so many pods, each with an event."""
    whole = copy.deepcopy(data)
    [model] = [one for one in whole["items"] if one["kind"] == "Pod"][-1:]
    whole["items"] = [one for one in whole["items"] if one["kind"] != "Pod"]
    for number in range(pods):
        pod = copy.deepcopy(model)
        pod["metadata"] |= {"name": f"{model['metadata']['name'][:-8]}{number}-abcde", "uid": f"u-{number}"}
        pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] = str(number)
        pod["metadata"]["annotations"] = {}
        about = {"kind": "Pod", "name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"], "uid": f"u-{number}"}
        message = pod["status"]["conditions"][0]["message"]
        whole["items"] += [pod, {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e-{number}", "namespace": about["namespace"]},
            "involvedObject": about, "reason": "FailedScheduling", "type": "Warning", "message": message,
            "lastTimestamp": "2026-11-20T09:04:00Z",
        }]  # fmt: skip
    return whole


def main(pods: int = 500, runs: int = 200) -> None:
    project = Project(ROOT)
    run = next(one for one in expected(last_records(project).runs) if one.run == "llama-1b-ddp")
    data = several(json.loads(SNAPSHOT.read_text(encoding="utf-8")), pods)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        begin = time.perf_counter()
        found = diagnose(case_for(read_snapshot(path), run), written_for(project, run), run.record.facts)
        print(f"diagnosis of {pods} pods: {time.perf_counter() - begin:.2f} s ({found.cause})")
    one = [entry for entry in json.loads(SNAPSHOT.read_text(encoding="utf-8"))["items"] if entry["kind"] != "Node"]
    many: list[dict[str, Any]] = []
    named = [run._replace(record=run.record.model_copy(update={"identity": f"{number:08}"})) for number in range(runs)]
    for number, target in enumerate(named):
        text = json.dumps(one).replace(run.name, target.name).replace('"u-', f'"{number}-')
        many += json.loads(text)
    begin = time.perf_counter()
    lines = status_lines(of_list({"kind": "List", "items": many}), named, named, foreign=True)
    print(f"status of {len(lines)} runs: {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
