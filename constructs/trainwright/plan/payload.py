"""Files that a run brings into its pods: the specification, what its engine reads, and the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pydantic_core import to_json

from trainwright.findings.locate import escape
from trainwright.plan.deepspeed import SOURCES as DEEPSPEED_SOURCES
from trainwright.plan.specification import SOURCES, render_for
from trainwright.run import Run
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.layout import DEEPSPEED_FILE, SPEC_DIRECTORY, SPEC_FILE


@dataclass(frozen=True, slots=True)
class Payload:
    """One file: a key of the run's ConfigMap, and where pods find it."""

    key: str
    path: str
    text: str
    source: str
    reason: str
    answers: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Pointer into a JSON file -> source and reason of what is there; the nearest entry answers."""

    @property
    def mounted_alone(self) -> bool:
        """Whether it has a mount of its own; the trainer's own files share a folder."""
        return not self.path.startswith(f"{SPEC_DIRECTORY}/")


def plan_payloads(run: Run, spec: RunSpec | None, deepspeed: Mapping[str, object] | None) -> tuple[Payload, ...]:
    """In the order of the ConfigMap."""
    payloads = []
    if spec is not None:
        rendered, _ = render_for(spec, run.trainer_version or "")
        reason = "the run's specification, the one file that the supervisor reads"
        payloads.append(Payload(SPEC_FILE, f"{SPEC_DIRECTORY}/{SPEC_FILE}", _json(rendered), "trainwright", reason, SOURCES))
    if deepspeed is not None:
        reason = "DeepSpeed's configuration, made from the plan"
        path = f"{SPEC_DIRECTORY}/{DEEPSPEED_FILE}"
        payloads.append(Payload(DEEPSPEED_FILE, path, _json(deepspeed), "trainwright", reason, DEEPSPEED_SOURCES))
    for number, (path, content) in enumerate(run.files.items()):
        text = content if isinstance(content, str) else _json(content)
        source = f"run:/files/{escape(path)}"
        answers = {} if isinstance(content, str) else {"": (source, "as asked")}
        payloads.append(Payload(f"file-{number}-{_key(path)}", path, text, source, "as asked", answers))
    return tuple(payloads)


def _key(path: str) -> str:
    """The name of a file as far as a key of a ConfigMap can hold it."""
    return re.sub(r"[^-._a-zA-Z0-9]", "_", PurePosixPath(path).name)[-200:]


def _json(value: object) -> str:
    return to_json(value, indent=2).decode() + "\n"
