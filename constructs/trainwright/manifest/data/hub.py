"""The Hugging Face Hub, in the words of ``trainwright-trainer fetch`` and of huggingface_hub (its Environment variables)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainwright.manifest.limits import literal
from trainwright.manifest.provenance import Tree, Why
from trainwright.run import HubToken, Preparation

PROGRAM = "trainwright-trainer"
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
    command = [PROGRAM, "fetch", preparation.source, folder, *patterns, *form, *subset]
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


def said_by(command: Sequence[str], variables: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a preparation says of a repository, by the command and the variables that it got."""
    _, _, source, _, *options = (word.replace("$$", "$") for word in command)
    told = list(zip(options[::2], options[1::2], strict=True))
    patterns = {key: tuple(value for name, value in told if name == f"--{key}") for key in ("include", "exclude")}
    single = {name.removeprefix("--"): value for name, value in told if name in ("--form", "--subset")}
    stated: dict[str, Any] = {"source": source, **{key: list(value) for key, value in patterns.items() if value}, **single}
    for one in variables:
        if one["name"] == "HF_ENDPOINT":
            stated["endpoint"] = one["value"]
        if one["name"] == "HF_TOKEN":
            key = one["valueFrom"]["secretKeyRef"]
            stated["credentials"] = {"token": {"secret": key["name"], "key": key["key"]}}
    return stated
