"""What mpirun needs to get into pods: keys that a controller would make, and the ssh and sshd of an image.

An operator makes a Secret with keys of its own; here they are made once for a rehearsal. ssh and sshd look for their settings in
the home that /etc/passwd names, which is this machine's: so small programs of the same names tell them where the pod's files are.
The settings are those of mpi-operator's images (build/base).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trainwright.rehearsal.stated.kinds import PodSpec, Secret
from trainwright.rehearsal.stated.objects import Blocker, CannotPlayError, Objects
from trainwright.rehearsal.stated.volumes import Rewrite
from trainwright.rendezvous.mpi import KEYS, ROOT_KEYS, SSHD_FOLDER

PRIVATE, PUBLIC = ("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub", "authorized_keys")
"""Keys of the Secrets: of mpi-operator and Kubeflow Trainer, and of Volcano's plugin."""
SSHD = "/usr/sbin/sshd"


def with_keys(objects: Objects, folder: Path) -> Objects:
    """The objects with one pair of keys in every Secret that a controller would fill with some."""
    empty = {name: secret for name, secret in objects.secrets.items() if any(secret.data.get(key) == "" for key in PRIVATE)}
    if not empty:
        return objects
    private = _make_key(folder)
    texts = {**dict.fromkeys(PRIVATE, private.read_text()), **dict.fromkeys(PUBLIC, private.with_suffix(".pub").read_text())}
    filled = {
        name: secret.model_copy(update={"data": {}, "string_data": {key: texts.get(key, "") for key in secret.data}})
        for name, secret in empty.items()
    }
    return replace(objects, secrets={**objects.secrets, **filled})


def _make_key(folder: Path) -> Path:
    programs = [name for name in ("ssh-keygen", "ssh", SSHD) if shutil.which(name) is None]
    if programs:
        message = f"mpirun starts ranks through ssh, and there is no {', '.join(programs)}"
        fix = "install OpenSSH: apt-get install openssh-client openssh-server"
        raise CannotPlayError([Blocker("this machine", message, fix)])
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "key"
    make = [str(shutil.which("ssh-keygen")), "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(make, check=True, stdin=subprocess.DEVNULL)
    return key


def mounts_keys(spec: PodSpec, secrets: Mapping[str, Secret]) -> bool:
    """Whether a pod has such a Secret."""
    held = (volume.secret.name for volume in spec.volumes if volume.secret)
    return any(key in secrets[name].string_data for name in held if name in secrets for key in PRIVATE)


def write_programs(programs: Path, key: Path, address: str, local: Rewrite) -> dict[str, Path]:
    """Write ``ssh`` and ``sshd`` into a folder; returns what stands for the image's.

    Args:
        programs: the folder.
        key: that the rehearsal has made.
        address: of the pod, where its sshd listens.
        local: from the container's paths to this machine's.
    """
    authorized = " ".join(local(f"{folder}/authorized_keys") for folder in (KEYS, ROOT_KEYS))
    settings = {
        "ssh": f"IdentityFile {key}\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n",
        "sshd": f"ListenAddress {address}\nHostKey {key}\nAuthorizedKeysFile {authorized}\nStrictModes no\nUsePAM no\n",
    }
    for name, text in settings.items():
        (programs / f"{name}_config").write_text(text)
    made = f"mkdir -p {SSHD_FOLDER}\n" if os.geteuid() == 0 else ""  # root's sshd locks itself in there
    write_program(programs / "ssh", f'exec {shutil.which("ssh")} -F {programs}/ssh_config "$@"\n')
    write_program(programs / "sshd", f'{made}exec {SSHD} "$@" -f {programs}/sshd_config\n')
    return {SSHD: programs / "sshd"}


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
