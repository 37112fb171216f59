"""A Dockerfile as its instructions, in stages: as much of the format as the images here use."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Instruction:
    name: str
    value: str
    """Lines that continue are one, as the shell sees them."""


@dataclass(slots=True)
class Stage:
    base: str
    name: str | None
    instructions: list[Instruction] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        return [instruction.value for instruction in self.instructions if instruction.name == name]


@dataclass(slots=True)
class Dockerfile:
    path: Path
    arguments: dict[str, str | None] = field(default_factory=dict)
    """Before the first stage: name -> default."""
    stages: list[Stage] = field(default_factory=list)

    @property
    def family(self) -> str:
        return self.path.name.removesuffix(".Dockerfile")

    @property
    def last(self) -> Stage:
        return self.stages[-1]

    def values(self, name: str) -> list[str]:
        return [value for stage in self.stages for value in stage.values(name)]


def read(path: Path) -> Dockerfile:
    """Raises ValueError for a line that is no instruction."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found = Dockerfile(path)
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        match = re.fullmatch(r"([A-Z]+) +(.+)", line)
        if match is None:
            raise ValueError(f"{path.name}: not an instruction: {line}")
        name, value = match[1], match[2].strip()
        if name == "FROM":
            base, _, stage = value.partition(" AS ")
            found.stages.append(Stage(base, stage or None))
        elif not found.stages:
            argument, equals, default = value.partition("=")
            found.arguments[argument] = default if equals else None
        else:
            found.stages[-1].instructions.append(Instruction(name, value))
    return found
