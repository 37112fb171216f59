"""Files and folders of manifests against a folder of CRDs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from trainwright.findings import Finding
from trainwright.validate.check import Report, check_manifests
from trainwright.validate.core_schemas import known_version
from trainwright.validate.crd import Catalogue, load_catalogue
from trainwright.validate.manifests import Manifest, files_below, read_manifests


def newest(_: Path) -> None:
    """The newest version that there are schemas of, for any file."""


def validate_files(
    paths: Sequence[Path], crds: Path | None, version_for: Callable[[Path], str | None] = newest
) -> Report:
    """Everything that the API server or an operator would refuse in the objects of some files.

    Args:
        paths: files, or folders whose YAML and JSON files are read.
        crds: a folder with CustomResourceDefinitions, at any depth; without one, custom resources are reported as not validated.
        version_for: the version of the cluster that a file is for, such as ``1.34``; None for the newest that there are.

    Raises:
        UnknownVersionError: there are no schemas of that version.
    """
    manifests: list[tuple[Manifest, str]] = []
    findings: list[Finding] = []
    for path in files_below(paths):
        version = known_version(version_for(path))
        read, refused = read_manifests(path)
        manifests += [(manifest, version) for manifest in read]
        findings += refused
    catalogue = load_catalogue(crds, _groups([manifest for manifest, _ in manifests])) if crds else Catalogue()
    report = check_manifests(manifests, catalogue)
    report.findings = _in_order([*findings, *catalogue.findings, *report.findings])
    return report


def _groups(manifests: Sequence[Manifest]) -> frozenset[str]:
    """The groups that CRDs are needed of."""
    versions = (manifest.data.get("apiVersion") for manifest in manifests)
    groups = (version.rpartition("/")[0] for version in versions if isinstance(version, str))
    return frozenset(group for group in groups if "." in group)


def _in_order(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.where.file or "", finding.where.line or 0, finding.where.column or 0))
