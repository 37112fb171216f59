"""Setting: all that a pod of this rehearsal needs besides its own index."""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.rehearsal.dns import Names
from trainwright.rehearsal.kinds import PodSpec
from trainwright.rehearsal.objects import Objects
from trainwright.rehearsal.options import Options
from trainwright.rehearsal.pod import Pod, create_pod
from trainwright.rehearsal.specification import Specification
from trainwright.rehearsal.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Setting:
    objects: Objects
    specification: Specification | None
    options: Options
    workspace: Workspace
    names: Names

    @property
    def spec(self) -> PodSpec:
        return self.objects.job.pod

    def create_pod(self, index: int) -> Pod:
        return create_pod(self.objects.job, index, self.names.address(index))
