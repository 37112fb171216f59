"""Strangers: containers beside the one that trains whose program is in their image only, such as a log collector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainwright.manifest.data.awaiting import AWAIT_CONTAINER
from trainwright.rehearsal.command_line import find_program, search_path
from trainwright.rehearsal.kinds import Container
from trainwright.rehearsal.objects import Objects
from trainwright.rehearsal.options import Options
from trainwright.rehearsal.override import Override


def without_strangers(objects: Objects, options: Options) -> tuple[Objects, tuple[Override, ...]]:
    """The objects without them: what they do for a run cannot be rehearsed, and the run itself can."""
    objects, unfetched = _without_waiting(objects)
    pod = objects.job.pod
    strangers = [container for container in pod.containers if container is not pod.main and not _is_here(container, options)]
    if not strangers:
        return objects, unfetched
    kept = [container for container in pod.containers if container not in strangers]
    return _with(objects, containers=kept), (*unfetched, *(
        Override("left out", f"container {container.name}: its program is in image {container.image.partition('@')[0]} only")
        for container in strangers
    ))


def _without_waiting(objects: Objects) -> tuple[Objects, tuple[Override, ...]]:
    """A rehearsal fetches no data, so nothing may wait for it: what lies in the folder of the claim is what the run reads."""
    containers = objects.job.pod.init_containers
    kept = [container for container in containers if container.name != AWAIT_CONTAINER]
    if len(kept) == len(containers):
        return objects, ()
    text = "is not fetched here, and nothing waits for it: give a folder for the path, --mount PATH=FOLDER"
    return _with(objects, init_containers=kept), (Override("data", text),)


def _with(objects: Objects, **changes: Sequence[Container]) -> Objects:
    """The objects with another pod."""
    job = objects.job
    template = job.spec.template.model_copy(update={"spec": job.pod.model_copy(update=changes)})
    return replace(objects, job=job.model_copy(update={"spec": job.spec.model_copy(update={"template": template})}))


def _is_here(container: Container, options: Options) -> bool:
    return bool(container.command) and find_program(container.command[0], search_path({}, options.environment)) is not None
