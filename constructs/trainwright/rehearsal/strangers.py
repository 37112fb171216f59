"""Strangers: containers beside the one that trains whose program is in their image only, such as a log collector."""

from __future__ import annotations

from dataclasses import replace

from trainwright.rehearsal.command_line import find_program, search_path
from trainwright.rehearsal.kinds import Container
from trainwright.rehearsal.objects import Objects
from trainwright.rehearsal.options import Options
from trainwright.rehearsal.override import Override


def without_strangers(objects: Objects, options: Options) -> tuple[Objects, tuple[Override, ...]]:
    """The objects without them: what they do for a run cannot be rehearsed, and the run itself can."""
    pod = objects.job.pod
    strangers = [container for container in pod.containers if container is not pod.main and not _is_here(container, options)]
    if not strangers:
        return objects, ()
    template, spec = objects.job.spec.template, objects.job.spec
    kept = pod.model_copy(update={"containers": [container for container in pod.containers if container not in strangers]})
    template = template.model_copy(update={"spec": kept})
    job = objects.job.model_copy(update={"spec": spec.model_copy(update={"template": template})})
    return replace(objects, job=job), tuple(
        Override("left out", f"container {container.name}: its program is in image {container.image.partition('@')[0]} only")
        for container in strangers
    )


def _is_here(container: Container, options: Options) -> bool:
    return bool(container.command) and find_program(container.command[0], search_path({}, options.environment)) is not None
