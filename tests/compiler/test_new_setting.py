"""A new setting of the trainer is one field with its text in the contract, beside the engine that reads it.

Two are added to a copy of the contract, one of them a time. Another process then has the rest of the sources as they are.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.example import RUN, Data, compiled
from tests.compiler.findings.page import overlay
from tests.compiler.projects import ROOT
from tests.tables import reference

from trainwright.findings import CompileError
from trainwright.reading import validate_data
from trainwright.report.facts import plan_facts
from trainwright.report.plan import plan_rows
from trainwright.report.schema import described_schema
from trainwright.run import Run
from trainwright_trainer.contract import RunSpec

TRAINER = ROOT / "trainer" / "trainwright_trainer"
FIELDS = {  # file of the contract -> the text before a new field, and the field
    "training.py": ('    metrics: ListOf[Sink] = ()\n', '''\
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of each target that is spread over all classes."""
'''),
    "spec.py": ('    saving_seconds: Seconds = 1200\n', '''\
    evaluating_seconds: Seconds = 600
    """An evaluation, at least."""
'''),
}
STATED: Data = {"workload": {"label_smoothing": 0.1}, "watchdog": {"evaluating": "5m"}}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """What a process says of the two whose contract has them."""
    folder = tmp_path_factory.mktemp("sources") / TRAINER.name
    folder.mkdir()
    for entry in TRAINER.iterdir():
        if entry.name != "contract":
            (folder / entry.name).symlink_to(entry)
    shutil.copytree(TRAINER / "contract", folder / "contract")
    for name, (place, field) in FIELDS.items():
        text = (folder / "contract" / name).read_text(encoding="utf-8")
        assert text.count(place) == 1
        (folder / "contract" / name).write_text(text.replace(place, field + place), encoding="utf-8")
    return _run([sys.executable, "-m", __spec__.name if __spec__ else __name__], folder.parent)


def _run(command: list[str], first: Path) -> Data:
    environment = os.environ | {"PYTHONPATH": f"{first}{os.pathsep}{ROOT}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: Data = json.loads(done.stdout)
    return found


def say() -> Data:
    """What each view of a run says, where it states the two, and where not."""
    stated, plain = compiled(STATED), compiled({})
    payload = stated.resolution.payloads[0]
    properties = {name: part.get("properties", {}) for name, part in described_schema(Run)["$defs"].items()}
    work: Any = RunSpec.model_validate_json(payload.text).work
    return {
        "identity": plain.identity,
        "stated": [stated.identity, getattr(stated.plan.checkpoint, "lineage", None)],
        "default": plain.resolution.payloads[0].text,
        "file": json.loads(payload.text),
        "read": work.label_smoothing,
        "sources": [payload.answers[pointer][0] for pointer in ("/work/label_smoothing", "/lifecycle/watchdog")],
        "facts": plan_facts(stated),
        "rows": dict(plan_rows(stated)),
        "schema": [properties["TrainerWorkload"]["label_smoothing"], properties["Watchdog"]["evaluating"]],
        "reference": reference(Run, "A run", {}),
        "findings": [refused({"label_smothing": 0.1}), refused({"label_smoothing": 1.5})],
    }


def refused(work: Data) -> tuple[str, str, str]:
    """Place, message and fix of what is said of a mistake."""
    with pytest.raises(CompileError) as caught:
        validate_data(Run, overlay(RUN, {"workload": work}), None, {})
    (finding,) = caught.value.findings
    return finding.where.pointer, finding.message, finding.fix


def test_at_its_default_it_is_not_there(told: Data) -> None:
    plain = compiled({})
    assert (told["identity"], told["default"]) == (plain.identity, plain.resolution.payloads[0].text)


def test_an_edit_of_it_is_a_new_name_that_resumes(told: Data) -> None:
    plain = compiled({})
    assert plain.plan.checkpoint is not None
    identity, lineage = told["stated"]
    assert identity != plain.identity
    assert lineage == plain.plan.checkpoint.lineage


def test_the_trainer_reads_what_a_run_states(told: Data) -> None:
    assert told["file"]["work"]["label_smoothing"] == told["read"] == 0.1
    assert told["file"]["lifecycle"]["watchdog"]["evaluating_seconds"] == 300


def test_explain_names_the_field_of_the_run(told: Data) -> None:
    assert told["sources"] == ["run:/workload/label_smoothing", "run:/watchdog"]


def test_plan_and_record_tell_of_it(told: Data) -> None:
    assert told["facts"]["label_smoothing"] == 0.1
    assert told["facts"]["watchdog.evaluating"] == "5m"
    assert told["rows"]["watchdog"] == "evaluating 5 min"


def test_schema_and_page_have_its_text(told: Data) -> None:
    smoothing, evaluating = told["schema"]
    assert smoothing["description"] == "Share of each target that is spread over all classes."
    assert (evaluating["description"], evaluating["default"]) == ("An evaluation, at least.", "10m")
    rows = told["reference"].splitlines()
    assert "| `label_smoothing` | `0.0` | Share of each target that is spread over all classes |" in rows
    assert "| `evaluating` | `10m` | An evaluation, at least |" in rows


def test_a_mistake_is_told_as_of_any_field(told: Data) -> None:
    assert told["findings"] == [
        ["/workload/label_smothing", "there is no key `label_smothing` in workload", "did you mean `label_smoothing`?"],
        ["/workload/label_smoothing", "`workload.label_smoothing` must be less than 1, not 1.5", "write a number below 1"],
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(say()))
