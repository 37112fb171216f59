"""Runs of dist/ whose program stands in the run: what their pods are told, and that program in a folder of a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml

RUNS = Path(__file__).resolve().parents[1] / "dist" / "h100-ib" / "training" / "runs"


class Recipe(NamedTuple):
    program: Path
    specification: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """What the run states for its program."""
        found: dict[str, Any] = self.specification["work"]["config"]
        return found


def recipe(name: str, folder: Path) -> Recipe:
    """As the run's ConfigMap has both."""
    objects = yaml.safe_load_all((RUNS / f"{name}.k8s.yaml").read_text(encoding="utf-8"))
    [data] = [one["data"] for one in objects if one["kind"] == "ConfigMap"]
    specification = json.loads(data.pop("run.json"))
    [program] = data.values()
    path = folder / Path(specification["work"]["command"][-1]).name
    path.write_text(program, encoding="utf-8")
    return Recipe(path, specification)
