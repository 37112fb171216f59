"""The Dockerfiles of the images: what they install and from where, who runs in them, and the scripts that they carry.

No container engine is needed. What can be tried without one is: shell lines by a shell, the ssh configurations by sshd and ssh.
"""

from __future__ import annotations

import getpass
import importlib
import json
import os
import re
import shlex
import socket
import subprocess
import time
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.dockerfile import Dockerfile, Stage, read
from tests.programs import needs, path_of

from trainwright.rendezvous.mpi import KEYS, SSHD
from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract.layout import IMAGE_FOLDER, brought_command

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "trainer" / "images"
FAMILIES = ("deepspeed", "horovod", "mpi", "ray", "tensorflow", "torch", "xgboost")
ALONE = "supervisor"
"""The family whose image has nothing but the supervisor: its pods are other images' pods."""
FILES = [read(FOLDER / f"{family}.Dockerfile") for family in (*FAMILIES, ALONE)]
SSH_FAMILIES = ("horovod", "mpi")
DIGEST = "0123456789abcdef" * 4

DEBIAN_12 = {
    "cmake", "g++", "libgomp1", "libopenmpi-dev", "make", "openmpi-bin", "openssh-client", "openssh-server", "patch", "wget",
}
"""Packages of Debian 12, each looked up there. A name that is new in a Dockerfile is looked up before it is added here."""

SENT = ("requirements/", "tools/engines", "trainer/")
"""What .dockerignore lets through to a build."""

each = pytest.mark.parametrize("file", FILES, ids=[file.family for file in FILES])
each_of_ranks = pytest.mark.parametrize("file", FILES[:-1], ids=FAMILIES)


def commands(file: Dockerfile) -> list[list[str]]:
    """The simple commands of all RUN lines, as words."""
    parts = (part for line in file.values("RUN") for part in re.split(r"&&|\|\||;|\bthen\b|\bdo\b", line))
    return [shlex.split(part) for part in parts if part.strip()]


def pip_installs(file: Dockerfile) -> list[str]:
    return [" ".join(words) for words in commands(file) if "install" in words and words[0].endswith("pip")]


def apt_packages(file: Dockerfile) -> set[str]:
    installs = (words for words in commands(file) if words[:2] == ["apt-get", "install"])
    return {word for words in installs for word in words[2:] if not word.startswith(("--", "$"))}


def copied(stage: Stage) -> list[tuple[str, str]]:
    """Source in the repository and place in the image, of each COPY that is not from another stage."""
    found = []
    for value in stage.values("COPY"):
        *sources, place = [word for word in value.split() if not word.startswith("--")]
        if "--from" not in value:
            found += [(source, f"{place}{Path(source).name}" if place.endswith("/") else place) for source in sources]
    return found


def test_each_family_has_one_file_and_its_row_in_the_docs() -> None:
    assert sorted(path.name.removesuffix(".Dockerfile") for path in FOLDER.glob("*.Dockerfile")) == sorted([*FAMILIES, ALONE])
    assert not (ROOT / "trainer" / "Dockerfile").exists()
    page = (ROOT / "docs" / "images.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `([a-z]+)` \|", page, flags=re.MULTILINE)) == sorted([*FAMILIES, ALONE])


def test_the_supervisor_s_image_has_its_folder_and_nothing_else() -> None:
    """It starts itself as a pod does that has copied it: by its own loader."""
    (file,) = [file for file in FILES if file.family == ALONE]
    assert file.last.base == "scratch"
    assert file.last.values("COPY") == ["--from=build /supervisor /"]
    assert not file.last.values("RUN")
    assert file.values("USER") == ["1000:1000"]
    (starts,) = file.last.values("ENTRYPOINT")
    assert tuple(json.loads(starts)) == brought_command(IMAGE_FOLDER)


@each_of_ranks
def test_it_runs_as_user_1000_and_starts_the_supervisor(file: Dockerfile) -> None:
    assert file.values("USER") == ["1000:1000"]
    names = [instruction.name for instruction in file.last.instructions]
    assert not {"RUN", "COPY", "ADD"} & set(names[names.index("USER"):])
    assert file.last.values("ENTRYPOINT") == ['["trainwright-trainer"]']
    (environment,) = file.last.values("ENV")
    assert {"HOME=/tmp", "TMPDIR=/tmp", "PATH=/opt/trainer/bin:$PATH", "PYTHONDONTWRITEBYTECODE=1"} <= set(environment.split())
    assert file.last.values("WORKDIR") == ["/tmp"]


@each
def test_bases_are_named_by_digest_or_the_build_ends(file: Dockerfile) -> None:
    """So are defaults, and the stage that begins with a base refuses a tag before it does anything else."""
    names = {stage.name for stage in file.stages}
    outside = {stage.base for stage in file.stages} - {f"${{{name}}}" for name in file.arguments if name.endswith("_IMAGE")}
    assert outside <= names | {"build-${DEVICE}", "scratch"}
    base = file.arguments["BASE_IMAGE"] or ""
    assert re.fullmatch(r"docker\.io/library/python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert len({other.arguments["BASE_IMAGE"] for other in FILES}) == 1
    if "CUDA_IMAGE" in file.arguments:
        cuda = r"docker\.io/nvidia/cuda:13\.0\.\d+-devel-ubuntu22\.04@sha256:[0-9a-f]{64}"
        assert re.fullmatch(cuda, file.arguments["CUDA_IMAGE"] or "")
    assert len({other.arguments["CUDA_IMAGE"] for other in FILES if "CUDA_IMAGE" in other.arguments}) == 1
    assert file.arguments.get("DEVICE", "cpu") == "cpu"
    for name in (name for name in file.arguments if name.endswith("_IMAGE")):
        check = f'sh images/require_digest.sh {name} "${name}"'
        (stage,) = [stage for stage in file.stages if check in stage.values("RUN")]
        assert name in stage.values("ARG")
        assert stage.values("RUN")[0] == check
    assert "latest" not in file.path.read_text(encoding="utf-8")


@each
def test_python_packages_come_from_the_locks(file: Dockerfile) -> None:
    installs = pip_installs(file)
    assert installs
    for install in installs:
        locked = "--require-hashes --no-deps --requirement" in install
        own = re.search(r"install --no-deps wheels/(trainwright_trainer|deepspeed|horovod)-\*\.whl$", install)
        torch = "install --requirement requirements/torch.txt" in install  # pinned by version: docs/images.md says why
        assert locked or own or torch, install
    assert any(words[:3] == ["/opt/trainer/bin/pip", "check"] or words[1:2] == ["check"] for words in commands(file))


@each
def test_python_packages_go_into_environments(file: Dockerfile) -> None:
    """Debian's own Python refuses them: PEP 668."""
    assert {words[0] for words in commands(file) if words[0].endswith("pip")} == {"/opt/build/bin/pip", "/opt/trainer/bin/pip"}


@each
def test_locks_that_are_installed_were_copied(file: Dockerfile) -> None:
    for stage in file.stages:
        present = {place for source, place in copied(stage)}
        present |= {f"requirements/images/{path.name}" for path in (ROOT / "requirements" / "images").glob("*.txt")
                    if "requirements/images/*.txt" in {source for source, _ in copied(stage)}}
        extras = [value.partition("=")[2].strip('"') for value in stage.values("ARG") if value.startswith("EXTRAS=")]
        wanted = set(re.findall(r"(?:requirements|images)/[\w./$-]+\.(?:txt|sh)", " ".join(stage.values("RUN"))))
        wanted |= {f"requirements/images/{name}.txt" for names in extras for name in names.split()}
        assert wanted - {"requirements/images/$extra.txt"} <= present


@each
def test_what_is_copied_is_there_and_is_sent_to_the_build(file: Dockerfile) -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert {f"!{place.rstrip('/')}" for place in SENT} == {line for line in ignored if line.startswith("!")}
    for stage in file.stages:
        for source, _ in copied(stage):
            assert source.startswith(SENT)
            assert list(ROOT.glob(source)), f"{file.path.name} copies {source}"
    assert not file.values("ADD")
    names = {stage.name for stage in file.stages}
    assert set(re.findall(r"--from=(\S+)", " ".join(file.values("COPY")))) <= names


@each
def test_debian_packages_are_known_and_leave_no_lists(file: Dockerfile) -> None:
    assert apt_packages(file) <= DEBIAN_12
    for line in file.values("RUN"):
        if "apt-get install" in line:
            assert "apt-get update" in line
            assert "--no-install-recommends" in line
            assert "rm -rf /var/lib/apt/lists/*" in line
    kept = [line for line in file.last.values("RUN") if "apt-get install" in line and "/var/cache/apt/*" not in line]
    assert not kept, "what apt fetched would be in the image"


@each
def test_shell_lines_are_shell(file: Dockerfile) -> None:
    for line in file.values("RUN"):
        ended = subprocess.run(["sh", "-n", "-c", line], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{line}\n{ended.stderr}"


@each
def test_nothing_is_fetched_past_the_locks_and_no_secret_is_kept(file: Dockerfile) -> None:
    text = " ".join([*file.values("RUN"), *file.values("ENV"), *file.values("ARG")])
    assert not re.search(r"curl|https?://|\|\s*(ba)?sh\b|trusted-host|npm|gpg", text)
    assert not any(words[0] in ("wget", "git") for words in commands(file))
    assert not re.search(r"password=|passwd|token|secret|credential|api_?key", text, flags=re.IGNORECASE)


def test_tests_and_build_tools_leave_the_image_again() -> None:
    listed = {line for line in (FOLDER / "development.txt").read_text(encoding="utf-8").splitlines() if not line.startswith("#")}
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    asked = [entry for name in ("build", "engines") for entry in groups[name] if isinstance(entry, str)]
    locks = (ROOT / "requirements" / "trainer.txt", *(ROOT / "requirements" / "images").glob("*.txt"))
    needed = {name for lock in locks for name in versions(lock)}
    assert not listed & needed, "what transformers, datasets or an extra needs stays"
    assert {canonicalize_name(Requirement(entry).name) for entry in asked} - needed <= listed
    for file in FILES:
        takes_out = any("uninstall --yes --requirement images/development.txt" in " ".join(words) for words in commands(file))
        engine = ROOT / "requirements" / "engines" / f"{file.family}.txt"
        assert takes_out == engine.exists()
        if takes_out:
            assert listed <= versions(engine).keys()


def versions(lock: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([a-z0-9][a-z0-9.\-]*)==(\S+)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements" / "images").glob("*.txt")), ids=lambda path: path.stem)
def test_locks_of_images_agree_with_the_others(lock: Path) -> None:
    """They are installed one after the other, into the same environment."""
    requirements = ROOT / "requirements"
    others = [requirements / "trainer.txt", *(requirements / "engines").glob("*.txt"), *(requirements / "images").glob("*.txt")]
    ours, text = versions(lock), lock.read_text(encoding="utf-8")
    asked = [Requirement(line) for line in lock.with_suffix(".in").read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    assert {canonicalize_name(requirement.name) for requirement in asked} <= ours.keys()
    assert text.count("--hash=sha256:") >= len(ours)
    for other in others:
        theirs = versions(other)
        differing = {name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]}
        assert not differing, f"{lock.name} and {other.name} differ in {sorted(differing)}: docs/images.md, Locks"


# The check of digests.


def require_digest(image: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(FOLDER / "require_digest.sh"), "BASE_IMAGE", image]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("image", ["python", "registry.example.com:5000/base/python", "python:3.11-slim-bookworm"])
def test_a_digest_is_taken(image: str) -> None:
    ended = require_digest(f"{image}@sha256:{DIGEST}")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "image",
    ["", "python", "python:3.11-slim-bookworm", "python@sha256:", f"python@sha256:{DIGEST[:-1]}", f"python@sha256:{DIGEST}0",
     f"python@sha256:{DIGEST[:-1]}G", f"python:sha256-{DIGEST}", "python@sha256:…", f"{DIGEST}"],
)
def test_a_tag_is_refused_in_one_sentence(image: str) -> None:
    ended = require_digest(image)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"BASE_IMAGE is '{image}', which names no digest; look one up with ")
    assert ended.stderr.count("\n") == 1


# The images with an ssh server.


@pytest.mark.parametrize("family", SSH_FAMILIES)
def test_an_ssh_image_has_what_the_targets_start(family: str) -> None:
    file = next(file for file in FILES if file.family == family)
    assert {"openmpi-bin", "openssh-client", "openssh-server"} <= apt_packages(file)
    places = dict(copied(file.last))
    assert places["trainer/images/sshd_config"] == SSHD[SSHD.index("-f") + 1]
    assert places["trainer/images/ssh_config"].startswith("/etc/ssh/ssh_config.d/")
    (user,) = [line for line in file.last.values("RUN") if "useradd" in line]
    assert "--home-dir /home/mpiuser --create-home" in user
    assert "--shell /bin/sh" in user
    assert f"install --directory --owner=1000 --group=1000 --mode=0700 {KEYS}" in user
    assert "UsePAM no" in (FOLDER / "sshd_config").read_text(encoding="utf-8")
    assert KEYS in (FOLDER / "sshd_config").read_text(encoding="utf-8")


@each_of_ranks
def test_no_image_carries_a_host_key_or_a_shell_that_nobody_needs(file: Dockerfile) -> None:
    installing = [line for line in file.values("RUN") if "openssh-server" in line]
    assert bool(installing) == (file.family in SSH_FAMILIES)
    assert all("rm -f /etc/ssh/ssh_host_*" in line for line in installing)
    assert ("nologin" in " ".join(file.last.values("RUN"))) != (file.family in SSH_FAMILIES)


@needs("ssh", "ssh-keygen", "sshd")
def test_ssh_reaches_sshd_with_the_configurations_of_the_image(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # root's sshd separates its privileges there
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-N", "", "-f", str(tmp_path / "id_rsa")], check=True)
    (tmp_path / "authorized_keys").write_bytes((tmp_path / "id_rsa.pub").read_bytes())
    server = (FOLDER / "sshd_config").read_text(encoding="utf-8").replace(KEYS, str(tmp_path))
    (tmp_path / ".sshd_config").write_text(server, encoding="utf-8")
    port = str(free_port())
    options = [str(tmp_path / ".sshd_config") if word == SSHD[SSHD.index("-f") + 1] else word for word in SSHD[1:]]
    ssh = [
        "ssh", "-F", str(FOLDER / "ssh_config"), "-o", "ConnectionAttempts=10", "-p", port, "-i", str(tmp_path / "id_rsa"),
        f"{getpass.getuser()}@127.0.0.1", "echo reached",
    ]
    server_command = [path_of("sshd"), *options, "-o", "ListenAddress=127.0.0.1", "-p", port]
    with subprocess.Popen(server_command, stderr=subprocess.PIPE, text=True) as running:
        try:
            deadline = time.monotonic() + 30
            while not _listens(int(port)) and time.monotonic() < deadline:
                time.sleep(0.1)
            ended = subprocess.run(ssh, capture_output=True, text=True, check=False, timeout=30, stdin=subprocess.DEVNULL)
        finally:
            running.terminate()
            said = running.communicate(timeout=30)[1]
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "reached\n", ""), said
    assert "Deprecated" not in said
    assert "Bad configuration" not in said


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


# Wheels for images.


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "engines"))
    return importlib.import_module("image")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["deepspeed", "horovod"])
def test_a_wheel_for_an_image_is_for_more_than_the_processor_at_hand(image: ModuleType, name: str, device: str) -> None:
    recipe = image.for_image(image.RECIPES[name], device, "x86_64", "8.0 9.0")
    assert "-march=x86-64-v3" in recipe.environment.values()
    assert recipe.sdist.exists()
    assert all(patch.exists() for patch in recipe.patches)
    assert ("nvcc" in recipe.programs) == (device == "cuda")


def test_gpus_get_their_own_operators(image: ModuleType) -> None:
    deepspeed = image.for_image(image.RECIPES["deepspeed"], "cuda", "x86_64", "8.0 9.0").environment
    assert deepspeed["DS_ACCELERATOR"] == "cuda"
    assert "DS_BUILD_SHM_COMM" not in deepspeed
    horovod = image.for_image(image.RECIPES["horovod"], "cuda", "aarch64", "8.0 9.0 10.0").environment
    assert horovod["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert horovod["HOROVOD_BUILD_CUDA_CC_LIST"] == "80,90,100"
    assert horovod["HOROVOD_BUILD_ARCH_FLAGS"] == "-march=armv8-a"


@pytest.mark.parametrize(
    ("machine", "architectures", "says"),
    [("riscv64", "8.0", "no options of the compiler are known for riscv64"), ("x86_64", " ", "TORCH_CUDA_ARCH_LIST is empty")],
)
def test_what_a_wheel_cannot_be_built_for_is_said(image: ModuleType, machine: str, architectures: str, says: str) -> None:
    with pytest.raises(image.BuildError, match=says):
        image.for_image(image.RECIPES["horovod"], "cuda", machine, architectures)
