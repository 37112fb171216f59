"""One container as a local process: its command, environment, folders and files, its output, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from trainwright.operators.ending import ContainerEnd
from trainwright.rehearsal.networks.bridge import PYTHON
from trainwright.rehearsal.networks.network import INTERFACE_VARIABLES, Network
from trainwright.rehearsal.processes.brought import write_supervisor
from trainwright.rehearsal.processes.place import TEMPORARY, Place, make_place, stated_user
from trainwright.rehearsal.processes.ray import DRAIN_SECONDS, GCS, agent_port, write_ray
from trainwright.rehearsal.processes.ssh import mounts_keys, write_program, write_programs
from trainwright.rehearsal.setting import Setting
from trainwright.rehearsal.stated.environment import command_line, container_environment, find_program, not_found
from trainwright.rehearsal.stated.kinds import Container
from trainwright.rehearsal.stated.objects import Blocker, CannotWorkError
from trainwright.rehearsal.stated.pod import Pod
from trainwright.rehearsal.stated.volumes import (
    PathRewriter,
    Rewrite,
    alike_in_all_pods,
    mounted_folders,
    rendered_files,
    write_files,
)
from trainwright_trainer.contract.layout import BIND_ENV, BROUGHT_FOLDER, TERMINATION_PATH_ENV

RUN_AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
"""Without them Open MPI refuses to start where root rehearses a pod of user 1000."""
SERVERS = ("TF_CONFIG",)
"""Variables that name servers of which each pod has one, and which listen on all addresses."""
PROGRAMS = "programs"
FROM_CALLER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH")
"""What this machine's Python may need to start at all."""

INIT = Path(__file__).with_name("container_init.py")
MESSAGE_BYTES = 4096
"""The most that the kubelet keeps of a termination message."""
OUTPUT_SECONDS = 2.0
"""How long output may stay open after the end; the descendants that could hold it are killed."""

LONGEST_LINE = 1 << 20
"""A longer line is handed on in pieces."""
TAIL_LINES = 80
TAIL_BYTES = 2048
"""What the kubelet takes of a log as termination message (FallbackToLogsOnError)."""
_CHUNK_BYTES = 1 << 16


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
    place: Place | None

    async def start(self, command: Sequence[str], output: int) -> asyncio.subprocess.Process:
        """A command in the container. The end of its input ends it and all that it has started (:mod:`container_init`)."""
        return await asyncio.create_subprocess_exec(
            *PYTHON, str(INIT), str(self.place or ""), *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(self.environment),
            cwd=self.directory,
            pass_fds=self.place.namespaces if self.place else (),
            start_new_session=True,  # the terminal's Ctrl-C is for the rehearsal, which tells the pods
        )


def try_namespaces(network: Network) -> None:
    """Start a container that has everything, and let it end. Raises :class:`OSError` where that fails."""
    network.attach(0)
    with TemporaryDirectory() as folder:
        memory = Path(folder, "memory")
        memory.mkdir()
        network.mount_memory(0, memory, 1 << 20)
        place = Place(network.namespaces(0), "trial", {"/dev/shm": str(memory)}, (), (folder,), True, "/", (1, 1))  # noqa: S108
        words = [*PYTHON, str(INIT), str(place), *PYTHON, "-c", "pass"]
        pipe, inside = subprocess.PIPE, place.namespaces
        with subprocess.Popen(words, stdin=pipe, stderr=pipe, text=True, pass_fds=inside) as trial:
            code, told = trial.wait(), trial.stderr.read() if trial.stderr else ""
        network.detach(0)
    if code:
        raise OSError(0, told.strip())


def set_up(container: Container, pod: Pod, setting: Setting) -> LocalProcess:
    """Make the container's folders and files, and rewrite paths, names and ports for this machine.

    Raises :class:`CannotWorkError` for what only a later pod can show; :mod:`checks` has found everything else.
    """
    home = setting.workspace.pod(pod.name)
    options, objects = setting.options, setting.objects
    found = container_environment(container, pod, objects, options.environment, f"pod {pod.name}, container {container.name}")
    if found.problems:
        raise CannotWorkError(found.problems)
    folders = mounted_folders(pod.spec, container, found.values, setting.workspace.volumes(pod.name))
    if BROUGHT_FOLDER in folders and BROUGHT_FOLDER not in options.mounts:
        folders[BROUGHT_FOLDER] = write_supervisor(setting.workspace.supervisor)
    termination = _termination_file(home, container)
    temporary = folders.get(TEMPORARY, home / "tmp")
    temporary.mkdir(parents=True, exist_ok=True)
    own = {
        TEMPORARY: temporary, container.termination_message_path: termination, BROUGHT_FOLDER: setting.workspace.supervisor,
        **setting.store_folders,
    }
    paths = PathRewriter({**own, **folders, **options.mounts})
    programs = _programs(pod, setting, lambda text: paths(setting.dns.rewrite(text)))
    paths = PathRewriter({**own, **folders, **options.mounts, **programs})

    def local(text: str) -> str:
        return setting.network.rewrite(paths(setting.dns.rewrite(text)))

    copies = _write_mounted_files(container, pod, setting, local)
    values = {
        name: value if name in found.from_caller else _variable(name, value, setting, local)
        for name, value in found.values.items()
    }
    path = options.search_path(values)
    if (programs or pod.spec.starts_ray) and not setting.network.has_names:  # mpirun looks its own name up, Ray's driver tells it
        values = {"HOSTNAME": pod.address, BIND_ENV: pod.address, **values}
    interface = setting.network.interface
    values |= {name: interface for name in INTERFACE_VARIABLES if name in values} | {INTERFACE_VARIABLES[0]: interface}
    if os.geteuid() == 0 and not (setting.network.has_names and stated_user(pod, container)):
        values |= dict.fromkeys(RUN_AS_ROOT, "1")
    environment = _process_environment(values, pod, home, temporary, termination, options.environment, path)
    interfaces = {found.values[name] for name in INTERFACE_VARIABLES if name in found.values}
    words = [interface if word in interfaces else word for word in command_line(container, found.values)]
    words = PathRewriter(copies)(local("\0".join(words))).split("\0")
    directory = _directory(container, home, local, options.directory)
    given = {path: options.mounts.get(path, folder) for path, folder in folders.items()}
    return LocalProcess(
        command=(_program(words[0], environment, directory, pod, container), *words[1:]),
        environment=environment,
        directory=directory,
        log=home / f"{container.name}.log",
        termination_message=termination,
        rewrite=local,
        place=make_place(container, pod, setting, given, [termination, *setting.store_folders.values()], directory),
    )


def _programs(pod: Pod, setting: Setting, local: Rewrite) -> dict[str, Path]:
    """Programs that stand for those of an image, in a folder of the pod's that its PATH begins with."""
    folder = setting.workspace.pod(pod.name) / PROGRAMS
    folder.mkdir(parents=True, exist_ok=True)
    write_program(folder / "nslookup", f'test -e "{setting.workspace.records}/${{1%.}}"\n')
    if pod.spec.starts_ray:
        own, drain = setting.workspace.short(pod.name), DRAIN_SECONDS * setting.options.pace
        gcs, agent = setting.network.port(GCS, pod.slot.number), setting.network.own_port(agent_port(pod.spec), pod.slot.number)
        write_ray(folder, setting.options.search_path({}), pod.address, gcs, agent, own, drain)
    if not mounts_keys(pod.spec, setting.objects.secrets):
        return {}
    return write_programs(folder, setting.workspace.keys / "key", pod.address, local)


def _variable(name: str, value: str, setting: Setting, local: Rewrite) -> str:
    """A variable's value here. A name that ends with PORT says that the number behind it is one."""
    if name in SERVERS:
        value = setting.dns.rewrite(value, setting.network.own_port)
    return local(f"{name}={value}").removeprefix(f"{name}=")


def _termination_file(home: Path, container: Container) -> Path:
    """An empty file, as the kubelet makes it before the container starts."""
    path = home / f"{container.name}.termination"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def _write_mounted_files(container: Container, pod: Pod, setting: Setting, local: Rewrite) -> dict[str, Path]:
    """Returns where those lie that others of them name by a copy: a launcher's command names them as its specification does."""
    copies = dict[str, Path]()
    folders = setting.workspace.volumes(pod.name)
    volumes = pod.spec.volumes_by_name
    for name in dict.fromkeys(mount.name for mount in container.volume_mounts):
        files, _ = rendered_files(volumes[name], pod, setting.objects, pod.name)
        here = {path: file._replace(text=local(file.text)) for path, file in files.items()}
        own = folders.files(container.name, name)
        files, copy = alike_in_all_pods(here, own, folders.copies)
        write_files(own, files)
        copies |= {} if copy is None else {str(own): copy}
    return copies


def _process_environment(
    values: Mapping[str, str], pod: Pod, home: Path, temporary: Path, termination: Path, caller: Mapping[str, str], path: str
) -> dict[str, str]:
    """The container's variables, what a container runtime adds, and what this machine needs."""
    return {
        **{name: caller[name] for name in FROM_CALLER if name in caller},
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "HOSTNAME": pod.host_name,
        **values,
        "PATH": f"{home / PROGRAMS}{os.pathsep}{path}",
        # nobody may write to the kubelet's usual place in /dev here
        TERMINATION_PATH_ENV: str(termination),
    }


def _directory(container: Container, home: Path, local: Rewrite, image: Path | None) -> Path:
    """The working directory if it is mounted, else an empty folder: what the image has there is not known."""
    if not container.working_dir and image is not None:
        return image
    mapped = Path(local(container.working_dir))
    if container.working_dir and mapped != Path(container.working_dir) and mapped.is_dir():
        return mapped
    (home / "image").mkdir(exist_ok=True)
    return home / "image"


def _program(word: str, environment: Mapping[str, str], directory: Path, pod: Pod, container: Container) -> str:
    program = find_program(str(directory / word) if "/" in word else word, environment["PATH"])
    if program is None:
        where = f"pod {pod.name}, container {container.name}"
        raise CannotWorkError([Blocker(where, not_found(word), "correct the command")])
    return program


class ContainerRun:
    """Starts a container's process, follows its output, and ends it."""

    def __init__(self, container: Container, process: LocalProcess, on_line: Callable[[str], None]) -> None:
        self.container, self.local = container, process
        self._pump = LogPump(process.log, on_line)
        self._process: asyncio.subprocess.Process | None = None
        self._kill: asyncio.Task[None] | None = None

    @property
    def is_started(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int:
        """The process that stands for the container's runtime; the command is its child."""
        return self._started.pid

    @property
    def _started(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError(f"container {self.container.name} is not started")
        return self._process

    async def start(self) -> None:
        self._process = await self.local.start(self.local.command, asyncio.subprocess.PIPE)

    async def wait(self) -> ContainerEnd:
        """Follow the output until the container has ended."""
        process = self._started
        if process.stdout is None:
            raise RuntimeError("the output is not piped")
        pump = asyncio.create_task(self._pump.run(process.stdout))
        try:
            code = await process.wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(pump, OUTPUT_SECONDS)
        finally:
            pump.cancel()
            if self._kill is not None:
                self._kill.cancel()
        code = code if code >= 0 else 128 - code
        return ContainerEnd(self.container.name, code, self._message(code))

    def terminate(self, grace_seconds: float) -> None:
        """Send SIGTERM now, and SIGKILL after the grace period. A second call changes nothing.

        Not by ``send_signal``: it looks first whether the process has ended, which takes its exit code from whoever waits for it.
        """
        if self._kill is None and self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(bytes([signal.SIGTERM]))
            self._kill = asyncio.create_task(self._kill_after(grace_seconds))

    def kill(self) -> None:
        """Send SIGKILL to everything in the container."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    async def _kill_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.kill()

    def _message(self, code: int) -> str:
        text = self.local.termination_message.read_bytes()[:MESSAGE_BYTES].decode(errors="replace")
        if not text and code and self.container.termination_message_policy == "FallbackToLogsOnError":
            return self._pump.tail
        return text


class LogPump:
    """Writes every byte of a container's output into its log file, and hands on every line."""

    def __init__(self, path: Path, on_line: Callable[[str], None]) -> None:
        self._path, self._on_line = path, on_line
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> str:
        """The end of the log, at most 80 lines and 2048 bytes."""
        text = "\n".join(self._tail).encode()[-TAIL_BYTES:]
        return text.decode(errors="ignore")

    async def run(self, stream: asyncio.StreamReader) -> None:
        """Copy until the output closes."""
        pending = b""
        with self._path.open("ab", buffering=0) as log:
            while chunk := await stream.read(_CHUNK_BYTES):
                log.write(chunk)
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self._hand_on(line)
                if len(pending) > LONGEST_LINE:
                    self._hand_on(pending)
                    pending = b""
        if pending:
            self._hand_on(pending)

    def _hand_on(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\r")
        self._tail.append(text)
        self._on_line(text)
