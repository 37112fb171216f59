"""Validates manifests as the API server and the operators would: ``trainwright validate``."""

from __future__ import annotations

from trainwright.objects.problem import Problem
from trainwright.validate.check import CheckedBy, Report, check_manifests, object_problems, validate_files
from trainwright.validate.crd import Catalogue, load_catalogue

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
