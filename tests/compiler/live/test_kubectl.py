"""What kubectl says of a failure becomes one message, and a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.live.kubectl import Kubectl, KubectlError, Reason

SAID = [
    (
        'E1126 08:38:26.603551 8419 memcache.go:265] "Unhandled Error" err="couldn\'t get current server API group list"\n'
        "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
        Reason.UNREACHABLE, "kubectl get (context lab): The connection to the server localhost:8080 was refused",
    ),
    ("Unable to connect to the server: dial tcp: lookup api.lab: no such host", Reason.UNREACHABLE, "no such host"),
    ("Error in configuration: context was not found for specified context: lab", Reason.CONTEXT, "get-contexts"),
    ("error: You must be logged in to the server (Unauthorized)", Reason.UNAUTHORIZED, "log in"),
    ("Unable to connect to the server: getting credentials: exec: executable aws failed with exit code 255", Reason.UNAUTHORIZED,
     "log in"),
    ('Error from server (Forbidden): jobs.batch is forbidden: User "x" cannot list resource "jobs" in API group "batch"',
     Reason.FORBIDDEN, 'jobs.batch is forbidden: User "x"'),
    ('Error from server (Forbidden): error when creating "STDIN": pods "x" is forbidden: exceeded quota: gpus', Reason.REFUSED,
     "exceeded quota"),
    ('Error from server (NotFound): jobs.batch "x" not found', Reason.NOT_FOUND, 'jobs.batch "x" not found'),
    ("Error from server (NotFound): the server could not find the requested resource", Reason.UNSERVED, "not installed"),
    ('error: the server doesn\'t have a resource type "jobsets"', Reason.UNSERVED, "not installed"),
    ('error: resource mapping not found for name: "x": no matches for kind "JobSet" in version "jobset.x-k8s.io/v1alpha2"',
     Reason.UNSERVED, "not installed"),
    ('Error from server (BadRequest): admission webhook "v.example.com" denied the request: no', Reason.REFUSED, "denied"),
    ('Error from server (InternalError): Internal error occurred: failed calling webhook "vjobset.kb.io": failed to call '
     'webhook: Post "https://jobset.svc:443/x": no endpoints available for service "jobset"', Reason.UNASKED, "; start the"),
    ('Error from server (InternalError): Internal error occurred: failed calling webhook "v.example.com": failed to call '
     "webhook: the server could not find the requested resource", Reason.UNASKED, "; start the"),
    ("Error from server: conversion webhook for kueue.x-k8s.io/v1beta1, Kind=Workload failed: Post "
     '"https://kueue.svc:443/convert?timeout=30s": dial tcp 10.0.0.1:443: i/o timeout', Reason.UNASKED, "): conversion webhook"),
    ('error: Apply failed with 1 conflict: conflict with "admin" using v1: .spec.x\nPlease review the fields above--they '
     "currently have other managers.\nre-run the apply command with the `--force-conflicts` flag.",
     Reason.CONFLICT, ".spec.x; what another"),
    ('Error from server (Conflict): Operation cannot be fulfilled on configmaps "x": the object has been modified; please apply '
     "your changes to the latest version and try again", Reason.CHANGED, "at the same time"),
    ("panic: runtime error", Reason.OTHER, "panic"),
    ("", Reason.OTHER, "it said nothing"),
]


@pytest.mark.parametrize(("said", "reason", "words"), SAID)
def test_a_failure_has_a_reason(said: str, reason: Reason, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "said").write_text(said)
    program = tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/said" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(KubectlError) as caught:
        Kubectl("lab").run("get", "jobs")
    assert (caught.value.reason, words in str(caught.value)) == (reason, True), str(caught.value)
    assert "--force-conflicts" not in str(caught.value)


def test_it_may_be_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KubectlError, match="not on PATH") as caught:
        Kubectl().get("jobs")
    assert caught.value.reason is Reason.MISSING
