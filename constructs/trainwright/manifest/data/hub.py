"""The Hugging Face Hub, in the words of ``trainwright-trainer fetch`` and of huggingface_hub (its Environment variables)."""

from __future__ import annotations

from trainwright.manifest.limits import literal
from trainwright.manifest.provenance import Tree, Why
from trainwright.run import HubToken, Preparation

OPTIONS = (
    ("HOME", "/tmp", "the root file system is read-only"),  # noqa: S108
    ("HF_HUB_DISABLE_PROGRESS_BARS", "1", "a log is no terminal"),
    ("HF_HUB_DISABLE_TELEMETRY", "1", "the Hub is asked for files, and told nothing else"),
)


def told(preparation: Preparation, source: str, folder: str) -> Tree:
    """Command and variables; ``source`` is the pointer of the preparation, ``folder`` what is filled."""
    patterns = [word for one in preparation.include for word in ("--include", literal(one))]
    patterns += [word for one in preparation.exclude for word in ("--exclude", literal(one))]
    form = ["--form", preparation.form] if preparation.form != "files" else []
    subset = ["--subset", literal(preparation.subset)] if preparation.subset else []
    command = ["trainwright-trainer", "fetch", preparation.source, folder, *patterns, *form, *subset]
    variables = [Why({"name": name, "value": value}, "trainwright", reason) for name, value, reason in OPTIONS]
    known = preparation.credentials
    if preparation.endpoint:
        variables.append(Why({"name": "HF_ENDPOINT", "value": preparation.endpoint}, f"{source}/endpoint", "as asked"))
    if isinstance(known, HubToken):
        key = {"name": known.token.secret, "key": known.token.key}
        reason = "a reference: the value stays in the Secret"
        variables.append(Why({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": key}}, f"{source}/credentials/token", reason))
    reason = "fetches, compares, and writes the marker last; finds the marker and ends the next time"
    return {"command": Why(command, f"{source}/source", reason), "env": variables}
