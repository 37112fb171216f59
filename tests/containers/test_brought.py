"""Pods of a run in dist/ bring the supervisor into images that have nothing of ours: ``make test-image FAMILY=supervisor``.

It needs root, buildah, crun, mmdebstrap, musl-tools and busybox-static, and the image that ``SUPERVISOR`` names. What stands for
an image is a folder: no registry is asked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tools.images.build import default_tag

from trainwright.rehearsal.objects import objects_in
from trainwright_trainer.contract import TerminationMessage

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "dist" / "laptop" / "training" / "runs" / "shell-script.k8s.yaml"
SUPERVISOR = os.environ.get("SUPERVISOR") or default_tag("supervisor")
BUSYBOX = "/usr/bin/busybox"
APPLETS = ("sh", "cat", "mkdir", "mv", "sleep", "echo", "env", "id", "readlink")
STEP = """
#include <unistd.h>
int main(void) { usleep(50000); return 0; }
"""


class Played(NamedTuple):
    code: int
    said: str
    messages: list[TerminationMessage]
    logs: str

    @property
    def codes(self) -> list[int]:
        return [message.code for message in self.messages]


def shell_only(root: Path) -> None:
    """No C library, no loader, no Python, no package manager: what a distroless image of a static program is."""
    (root / "bin").mkdir(parents=True)
    shutil.copy(BUSYBOX, root / "bin" / "busybox")
    for name in APPLETS:
        (root / "bin" / name).symlink_to("busybox")


def musl(root: Path) -> None:
    """As Alpine has it: musl's loader, and a program that is linked against musl in place of `sleep`."""
    shell_only(root)
    (root / "lib").mkdir()
    shutil.copy(Path("/lib/ld-musl-x86_64.so.1").resolve(), root / "lib" / "ld-musl-x86_64.so.1")
    (root / "bin" / "sleep").unlink()
    source = root.parent / "step.c"
    source.write_text(STEP, encoding="utf-8")
    subprocess.run(["musl-gcc", "-o", str(root / "bin" / "sleep"), str(source)], check=True)
    needed = subprocess.run(["readelf", "-l", str(root / "bin" / "sleep")], check=True, capture_output=True, text=True).stdout
    assert "ld-musl-x86_64.so.1" in needed


def debian(root: Path) -> None:
    """Debian 12 as its base image is: no Python."""
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", str(root)], check=True)
    assert not list(root.glob("usr/bin/python*"))


ROOTS: dict[str, Callable[[Path], None]] = {"shell-only": shell_only, "musl": musl, "debian": debian}


@pytest.fixture(scope="session", params=ROOTS)
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images") / str(request.param)
    ROOTS[request.param](root)
    return root


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images") / "shell"
    shell_only(root)
    return root


def play(folder: Path, image: Path, change: Callable[[dict[str, Any]], None] = lambda pod: None, *options: str) -> Played:
    """The run as committed but for what ``change`` makes of its pods."""
    manifests = objects_in(RUN)
    (job,) = [one for one in manifests if one["kind"] == "Job"]
    change(job["spec"]["template"]["spec"])
    (folder.parent / "run.yaml").write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    command = [
        sys.executable, "-m", "tools.images.play", str(folder.parent / "run.yaml"), str(image),
        "--supervisor", SUPERVISOR, "--folder", str(folder), *options,
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    said = ended.stdout + ended.stderr
    messages = [TerminationMessage.model_validate_json(line) for line in re.findall(r'^\S+: (\{"v":1.*\})$', said, re.MULTILINE)]
    logs = "".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.log")))
    assert messages, said
    return Played(ended.returncode, said, messages, logs)


def as_root(pod: dict[str, Any]) -> None:
    """Root in a writable root file system, with what a runtime grants by default."""
    pod["securityContext"] = {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}}
    del pod["containers"][0]["securityContext"]


def as_mounted(pod: dict[str, Any]) -> None:
    """By a volume of the image, as from Kubernetes 1.36 on."""
    del pod["initContainers"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "supervisor"]
    volume.pop("emptyDir")
    volume["image"] = {"reference": SUPERVISOR}


@pytest.mark.parametrize("user", ["uid 1000", "root"])
def test_a_script_runs_in_any_image(image: Path, user: str, tmp_path: Path) -> None:
    """Two pods, on a read-only root as uid 1000 and without a capability, and as root."""
    played = play(tmp_path / "play", image, as_root if user == "root" else lambda pod: None)
    assert played.code == 0, played.said
    assert played.codes == [0, 0]
    assert len(re.findall("bring-supervisor ended with 0", played.said)) == 2
    assert len(re.findall("uid 0, gid 0" if user == "root" else "uid 1000, gid 1000", played.said)) == 2
    assert "rank 1 has done 200 steps" in played.logs


def test_sigterm_reaches_the_script_and_the_next_try_goes_on(image: Path, tmp_path: Path) -> None:
    """All pods end with one verdict, and their termination messages say whose rank did what."""
    stopped = play(tmp_path / "play", image, lambda pod: None, "--terminate", "1")
    assert stopped.codes == [211, 211]
    assert [message.cause.message for message in stopped.messages if message.cause] == [
        "rank 0 exited with 143 after SIGTERM", "rank 1 exited with 143 after SIGTERM",
    ]
    saved = dict(re.findall(r"rank (\d) saved step (\d+)", stopped.logs))
    again = play(tmp_path / "play", image)
    assert dict(re.findall(r"rank (\d) of 2 begins at step (\d+)", again.logs)) == saved
    assert all(0 < int(step) < 200 for step in saved.values())
    assert again.codes == [0, 0]


def test_a_volume_of_its_image_does_as_well(shell: Path, tmp_path: Path) -> None:
    played = play(tmp_path / "play", shell, as_mounted)
    assert played.codes == [0, 0]
    assert "bring-supervisor" not in played.said


def test_nothing_of_ours_is_in_the_script_s_environment(shell: Path, tmp_path: Path) -> None:
    """It sees the pod's variables and torch's; what the image says to its own Python and loader reaches it, and not us."""

    def change(pod: dict[str, Any]) -> None:
        main = pod["containers"][0]
        foreign = {"PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere", "LD_LIBRARY_PATH": "/foreign"}
        main["env"] += [{"name": name, "value": value} for name, value in foreign.items()]

    manifests = objects_in(RUN)
    (files,) = [one for one in manifests if one["kind"] == "ConfigMap"]
    printing = "env | /bin/busybox sort; readlink /proc/self/exe\n"
    (script,) = [key for key, text in files["data"].items() if "Counts to its argument" in text]
    own = tmp_path / "own.yaml"
    for one in manifests:
        if one["kind"] == "ConfigMap":
            one["data"][script] = printing
        if one["kind"] == "Job":
            change(one["spec"]["template"]["spec"])
    own.write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    command = [
        sys.executable, "-m", "tools.images.play", str(own), str(shell), "--supervisor", SUPERVISOR,
        "--folder", str(tmp_path / "play"),
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    log = next((tmp_path / "play").glob("*-0.log")).read_text(encoding="utf-8")
    seen = dict(line.split("=", 1) for line in log.splitlines() if re.match(r"[A-Z_]+=", line))
    assert {name: seen[name] for name in ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")} == {
        "PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere", "LD_LIBRARY_PATH": "/foreign",
    }
    assert not [name for name, value in seen.items() if "/trainwright-supervisor" in value]
    assert {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TRAINWRIGHT_SPEC"} <= seen.keys()
