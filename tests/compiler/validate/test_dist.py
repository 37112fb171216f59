"""Everything that is committed in dist/ would be taken by the API server, at the version of its cluster, and by the operators."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compiler.validate.samples import ROOT, SAMPLES, UPSTREAM, names

from trainwright.project.load import version_for
from trainwright.project.record import ARGO_CD
from trainwright.reading.document import read_yaml
from trainwright.validate import validate_files
from trainwright.validate.manifests import files_below, read_manifests

FILES = list(files_below([ROOT / "dist"]))
CRDS = Path(UPSTREAM) if UPSTREAM else None


def test_each_file_of_dist_is_validated_at_the_version_of_its_cluster() -> None:
    clusters = (read_yaml(path).data for path in (ROOT / "charts" / "clusters").iterdir())
    stated = {profile["cluster"]: profile["kubernetes"] for profile in clusters}
    found = {path.relative_to(ROOT / "dist").parts[0]: version_for(path) for path in FILES}
    assert found == {**stated, ARGO_CD: None}, "what Argo CD reads is of no cluster that a profile describes"
    assert len(set(stated.values())) > 1


@pytest.mark.parametrize("cluster", sorted({path.relative_to(ROOT / "dist").parts[0] for path in FILES}))
def test_each_file_of_a_cluster_is_valid(cluster: str) -> None:
    files = list(files_below([ROOT / "dist" / cluster]))
    report = validate_files(files, CRDS, version_for)
    assert all(read_manifests(path)[0] for path in files)
    assert [finding for finding in report.findings if finding.code != "TW702"] == []
    assert not report.unchecked, report.unchecked
    assert CRDS is None or not report.by_name, "there is no CRD of it: add one to constructs/trainwright/validate/pins.toml"


def test_custom_kinds_were_validated() -> None:
    """The one place that says what is left out where there are no CRDs. CI fails on any skip."""
    left = validate_files([ROOT / "dist", SAMPLES], CRDS).by_name
    if CRDS is None:
        objects = f"{sum(left.values())} objects of {len(left)} kinds in dist/ and the samples"
        counts = f"{objects}, and every test of {len(names(custom=True))} kinds"
        pytest.skip(f"TRAINWRIGHT_CRDS is unset, VALIDATED by name: {counts}; run `trainwright crds`, set it to build/crds")
    assert left == {}
