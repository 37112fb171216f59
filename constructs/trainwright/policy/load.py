"""The policies of a project: files and modules in ``charts/policies/``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import Locator, Positions
from trainwright.policy.model import Policy, PythonPolicy
from trainwright.reading import validate, validate_data
from trainwright.reading.document import read_text, read_yaml
from trainwright.reading.run_module import execute

SUFFIXES = (".yaml", ".yml", ".py")
NOTES = (".md", ".txt", "")
"""Of what may lie beside policies, such as a README or who owns the folder."""


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy, as read."""

    name: str
    """The path as shown to people."""
    policy: Policy | PythonPolicy
    positions: Positions

    def where(self, pointer: str = "") -> Where:
        return Locator(self.name, self.positions).run(pointer)


def load_policies(folder: Path, shown: Callable[[Path], str], findings: list[Finding]) -> dict[str, PolicyFile]:
    """Code -> policy. What is wrong with those that cannot be read is added to the findings."""
    policies: dict[str, PolicyFile] = {}
    for path in sorted(folder.glob("*")):
        if path.name.startswith("_") or (path.suffix not in SUFFIXES and _beside(path)):
            continue
        try:
            loaded = load_policy(path, shown(path))
        except CompileError as error:
            findings += error.findings
            continue
        code = loaded.policy.code
        if code in policies:
            message = f"policy {code} is also in {policies[code].name}"
            findings.append(found("TW109", loaded.where("/code"), message, "give one of the two another code"))
        policies.setdefault(code, loaded)
    return policies


def _beside(path: Path) -> bool:
    return path.name.startswith(".") or (path.suffix in NOTES and path.is_file())


def load_policy(path: Path, shown: str) -> PolicyFile:
    """One policy, from YAML or from a module that exports POLICY.

    Raises:
        CompileError: with findings on the lines of the file, or TW101 for what is none by its name, and would hold nobody.
    """
    if path.suffix not in SUFFIXES:
        fix = f"write each policy into a file of charts/policies/ itself that ends in {', '.join(SUFFIXES)}"
        raise CompileError([found("TW101", Where(shown), f"{shown} is not read: a policy in it would hold nobody", fix)])
    if path.suffix != ".py":
        document = read_yaml(path, shown)
        return PolicyFile(shown, validate(Policy, document), document.positions)
    text = read_text(path, shown)
    exported = execute(path, text, shown, lambda module: module.get("POLICY"))
    assigned = re.search(r"^POLICY\b", text, re.MULTILINE)
    positions = {"": (text.count("\n", 0, assigned.start()) + 1 if assigned else 1, 1)}
    if not isinstance(exported, PythonPolicy | Policy):
        said = "the module exports no POLICY" if exported is None else f"POLICY is of type {type(exported).__name__}"
        fix = "write `POLICY = PythonPolicy(...)`, with PythonPolicy from trainwright.policy"
        raise CompileError([found("TW108", Where(shown, *positions[""]), said, fix)])
    return PolicyFile(shown, validate_data(type(exported), exported, shown, positions), positions)


