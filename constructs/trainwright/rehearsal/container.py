"""From a container's manifest to a local process: command, environment, folders, files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright.rehearsal.command_line import command_line, find_program, search_path
from trainwright.rehearsal.environment import container_environment
from trainwright.rehearsal.kinds import Container
from trainwright.rehearsal.pod import Pod
from trainwright.rehearsal.problem import CannotWorkError, Problem
from trainwright.rehearsal.rewrite import PathRewriter, Rewrite
from trainwright.rehearsal.setting import Setting
from trainwright.rehearsal.stores import store_folders
from trainwright.rehearsal.volumes import mounted_folders, rendered_files, write_files
from trainwright_trainer.contract.layout import TERMINATION_PATH_ENV

TEMPORARY = "/tmp"  # noqa: S108 - path inside the container
LOOPBACK_INTERFACE = "lo" if sys.platform == "linux" else "lo0"
INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
"""Variables that name a network interface of the cluster's machines."""
FROM_CALLER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""What this machine's Python may need to start at all."""


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """A container as it is started here."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    log: Path
    termination_message: Path
    rewrite: Rewrite
    """From the container's paths and names to this machine's."""


def set_up(container: Container, pod: Pod, setting: Setting) -> LocalProcess:
    """Make the container's folders and files, and rewrite paths and names for this machine.

    Raises :class:`CannotWorkError` for what only a later pod can show; :mod:`checks` has found everything else.
    """
    home = setting.workspace.pod(pod.name)
    options, config_maps = setting.options, setting.objects.config_maps
    found = container_environment(container, pod, config_maps, options.environment, f"pod {pod.name}, container {container.name}")
    if found.problems:
        raise CannotWorkError(found.problems)
    folders = mounted_folders(setting.spec, container, found.values, setting.workspace.volumes(pod.name))
    termination = _termination_file(home, container)
    temporary = folders.get(TEMPORARY, home / "tmp")
    temporary.mkdir(parents=True, exist_ok=True)
    own = {TEMPORARY: temporary, container.termination_message_path: termination, **store_folders(setting)}
    paths = PathRewriter({**own, **folders, **options.mounts})

    def local(text: str) -> str:
        return paths(setting.names.rewrite(text))

    _write_mounted_files(container, pod, setting, local)
    values = {name: value if name in found.from_caller else local(value) for name, value in found.values.items()}
    environment = _process_environment(values, pod, home, temporary, termination, options.environment)
    words = [local(word) for word in command_line(container, found.values)]
    return LocalProcess(
        command=(_program(words[0], environment, pod, container), *words[1:]),
        environment=environment,
        directory=_directory(container, local),
        log=home / f"{container.name}.log",
        termination_message=termination,
        rewrite=local,
    )


def _termination_file(home: Path, container: Container) -> Path:
    """The kubelet makes it before the container starts, empty."""
    path = home / f"{container.name}.termination"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def _write_mounted_files(container: Container, pod: Pod, setting: Setting, local: Rewrite) -> None:
    folders = setting.workspace.volumes(pod.name)
    volumes = {volume.name: volume for volume in setting.spec.volumes}
    for name in dict.fromkeys(mount.name for mount in container.volume_mounts):
        files, _ = rendered_files(volumes[name], pod, setting.objects.config_maps, pod.name)
        write_files(folders.files(container.name, name), {path: local(text) for path, text in files.items()})


def _process_environment(
    values: Mapping[str, str], pod: Pod, home: Path, temporary: Path, termination: Path, caller: Mapping[str, str]
) -> dict[str, str]:
    """The container's variables, what a container runtime adds, and what this machine needs."""
    return {
        **{name: caller[name] for name in FROM_CALLER if name in caller},
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "HOSTNAME": pod.host_name,
        **values,
        "PATH": search_path(values, caller),
        "GLOO_SOCKET_IFNAME": LOOPBACK_INTERFACE,
        **{name: LOOPBACK_INTERFACE for name in INTERFACE_VARIABLES if name in values},
        # nobody may write to the kubelet's usual place in /dev here
        TERMINATION_PATH_ENV: str(termination),
    }


def _directory(container: Container, local: Rewrite) -> Path:
    """The working directory if it is a mounted one, else the caller's: what the image holds there is not known."""
    mapped = Path(local(container.working_dir or "."))
    return mapped if mapped.is_dir() else Path.cwd()


def _program(word: str, environment: Mapping[str, str], pod: Pod, container: Container) -> str:
    program = find_program(word, environment["PATH"])
    if program is None:
        raise CannotWorkError([Problem(f"pod {pod.name}, container {container.name}",
                                  f'failed to start: exec: "{word}": executable file not found in $PATH', "correct the command")])
    return program
