"""Statements: every way in which this rehearsal differs from a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from trainwright.rehearsal.command_line import command_line
from trainwright.rehearsal.container import INTERFACE_VARIABLES, LOOPBACK_INTERFACE
from trainwright.rehearsal.environment import container_environment
from trainwright.rehearsal.override import Override
from trainwright.rehearsal.ports import probes_of
from trainwright.rehearsal.setting import Setting
from trainwright.rehearsal.stores import store_folders
from trainwright.rehearsal.volumes import SHARED_MEMORY
from trainwright_trainer.contract import Script
from trainwright_trainer.contract.layout import TERMINATION_PATH_ENV


def statements(setting: Setting) -> Iterator[Override]:
    """Overrides that follow from the manifests and this machine; those of scaling down come from :mod:`scale`."""
    objects, options, spec = setting.objects, setting.options, setting.spec
    last = setting.names.address(objects.job.completions - 1)
    images = ", ".join(dict.fromkeys(container.image.partition("@")[0] for container in spec.containers))
    python, trainer = sys.version.split()[0], version("trainwright-trainer")
    yield Override("image", f"{images} -> this machine: Python {python}, trainer {trainer}")
    yield Override("pods", "local processes that share one machine; resources, security context, node selection are not enforced")
    yield Override("addresses", f"{setting.names.address(0)}" + (f" to {last}" if objects.job.completions > 1 else "") +
                   ", one for each pod, in place of the Service's names; a port on all addresses is taken for every pod")
    yield from _variables(setting)
    yield from _paths(setting)
    yield from _only_in_the_image(setting)
    yield Override("Job controller", f"replaces a failed pod after {options.replace_seconds:g} s instead of 10 s, 20 s, ...")
    yield Override("signals", "a program is not process 1 here: without a handler SIGTERM ends it, where a container ignores it")
    if any(probe.grpc for container in spec.containers for _, probe in probes_of(container)):
        yield Override("probes", "gRPC probes are not polled")
    for left_out in objects.left_out:
        yield Override("left out", left_out)


def _variables(setting: Setting) -> Iterator[Override]:
    pod = setting.create_pod(0)
    for container in (*setting.spec.init_containers, *setting.spec.containers):
        found = container_environment(container, pod, setting.objects.config_maps, setting.options.environment, container.name)
        interfaces = [name for name in INTERFACE_VARIABLES if found.values.get(name, LOOPBACK_INTERFACE) != LOOPBACK_INTERFACE]
        added = [name for name in (INTERFACE_VARIABLES[0], TERMINATION_PATH_ENV) if name not in found.values]
        yield Override("environment", f"{', '.join(dict.fromkeys([*interfaces, *added, 'PATH']))} as this machine needs them")
        for name in found.from_caller:
            yield Override("secrets", f"{name} is your own environment's value")
        for name, missing in found.unexpanded.items():
            references = ", ".join(f"$({one})" for one in missing)
            yield Override("note", f"env {name} keeps {references} as it stands: nothing of that name is defined before it, "
                           "here and in a cluster alike")


def _paths(setting: Setting) -> Iterator[Override]:
    volumes = {volume.name: volume for volume in setting.spec.volumes}
    claims: dict[str, list[str]] = {}
    read_only: dict[str, bool] = {}
    for container in (*setting.spec.init_containers, *setting.spec.containers):
        for mount in container.volume_mounts:
            claim = volumes[mount.name].persistent_volume_claim
            if claim is not None and mount.mount_path not in setting.options.mounts:
                claims.setdefault(claim.claim_name, []).append(mount.mount_path)
                read_only[claim.claim_name] = read_only.get(claim.claim_name, True) and (mount.read_only or claim.read_only)
    for name, paths in claims.items():
        folder = setting.workspace.claims / name
        empty = " (empty: put the data there)" if read_only[name] and not (folder.is_dir() and any(folder.iterdir())) else ""
        guarded = "; read-only is not enforced" if read_only[name] else ""
        yield Override("claim " + name, f"{', '.join(dict.fromkeys(paths))} -> {folder}{empty}{guarded}")
    for address, folder in store_folders(setting).items():
        yield Override("object store", f"{address} -> {folder}: the real one is neither read nor written")
    for path, local in setting.options.mounts.items():
        yield Override("folder", f"{path} -> {local}, as you asked")
    yield Override("paths", f"other mounts and /tmp -> {setting.workspace.pods}/<pod>; {SHARED_MEMORY} is this machine's; "
                   "paths are rewritten in command, environment and mounted files")


def _only_in_the_image(setting: Setting) -> Iterator[Override]:
    """Files that a command names, and that neither a mount nor this machine has: the image must hold them."""
    pod, work = setting.create_pod(0), setting.specification.spec.work if setting.specification else None
    config_maps, caller = setting.objects.config_maps, setting.options.environment
    for container in setting.spec.containers:
        values = container_environment(container, pod, config_maps, caller, container.name).values
        mounted = [mount.mount_path for mount in container.volume_mounts] + list(setting.options.mounts)
        words = (*command_line(container, values), *(work.command if isinstance(work, Script) else ()))
        for word in dict.fromkeys(words):
            path = PurePosixPath(word)
            if path.is_absolute() and not any(path.is_relative_to(mount) for mount in mounted) and not Path(word).exists():
                yield Override("note", f"{word} is not on this machine; if the image holds it, give a folder that stands for "
                               f"{path.parent}: --mount {path.parent}=FOLDER")


def writable_claims(setting: Setting) -> list[str]:
    """Claims that some mount may write to."""
    spec = setting.spec
    claims = {volume.name: volume.persistent_volume_claim for volume in spec.volumes if volume.persistent_volume_claim}
    return list(dict.fromkeys(
        claims[mount.name].claim_name
        for container in (*spec.init_containers, *spec.containers) for mount in container.volume_mounts
        if mount.name in claims and not mount.read_only and not claims[mount.name].read_only
    ))
