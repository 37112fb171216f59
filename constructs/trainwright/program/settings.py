"""Variables of a container whose values do not fit what it has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from trainwright.command.launchers import Fact, launches
from trainwright.findings import Finding
from trainwright.findings.codes import found, milder
from trainwright.objects.fields import mapping
from trainwright.program.container import Program

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
_CACHES = frozenset({
    "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE", "HF_MODULES_CACHE", "TRANSFORMERS_CACHE",
    "TRITON_HOME", "TRITON_CACHE_DIR", "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "CUDA_CACHE_PATH", "JAX_COMPILATION_CACHE_DIR", "TFHUB_CACHE_DIR",
    "KERAS_HOME", "WANDB_DIR", "WANDB_CACHE_DIR", "VLLM_CACHE_ROOT", "PIP_CACHE_DIR", "TMPDIR",
})  # fmt: skip
"""Folders that libraries write to."""
_OF_ROOT = ("/root", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/sys", "/proc")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def sees_its_gpus(program: Program) -> Iterator[Finding]:
    """CUDA stops at the first number that is no device (CUDA C++ programming guide, environment variables)."""
    gpus = program.gpus or sum(
        int(str(count)) for name, count in mapping(program.container, "/resources/limits").items()
        if "gpu" in name and str(count).isdigit()
    )
    for name, value, place in program.stated() if gpus else ():
        if name in _VISIBLE:
            listed = [one.strip() for one in value.split(",")]
            seen = len(dict.fromkeys(takewhile(lambda one: not _is_number(one) or 0 <= int(one) < gpus, filter(None, listed))))
            ranks = program.ranks or _ranks_of(program, gpus)
            if seen < gpus:
                message = f"{name}={value[:40]} shows {seen} of {gpus} GPUs to {f'{ranks} ranks' if ranks else 'the program'}"
                say = found if seen < ranks else milder
                yield say("TW475", program.where(place), message, "remove it: a pod sees the GPUs that it asks for, and no other")


def _is_number(value: str) -> bool:
    return value.removeprefix("-").isdecimal()


def _ranks_of(program: Program, gpus: int) -> int:
    """What a launcher of the command is told to start in the pod; 0 where nobody says it."""
    for _, command in program.commands():
        for launch in launches(command):
            given = map(launch.given, launch.launcher.options(Fact.EACH))
            values = [word.resolved(program.env) for word in given if word]
            return next((int(value) for value in values if value and value.isdecimal()), 0)
    return 0


def caches_can_be_written(program: Program) -> Iterator[Finding]:
    """A library that cannot write its cache ends the program, mostly in the middle of it."""
    own, of_pod = (mapping(one, "/securityContext") for one in (program.container, program.pod))
    user, fixed = own.get("runAsUser", of_pod.get("runAsUser")), own.get("readOnlyRootFilesystem") is True
    no_root = bool(user) or own.get("runAsNonRoot", of_pod.get("runAsNonRoot")) is True
    offline = any(program.env.get(name, "").lower() in ("1", "true", "yes", "on") for name in _OFFLINE)
    for name, value, place in program.stated():
        mount = program.mount_of(value.rstrip("/")) if name in _CACHES and value.startswith("/") else None
        if name not in _CACHES or not value.startswith("/") or (mount and not mount.read_only):
            continue
        of_root = any(f"{value}/".startswith(f"{folder}/") for folder in _OF_ROOT)
        why = f"{mount.path} is mounted read-only" if mount else "the root file system is read-only" if fixed else (
            f"the folder is root's, and the user is {user or 'another one'}" if no_root and of_root else "")
        if why and not (mount and offline and name.startswith(("HF_", "TRANSFORMERS", "HUGGINGFACE"))):
            said = milder if mount and name.startswith(("HF_", "TRANSFORMERS", "HUGGINGFACE")) else found
            message = f"{name} is {value}, where nothing can be written: {why}"
            yield said("TW477", program.where(place), message, "write a folder below /tmp, or of a mount that can be written to")


def output_is_seen(program: Program) -> Iterator[Finding]:
    """0 is no (CPython, Python/initconfig.c, ``_Py_get_env_flag``)."""
    for name, value, place in program.stated():
        if (name, value) == ("PYTHONUNBUFFERED", "0"):
            message = "PYTHONUNBUFFERED=0 keeps Python's output in a buffer: its last lines are lost with a pod that is killed"
            yield found("TW408", program.where(place), message, 'write "1", or remove it')


RULES = (sees_its_gpus, caches_can_be_written, output_is_seen)
