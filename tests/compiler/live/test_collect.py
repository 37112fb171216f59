"""What a collected snapshot leaves out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.compiler.live.api_server import RefusedError
from tests.compiler.live.conftest import Lab

from trainwright.live.collect import _bare


def test_no_data_of_config_maps_and_secrets_is_kept() -> None:
    applied = {"kubectl.kubernetes.io/last-applied-configuration": '{"data": "secret"}', "kept": "yes"}
    for kind in ("ConfigMap", "Secret"):
        metadata = {"name": "a", "annotations": applied, "managedFields": [{"manager": "b"}]}
        one = _bare(
            {
                "apiVersion": "v1",
                "kind": kind,
                "metadata": metadata,
                "data": {"key": "secret"},
                "stringData": {},
                "binaryData": {},
            }
        )
        assert one == {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "annotations": {"kept": "yes"}}}


def test_a_cluster_is_read_with_kubectl(lab: Lab, tmp_path: Path) -> None:
    """And its file says afterwards what the cluster said."""
    lab.apply()
    file = tmp_path / "snapshot.json"
    code, said = lab.run("collect", str(file), "--context", "lab")
    assert code == 0, said
    jobs = [one["metadata"]["name"] for one in json.loads(file.read_text())["items"] if one["kind"] == "Job"]
    assert sorted(jobs) == sorted(lab.cluster.names("jobs"))
    for command in ("status", "diagnose"):
        now, later = (lab.run(command, *source) for source in (("--context", "lab"), ("--from", str(file))))
        assert now == later
        assert "digits-ddp" in later[1]


def test_a_group_whose_own_server_is_down_hides_no_other(lab: Lab, tmp_path: Path) -> None:
    """As a metrics server that does not run: kubectl then prints all others, and ends with an error."""
    lab.apply()
    lab.cluster.silent = {"metrics.k8s.io/v1beta1"}
    file = tmp_path / "snapshot.json"
    code, said = lab.run("collect", str(file), "--context", "lab")
    assert code == 0, said
    taken = json.loads(file.read_text())
    assert "does not answer" in taken["collected"]["lacks"]["metrics.k8s.io"]
    assert [one for one in taken["items"] if one["kind"] == "Job"]


CONVERSION = "conversion webhook for kueue.x-k8s.io/v1beta1, Kind=LocalQueue failed: Post "


@pytest.mark.parametrize("why", [
    f'{CONVERSION}"https://a.b.svc:443/convert": dial tcp 10.0.0.1:443: connect: connection refused',
    f'{CONVERSION}"https://a.b.svc:443/convert": tls: failed to verify certificate: x509: certificate has expired',
    "unable to transform key: Internal error",
])  # fmt: skip
def test_a_kind_that_cannot_be_read_hides_no_other(lab: Lab, tmp_path: Path, why: str) -> None:
    """As where the operator is down that converts objects of that kind from one version to another."""
    lab.apply()
    lab.cluster.unread["localqueues"] = RefusedError(500, "", why)
    file = tmp_path / "snapshot.json"
    code, said = lab.run("collect", str(file), "--context", "lab")
    assert code == 0, said
    taken = json.loads(file.read_text())
    assert why in taken["collected"]["lacks"]["LocalQueue"]
    assert [one for one in taken["items"] if one["kind"] == "Job"]
    assert lab.run("status", "--context", "lab")[0] == 0
