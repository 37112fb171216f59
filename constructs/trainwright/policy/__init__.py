"""Policies of a platform team: what runs may ask for. See ``docs/policies.md``."""

from __future__ import annotations

from trainwright.policy.model import Exempt, GpuCap, Policy, PolicyRun, PythonPolicy, Scope, Violation

__all__ = ["Exempt", "GpuCap", "Policy", "PolicyRun", "PythonPolicy", "Scope", "Violation"]
