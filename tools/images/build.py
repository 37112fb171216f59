"""Builds the image of a family by its Dockerfile, with buildah: ``make image FAMILY=torch`` calls it from the repository's root.

The base is the Dockerfile's own, one that ``--base`` names by digest, or with ``--base local`` one that mmdebstrap makes from
Debian's packages, for places from which no registry can be reached. What pip of this machine is configured with holds in the
build too: its index, its certificate, its folders of wheels are mounted while Python packages are installed, and are not in the
image. Needs nothing but Python's own library, buildah, and mmdebstrap for a local base.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "trainer" / "images"
LOCAL_BASE = "localhost/trainwright-base"
DEBIAN = "bookworm"
PACKAGES = ("ca-certificates", "python-is-python3", "python3", "python3-dev", "python3-venv")
"""What the Dockerfiles expect of a base beside Debian's smallest: `python` with venv, headers to compile with, roots of trust."""
PIP_OPTIONS = frozenset({
    "cert", "client-cert", "extra-index-url", "find-links", "index-url", "no-index", "proxy", "retries", "timeout",
    "trusted-host",
})
"""Where pip finds packages. Other options of this machine, such as where to install, are not the build's."""


class BuildError(Exception):
    """One sentence: what cannot be done, why, and what to write instead."""


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="build.py", description="Build the image of a family with buildah.")
    parser.add_argument("family", choices=sorted(path.name.removesuffix(".Dockerfile") for path in FOLDER.glob("*.Dockerfile")))
    parser.add_argument("--base", default="", help="IMAGE@sha256:DIGEST, or local; the Dockerfile's own by default")
    parser.add_argument("--tag", help="the image's name; localhost/trainwright-trainer-FAMILY:VERSION by default")
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE",
                        help="of the Dockerfile: docs/images.md lists them")
    parser.add_argument("--archive", type=Path, metavar="FILE", help="write the image as an OCI archive too")
    asked = parser.parse_args(words)
    need("buildah", "apt-get install buildah")
    # RUN steps need no container of their own, and the default asks for a cgroup and a network that a plain machine may not have.
    os.environ.setdefault("BUILDAH_ISOLATION", "chroot")
    started = time.monotonic()
    base = local_base() if asked.base == "local" else pulled(asked.base or own_base(asked.family))
    tag = asked.tag or default_tag(asked.family)
    build(asked.family, base, tag, asked.build_arg)
    say(f"{tag} is built, in {time.monotonic() - started:.0f} s, on {base}")
    if asked.archive is not None:
        asked.archive.parent.mkdir(parents=True, exist_ok=True)
        buildah("push", "--quiet", tag, f"oci-archive:{asked.archive}:{tag}")
        say(f"{asked.archive} has it as an OCI archive of {asked.archive.stat().st_size / 1e6:,.0f} MB")


def default_tag(family: str) -> str:
    project = tomllib.loads((ROOT / "trainer" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"localhost/trainwright-trainer-{family}:{project['version']}"


def read_dockerfile(family: str) -> str:
    return (FOLDER / f"{family}.Dockerfile").read_text(encoding="utf-8")


def own_base(family: str) -> str:
    found = re.search(r"^ARG BASE_IMAGE=(\S+)$", read_dockerfile(family), re.MULTILINE)
    if found is None:
        raise BuildError(f"{family}.Dockerfile has no default for BASE_IMAGE: write one")
    return found[1]


def pulled(base: str) -> str:
    """The same name, of an image that is here now."""
    if attempt("buildah", "inspect", "--type", "image", base).returncode:
        say(f"pulling the base {base}")
        ended = attempt("buildah", "pull", "--quiet", base)
        if ended.returncode:
            why = ended.stderr.strip().splitlines()[-1:] or ["buildah does not say why"]
            raise BuildError(f"the base {base} cannot be pulled: {why[0]}\nWrite BASE=IMAGE@sha256:DIGEST for one that can be, "
                             "or BASE=local for one that is made here from Debian's packages.")
    return base


def local_base() -> str:
    """Debian with Python by mmdebstrap, made once; by digest, as the Dockerfiles demand."""
    name = f"{LOCAL_BASE}:{DEBIAN}"
    if not output("buildah", "images", "--quiet", "--filter", f"reference={name}"):
        need("mmdebstrap", "apt-get install mmdebstrap, or name a base that can be pulled: BASE=IMAGE@sha256:DIGEST")
        say(f"no base is pulled: making {name} from Debian's packages by mmdebstrap")
        with tempfile.TemporaryDirectory(prefix="trainwright-base-") as scratch:
            archive = Path(scratch, "base.tar")
            run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", DEBIAN, str(archive))
            container = output("buildah", "from", "scratch")
            try:
                buildah("add", "--quiet", container, str(archive), "/")
                buildah("config", "--cmd", "/bin/sh", container)
                buildah("commit", "--quiet", container, name)
            finally:
                buildah("rm", container)
    say(f"the base is {name}, made on this machine, and not the public one that the Dockerfile pins; "
        f"`buildah rmi {name}` makes room for a new one")
    digest = output("buildah", "images", "--format", "{{.Digest}}", name)
    return f"{LOCAL_BASE}@{digest}"


def build(family: str, base: str, tag: str, arguments: Sequence[str]) -> None:
    """By the Dockerfile's own steps. The stage that installs Python packages is built first, for what is mounted leaves its empty
    places behind; then the whole is, whose first stage is taken from the cache of layers."""
    with tempfile.TemporaryDirectory(prefix="trainwright-image-") as scratch:
        dockerfile, settings = Path(scratch, f"{family}.Dockerfile"), Path(scratch, "pip.conf")
        dockerfile.write_text(chosen(read_dockerfile(family), arguments), encoding="utf-8")
        stated = (word for argument in (f"BASE_IMAGE={base}", *arguments) for word in ("--build-arg", argument))
        common = ["bud", "--layers", "--file", str(dockerfile), *stated]
        options = pip_options(output(sys.executable, "-m", "pip", "config", "list"))
        if options:
            say(f"pip installs as it is configured on this machine: {', '.join(sorted(options))}")
            write_settings(settings, options)
            places = (f"{place}:{place}:ro" for place in sorted(set(local_places(options))))
            volumes = (word for volume in (f"{settings}:/etc/pip.conf:ro", *places) for word in ("--volume", volume))
            buildah(*common, "--target", "build", *volumes, str(ROOT))
        buildah(*common, "--tag", tag, str(ROOT))


def chosen(dockerfile: str, arguments: Sequence[str]) -> str:
    """With the stage that DEVICE chooses named in full.

    buildah leaves out stages that nothing needs, and before 1.30 it looks for `build-${DEVICE}` among their names as it stands
    (imagebuildah/executor.go, Build: "this didn't undergo variable and arg expansion").
    """
    device = dict(argument.partition("=")[::2] for argument in arguments).get("DEVICE", "cpu")
    return dockerfile.replace("FROM build-${DEVICE} AS", f"FROM build-{device} AS")


def pip_options(listing: str) -> dict[str, str]:
    """From ``pip config list``: what its files say, unless the environment says otherwise."""
    found = re.findall(r"^(global|install|:env:)\.([\w-]+)=('.*'|\".*\")$", listing, re.MULTILINE)
    found.sort(key=lambda entry: ("global", "install", ":env:").index(entry[0]))
    return {name: str(ast.literal_eval(value)) for _, name, value in found if name in PIP_OPTIONS}


def write_settings(path: Path, options: Mapping[str, str]) -> None:
    settings = configparser.RawConfigParser()
    settings["global"] = {name: "\n".join(value.split()) for name, value in options.items()}
    with path.open("w", encoding="utf-8") as file:
        settings.write(file)


def local_places(options: Mapping[str, str]) -> Iterator[str]:
    """Files and folders of this machine that pip's options name. The files of a local index lie beside it."""
    for name, value in options.items():
        for word in value.split():
            path = Path(word.removeprefix("file://"))
            if path.is_absolute() and path.exists():
                yield str(path.parent if name.endswith("index-url") else path)


def need(program: str, fix: str) -> None:
    if shutil.which(program) is None:
        raise BuildError(f"{program} is not installed: {fix}")


def say(text: str) -> None:
    print(f"build.py: {text}", flush=True)


def output(*command: str) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def attempt(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def buildah(*words: str) -> None:
    run("buildah", *words)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BuildError as error:
        sys.exit(f"build.py: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"build.py: `{' '.join(error.cmd[:2])} …` ended with {error.returncode}; what it said is above")
