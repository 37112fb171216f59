"""Builds the wheel of an engine that has none: ``PYTHON build.py NAME``, with the Python, torch and setuptools that it is for.

Prints the wheel's path; everything else goes to standard error. A wheel that was built before, from the same recipe by the same
Python, torch, compiler and MPI, is taken from the cache.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cache import VARIABLE, WheelCache, cache_folder
from recipe import RECIPES, Recipe

SAFELY = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11.4 and later refuse what leaves the folder; Debian 12's is 3.11.2. The archive is the one whose digest is pinned."""


class BuildError(Exception):
    """Why there is no wheel, in a sentence."""


def main() -> int:
    """Exit code 0 with the wheel's path on standard output, or 1 with a sentence on standard error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(RECIPES))
    recipe = RECIPES[parser.parse_args().name]
    try:
        print(built(recipe, WheelCache(cache_folder())))
    except BuildError as error:
        print(f"{recipe.name}: {error}", file=sys.stderr)
        return 1
    return 0


def built(recipe: Recipe, cache: WheelCache) -> Path:
    """The wheel, from the cache or newly built."""
    require_programs(recipe)
    facts = facts_of(recipe)
    if wheel := cache.find(recipe.name, facts):
        print(f"{recipe.name}: taken from {wheel.parent}", file=sys.stderr)
        return wheel
    started = time.monotonic()
    print(f"{recipe.name}: no wheel of this recipe in {cache_folder()} (${VARIABLE}), building one: minutes", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=f"{recipe.name}-") as scratch:
        kept = cache.keep(recipe.name, facts, build(recipe, Path(scratch)))
    print(f"{recipe.name}: built in {time.monotonic() - started:.0f} s, kept in {kept.parent}", file=sys.stderr)
    return kept


def require_programs(recipe: Recipe) -> None:
    """Raises BuildError where a program is missing that the build cannot do without."""
    missing = [program for program in recipe.programs if shutil.which(program) is None]
    if missing:
        packages = sorted(set(recipe.programs.values()))
        remedy = f"on Debian and Ubuntu: apt-get install {' '.join(packages)}"
        raise BuildError(f"it is compiled here, and {', '.join(missing)} cannot be found; {remedy}")


def facts_of(recipe: Recipe) -> dict[str, str]:
    """All that decides what the wheel will be, in words that a person can compare."""
    files = [Path(__file__), recipe.sdist, *recipe.patches]
    facts = {f"file {file.name}": hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    facts["python"] = f"{sysconfig.get_config_var('SOABI')} on {sysconfig.get_platform()}"
    facts |= {package: importlib.metadata.version(package) for package in ("torch", "setuptools")}
    return facts | recipe.environment | {" ".join(command): output_of(command) for command in recipe.versions}


def build(recipe: Recipe, scratch: Path) -> Path:
    """Fetch, check, patch and compile in ``scratch``; the finished wheel lies in it."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # What follows must be the digest that is pinned, and is built by the setuptools that is locked: no build isolation.
    source = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--use-pep517"]
    environment = build_environment(recipe)
    run([*pip, "download", *source, "--require-hashes", "--dest", str(scratch), "--requirement", str(recipe.sdist)], environment)
    (archive,) = scratch.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        sdist.extractall(scratch / "source", **SAFELY)  # noqa: S202 - with a filter where there is one
    (folder,) = (scratch / "source").iterdir()
    for patch in recipe.patches:
        run(["patch", "--strip=1", "--fuzz=0", "--directory", str(folder), "--input", str(patch)], environment)
    run([*pip, "wheel", *source, "--no-cache-dir", "--wheel-dir", str(scratch / "wheel"), str(folder)], environment)
    (wheel,) = (scratch / "wheel").glob("*.whl")
    return wheel


def build_environment(recipe: Recipe) -> dict[str, str]:
    """The caller's environment with the recipe's settings, all processors, and this Python's programs first."""
    foreign = ("DS_", "HOROVOD_", "MAKE", "MFLAGS")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    jobs = len(os.sched_getaffinity(0))
    return inherited | {"PATH": path, "MAKEFLAGS": f"-j{jobs}", "MAX_JOBS": str(jobs)} | recipe.environment


def run(command: Sequence[str], environment: dict[str, str]) -> None:
    """Raises BuildError with the end of what the command said."""
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ended.returncode:
        last = "\n".join(ended.stdout.splitlines()[-40:])
        raise BuildError(f"exit code {ended.returncode} of: {' '.join(command)}\n{last}")


def output_of(command: Sequence[str]) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
