"""Pods of a run in dist/ bring the supervisor into images that have nothing of ours: ``make test-image FAMILY=supervisor``.

It needs root, buildah, crun, gcc, mmdebstrap, musl-tools and busybox-static, and the image that ``SUPERVISOR`` names. What stands
for an image is a folder: no registry is asked.
"""

from __future__ import annotations

import json
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

from trainwright.rehearsal.stated.objects import objects_in
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
COUNT = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
static volatile sig_atomic_t told;
static void tell(int number) { told = number; }
int main(void) {
  char path[4096];
  const char *rank = getenv("RANK"), *folder = getenv("TRAINWRIGHT_CHECKPOINT_DIRECTORY");
  int step = 0;
  signal(SIGTERM, tell);
  snprintf(path, sizeof path, "%s/step.%s", folder, rank);
  FILE *saved = fopen(path, "r");
  if (saved) { if (fscanf(saved, "%d", &step) != 1) return 1; fclose(saved); }
  printf("rank %s of %s begins at step %d\n", rank, getenv("WORLD_SIZE"), step);
  fflush(stdout);
  while (step < 200 && !told) { step++; usleep(50000); }
  mkdir(folder, 0777);
  saved = fopen(path, "w");
  fprintf(saved, "%d\n", step);
  fclose(saved);
  printf(told ? "rank %s saved step %d\n" : "rank %s has done %d steps\n", rank, step);
  return told ? 143 : 0;
}
"""
"""What the shell script of the run does, for an image without a shell."""
OF_DISTROLESS = ("base-files", "ca-certificates", "libc6", "libssl3", "netbase", "openssl", "tzdata")
"""Debian's packages that distroless/base has (bazel/GoogleContainerTools: base/base.bzl), unpacked and not installed."""


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


def distroless(root: Path) -> None:
    """As distroless/base: Debian's C library, no shell, no package manager; and one program that is linked against it."""
    packages = root.parent / "packages"
    packages.mkdir()
    subprocess.run(["apt-get", "download", "-qq", *OF_DISTROLESS], cwd=packages, check=True)
    for package in packages.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", str(package), str(root)], check=True)
    source = root.parent / "count.c"
    source.write_text(COUNT, encoding="utf-8")
    (root / "app").mkdir()
    subprocess.run(["gcc", "-o", str(root / "app" / "count"), str(source)], check=True)
    assert not [path for path in root.glob("**/bin/*") if path.name in ("sh", "bash", "dash", "busybox", "python3")]


ROOTS: dict[str, Callable[[Path], None]] = {"shell-only": shell_only, "musl": musl, "debian": debian, "distroless": distroless}


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


Manifests = list[dict[str, Any]]


def play(
    folder: Path, image: Path, *changes: Callable[[Manifests], None], options: tuple[str, ...] = (), run: Path = RUN
) -> Played:
    """The run as committed but for what ``changes`` make of its objects."""
    manifests = objects_in(run)
    for change in (without_shell, *changes) if image.name == "distroless" else changes:
        change(manifests)
    (folder.parent / "run.yaml").write_text(yaml.safe_dump_all(manifests), encoding="utf-8")
    command = [
        sys.executable, "-m", "tools.images.play", str(folder.parent / "run.yaml"), str(image),
        "--supervisor", SUPERVISOR, "--folder", str(folder), *options,
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = ended.stdout + ended.stderr
    messages = [TerminationMessage.model_validate_json(line) for line in re.findall(r'^\S+: (\{"v":1.*\})$', said, re.MULTILINE)]
    logs = "".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.log")))
    assert messages, said
    return Played(ended.returncode, said, messages, logs)


def pod_of(manifests: Manifests) -> dict[str, Any]:
    (job,) = [one for one in manifests if one["kind"] == "Job"]
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def files_of(manifests: Manifests) -> dict[str, str]:
    (files,) = [one["data"] for one in manifests if one["kind"] == "ConfigMap"]
    found: dict[str, str] = files
    return found


def without_shell(manifests: Manifests) -> None:
    """The program that the image has, in place of the shell script."""
    files = files_of(manifests)
    spec = json.loads(files["run.json"])
    spec["work"]["command"] = ["/app/count"]
    files["run.json"] = json.dumps(spec)


def as_root(manifests: Manifests) -> None:
    """Root in a writable root file system, with what a runtime grants by default."""
    pod = pod_of(manifests)
    pod["securityContext"] = {"runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"}}
    del pod["containers"][0]["securityContext"]


def as_mounted(manifests: Manifests) -> None:
    """By a volume of the image, as from Kubernetes 1.36 on."""
    pod = pod_of(manifests)
    del pod["initContainers"]
    (volume,) = [one for one in pod["volumes"] if one["name"] == "supervisor"]
    volume.pop("emptyDir")
    volume["image"] = {"reference": SUPERVISOR}


@pytest.mark.parametrize("user", ["uid 1000", "root"])
def test_a_script_runs_in_any_image(image: Path, user: str, tmp_path: Path) -> None:
    """Two pods, on a read-only root as uid 1000 and without a capability, and as root."""
    played = play(tmp_path / "play", image, *([as_root] if user == "root" else []))
    assert played.code == 0, played.said
    assert played.codes == [0, 0]
    assert len(re.findall("bring-supervisor ended with 0", played.said)) == 2
    assert len(re.findall("uid 0, gid 0" if user == "root" else "uid 1000, gid 1000", played.said)) == 2
    assert "rank 1 has done 200 steps" in played.logs


def test_sigterm_reaches_the_script_and_the_next_try_goes_on(image: Path, tmp_path: Path) -> None:
    """All pods end with one verdict, and their termination messages say whose rank did what."""
    stopped = play(tmp_path / "play", image, options=("--terminate", "1"))
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
    foreign = {"PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere", "LD_LIBRARY_PATH": "/foreign"}

    def change(manifests: Manifests) -> None:
        pod_of(manifests)["containers"][0]["env"] += [{"name": name, "value": value} for name, value in foreign.items()]
        files = files_of(manifests)
        (script,) = [key for key, text in files.items() if "Counts to its argument" in text]
        files[script] = "env | /bin/busybox sort; readlink /proc/self/exe\n"

    played = play(tmp_path / "play", shell, change)
    assert played.codes == [0, 0]  # it may have ended before it was probed, so that nobody saw its rights
    log = next((tmp_path / "play").glob("*-0.log")).read_text(encoding="utf-8")
    seen = dict(line.split("=", 1) for line in log.splitlines() if re.match(r"[A-Z_]+=", line))
    assert {name: seen[name] for name in foreign} == foreign
    assert not [name for name, value in seen.items() if "/trainwright-supervisor" in value]
    assert {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TRAINWRIGHT_SPEC"} <= seen.keys()


CALLS = """
import sys, time
from trainwright_trainer import run

newest = run.checkpoints.newest()
step = int((newest.path / f"rank-{run.world.rank}").read_text()) if newest else 0
print("rank", run.world.rank, "begins at step", step, "by", run.__file__, flush=True)
for step in range(step + 1, 201):
    time.sleep(0.05)
    run.step(step, loss=1 / step)
    stop = run.should_stop()
    if stop or step == 200:
        (run.checkpoints.draft() / f"rank-{run.world.rank}").write_text(str(step))
        run.checkpoints.commit(step)
    if stop:
        run.stopped()
"""


def with_python(root: Path) -> None:
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "--include=python3", "bookworm", str(root)], check=True)
    assert not list(root.glob("usr/**/trainwright_trainer"))


def calls_us(manifests: Manifests) -> None:
    """A script in Python that steps, stops and saves by what was brought for it."""
    files = files_of(manifests)
    (script,) = [key for key, text in files.items() if "Counts to its argument" in text]
    spec = json.loads(files["run.json"])
    spec["work"] |= {"command": ["python3", "/app/train.sh"], "checkpoints": {}}
    files |= {script: CALLS, "run.json": json.dumps(spec)}


def test_a_script_that_calls_us_finds_its_hand(tmp_path: Path) -> None:
    """In Debian's own Python, of another build than ours: it saves when it is told to end, and goes on from there."""
    with_python(tmp_path / "python")
    stopped = play(tmp_path / "play", tmp_path / "python", calls_us, options=("--terminate", "3"))
    assert stopped.codes == [210, 210], stopped.said
    assert stopped.logs.count("by /trainwright-supervisor/lib/hand/trainwright_trainer/run/__init__.py") == 2
    (step,) = {message.committed_step for message in stopped.messages}
    assert step
    again = play(tmp_path / "play", tmp_path / "python", calls_us)
    assert again.codes == [0, 0]
    assert len(re.findall(rf"rank \d begins at step {step} ", again.logs)) == 2


COMMAND = """
run: shell-command
team: research
namespace: training
cluster: laptop
image: registry.example.com/mirror/alpine@sha256:bca6d13be098a4938d4194efe11cd5bb14289e796daff1392373572e047a35a8
topology: {kind: ddp, nodes: 2, gpus_per_node: 0}
security: {user: 1000, read_only_root: true}
workload: {kind: command, command: [/bin/sh, /app/train.sh, $(NODE_RANK), "200"]}
supervisor: brought
checkpoints: {by: own, lineage: counted}
mounts: {/checkpoints: {claim: training-checkpoints}}
"""


def test_a_command_has_the_same(shell: Path, tmp_path: Path) -> None:
    """One process a pod, whose words the kubelet completes; and the supervisor around it, as it is compiled."""
    project = tmp_path / "project"
    for name in ("charts", "dist"):
        shutil.copytree(ROOT / name, project / name)
    shutil.copy(ROOT / "cdk8s.yaml", project)
    (script,) = [text for text in files_of(objects_in(RUN)).values() if "Counts to its argument" in text]
    script = f"RANK=$1 WORLD_SIZE=$NNODES\nshift\n{script}"
    run = yaml.safe_load(COMMAND) | {"files": {"/app/train.sh": script}}
    (project / "charts" / "runs" / "shell-command.yaml").write_text(yaml.safe_dump(run), encoding="utf-8")
    made = subprocess.run([Path(sys.executable).with_name("trainwright"), "synth"], cwd=project, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    compiled = project / "dist" / "laptop" / "training" / "runs" / "shell-command.k8s.yaml"
    stopped = play(tmp_path / "play", shell, options=("--terminate", "1"), run=compiled)
    assert stopped.codes == [211, 211]
    causes = [message.cause.message for message in stopped.messages if message.cause]
    assert causes == ["the command exited with 143 after SIGTERM"] * 2
    saved = dict(re.findall(r"rank (\d) saved step (\d+)", stopped.logs))
    again = play(tmp_path / "play", shell, run=compiled)
    assert dict(re.findall(r"rank (\d) of 2 begins at step (\d+)", again.logs)) == saved
    assert again.codes == [0, 0]
    assert again.code == 0, again.said
