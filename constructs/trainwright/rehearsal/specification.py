"""The trainer's specification, as the ConfigMap carries it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from trainwright.rehearsal.kinds import ConfigMap
from trainwright_trainer.contract import API_VERSION, RunSpec
from trainwright_trainer.contract.spec import Meeting


@dataclass(frozen=True, slots=True)
class Specification:
    config_map: str
    key: str
    spec: RunSpec

    @property
    def meeting(self) -> Meeting:
        """Where the pods find each other; only a static world is played."""
        return self.spec.world.meeting

    @property
    def place(self) -> str:
        return f"ConfigMap {self.config_map}, {self.key}"


def find_specification(config_maps: Mapping[str, ConfigMap]) -> Specification | None:
    """The first valid specification; None for an opaque command.

    An invalid one counts as none here: the supervisor refuses it by itself, with the exit code that the failure policy knows.
    """
    for name, config_map in config_maps.items():
        for key, text in config_map.data.items():
            if _claims_to_be_one(text):
                try:
                    return Specification(name, key, RunSpec.model_validate_json(text))
                except ValidationError:
                    continue
    return None


def _claims_to_be_one(text: str) -> bool:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("api_version") == API_VERSION
