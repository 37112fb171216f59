"""What nobody keeps any more is refused with what became of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.findings.page import BASE, overlay

from trainwright.findings import CompileError, Finding
from trainwright.reading import validate_data
from trainwright.reading.document import read_yaml
from trainwright.run import Run


def refused(change: dict[str, Any]) -> Finding:
    with pytest.raises(CompileError) as error:
        validate_data(Run, overlay(read_yaml(BASE / "charts" / "runs" / "example.yaml").data, change), None, {})
    (finding,) = error.value.findings
    return finding


@pytest.mark.parametrize("name", ["mxnet", "MXNet", "mx-net", "mxjob", "MXJob", "mx-job", "mx_job"])
@pytest.mark.parametrize("field", ["target", "topology.kind"])
def test_mxnet_is_refused_wherever_it_is_named(name: str, field: str) -> None:
    change = {"target": name} if field == "target" else {"topology": {"kind": name, "nodes": 2, "gpus_per_node": 8}}
    finding = refused(change)
    assert finding.code == "TW107"
    assert f"`{field}` cannot be {name}" in finding.message
    assert "Apache Attic" in finding.message
    assert "dropped MXJob" in finding.message
    assert "kind: ddp" in finding.fix


@pytest.mark.parametrize("change", [{"target": "mpi"}, {"topology": {"kind": "dpd", "nodes": 2, "gpus_per_node": 8}}])
def test_a_name_that_never_was_gets_the_names_that_are(change: dict[str, Any]) -> None:
    finding = refused(change)
    assert "Attic" not in finding.message
    assert "ddp" in finding.fix or "mpi-job" in finding.fix
