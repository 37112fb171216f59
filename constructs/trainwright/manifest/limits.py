"""What a kubelet and a container runtime can give a container: paths, keys of Secrets, and values of variables."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

SYSTEM_PATHS = (
    "/", "/bin", "/dev", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/sys/fs", "/sys/fs/cgroup",
    "/usr", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin",
)  # fmt: skip
"""Where an image has its programs and libraries, and the runtime its own mounts: an empty folder there hides them."""

LONGEST_ELEMENT, LONGEST_PATH = 255, 4095
"""Bytes of a file's name, and of a path (linux/limits.h, NAME_MAX and PATH_MAX)."""

_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_UNEXPANDED = re.compile(r"(?<!\$)\$(\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Z_][A-Z0-9_]+)")


_HOST = r"(?P<registry>[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?)"
IMAGE = re.compile(
    rf"({_HOST}/)?(?P<path>[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
"""A reference (distribution/reference, reference.go), with no other digest than a registry has."""
_LEFT_IN = re.compile(
    r"<[^<>]*>|\{\{.*?\}\}|\$\{[^}]*\}|\$\([^)]*\)|\$\w+|\{\w+\}|\[[\w -]+\]|%\w+%|@@?\w+@|__\w+__"
    r"|(?<![A-Za-z0-9])(?:(?i:(?:replace|change|fill|insert)[-_]?(?:me|this|with|here|in)(?:[-_]\w+)*|placeholder|x{3,}(?!-)|tbd|fixme"
    r"|(?:enter[-_])?your[-_]\w[\w-]*|your(?:user)?name|your(?:account|alias|image|org|project|registry|repo))"
    r"|(?<=:)(?:(?:IMAGE|GIT|COMMIT|DOCKER)?_?(?:TAG|VERSION|SHA)|TODO|xx\.[xy]{2}))(?![A-Za-z0-9])"
    r"|(?:^|(?<=\.))[A-Z][A-Z0-9_]+(?=[-./])"
)
"""What tools and people put into a template for others to replace."""


def image_template(reference: str) -> tuple[str, str] | None:
    """Message and fix for an image of which a part was to be replaced."""
    match = _LEFT_IN.search(reference)
    if match is None:
        return None
    return f"the image {reference} still has {match[0]} in it, which nothing replaces", "write the image that is meant"


def image_problem(reference: str) -> tuple[str, str] | None:
    """Message and fix for an image that no kubelet can pull, since none has such a name."""
    if IMAGE.fullmatch(re.sub(r"@\w+:[0-9a-f]{32,}$", "", reference)):
        return image_template(reference)
    fix = "write REGISTRY/PATH:TAG or REGISTRY/PATH@sha256:DIGEST, the path in lower case"
    return image_template(reference) or (f"{reference!r} is no reference of an image, and its pods stay in InvalidImageName", fix)


def not_a_key(key: str) -> str:
    """Why a text cannot be a key of a Secret or ConfigMap; empty where it can (apimachinery, validation.IsConfigMapKey)."""
    if not _KEY.fullmatch(key):
        return "must consist of at most 253 letters, digits, dashes, dots and underscores"
    return "must not be '.', or start with '..': it becomes a file's name" if key == "." or key.startswith("..") else ""


def unexpanded(name: str, value: str) -> tuple[str, str] | None:
    """Message and fix for a reference to a variable in the text of another one that Kubernetes leaves as it is."""
    match = _UNEXPANDED.search(value)
    if match is None:
        return None
    other = match[0].strip("${}")
    fix = f"write the value out, or set it in a shell of your own; $({other}) works only where the pod itself sets {other} before"
    return f"{name} holds {match[0]}, which nothing replaces: Kubernetes expands only $(NAME)", fix


def literal(text: str) -> str:
    """A text that Kubernetes passes on as it is: in values and arguments it expands ``$(NAME)``, and turns ``$$`` into ``$``."""
    return text.replace("$", "$$")


def path_problem(path: str) -> tuple[str, str] | None:
    """Message and fix for a path that no file system takes."""
    longest = max(path.split("/"), key=lambda name: len(name.encode()))
    if len(longest.encode()) > LONGEST_ELEMENT:
        return f"{path[:40]}… has a name of {len(longest.encode())} bytes", f"write names of at most {LONGEST_ELEMENT} bytes"
    if len(path.encode()) > LONGEST_PATH:
        return f"{path[:40]}… has {len(path.encode())} bytes", f"write at most {LONGEST_PATH}"
    return None


def hides_the_system(path: str) -> bool:
    """Whether a mount hides what an image or the runtime needs; nothing can be mounted inside /proc (runc, checkProcMount)."""
    return path in SYSTEM_PATHS or PurePosixPath(path).is_relative_to("/proc")
