"""Validates manifests as the API server and the operators would: ``trainwright validate``."""

from __future__ import annotations

from trainwright.validate.check import CheckedBy, Report, check_manifests, object_problems, validate_files
from trainwright.validate.crd import Catalogue, load_catalogue
from trainwright.validate.problem import Problem

__all__ = [
    "Catalogue",
    "CheckedBy",
    "Problem",
    "Report",
    "check_manifests",
    "load_catalogue",
    "object_problems",
    "validate_files",
]
