"""What is installed, from where, and what an import costs: the two packages, their locks and the page that explains them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from trainwright.findings.codes import CODES

ROOT = Path(__file__).resolve().parent.parent
ENGINES = ("deepspeed", "horovod", "ray", "tensorflow", "xgboost")
LOCKS = ("synth", "rehearse", "test", "trainer", "build", "lock", "bench", *(f"engines/{engine}" for engine in ENGINES))
UNLOCKED = {"torch", "deepspeed", "horovod", "xgboost", "trainwright-trainer"}
"""torch is pinned in a file of its own, and so are the sdists that have no wheels; xgboost-cpu is locked in xgboost's place; the
trainer is installed from this tree."""

NPM = ("cdk8s-cli", "kubectl")
"""Folders of tools/ with what comes from npm."""


def project(folder: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))


COMPILER, TRAINER = project("."), project("trainer")


def named(entries: list[Any]) -> dict[str, Requirement]:
    """Requirements by canonical name; tables such as ``include-group`` are not requirements."""
    requirements = [Requirement(entry) for entry in entries if isinstance(entry, str)]
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def of_compiler() -> dict[str, Requirement]:
    return named(COMPILER["project"]["dependencies"])


def of_trainer() -> dict[str, Requirement]:
    return named(TRAINER["project"]["dependencies"])


def of_extra(extra: str) -> dict[str, Requirement]:
    return named(TRAINER["project"]["optional-dependencies"][extra])


def of_ranks() -> dict[str, Requirement]:
    return of_extra("torch")


def of_engine(engine: str) -> dict[str, Requirement]:
    """All that is asked for in the environment of an engine."""
    ranks = {} if engine in ("tensorflow", "xgboost") else of_ranks()
    beside = of_group(group) if (group := f"engine-{engine}") in COMPILER["dependency-groups"] else {}
    return of_trainer() | of_extra(engine) | ranks | beside | of_group("build") | of_group("engines")


def of_group(group: str) -> dict[str, Requirement]:
    return named(COMPILER["dependency-groups"][group])


def locked(lock: str) -> dict[str, set[Version]]:
    """Name -> versions. A package has several where Python versions differ."""
    versions: dict[str, set[Version]] = {}
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    for name, version in re.findall(r"^([a-z0-9][a-z0-9.\-]*)==(\S+)", text, flags=re.MULTILINE):
        versions.setdefault(canonicalize_name(name), set()).add(Version(version))
    return versions


DIRECT = {
    "synth": of_compiler() | of_trainer() | of_group("build"),
    "rehearse": of_compiler() | of_trainer() | of_ranks() | of_group("build"),
    "test": of_compiler() | of_trainer() | of_ranks() | of_extra("s3") | of_extra("hub") | of_group("build") | of_group("test"),
    "trainer": of_trainer() | of_ranks(),
    "build": of_group("build"),
    "lock": of_group("lock"),
    "bench": of_trainer() | of_ranks() | of_group("build") | of_group("bench"),
    **{f"engines/{engine}": of_engine(engine) for engine in ENGINES},
}
"""What each lock must hold, from the two projects' own words."""


def python(code: str) -> str:
    """Standard output of a fresh interpreter in the project's root."""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_pypi_constructs_wins_the_import() -> None:
    """From the root, the folder ``constructs/`` is a candidate too; without ``__init__.py`` a real package goes before it."""
    assert not (ROOT / "constructs" / "__init__.py").exists()
    where = python("import constructs; print(constructs.__file__); print(constructs.Construct.__name__)")
    file, construct = where.split()
    assert not Path(file).is_relative_to(ROOT / "constructs")
    assert construct == "Construct"


def test_importing_the_compiler_loads_nothing_heavy() -> None:
    loaded = python("import sys, trainwright; print(*sys.modules)").split()
    assert "trainwright" in loaded
    assert not {"jsii", "cdk8s", "constructs", "torch", "transformers"} & {name.partition(".")[0] for name in loaded}


def test_the_compiler_takes_the_contract_alone_of_the_trainer() -> None:
    """And the contract nothing of the trainer but itself, the estimate of memory and traffic included."""
    for folder in ("constructs/trainwright", "trainer/trainwright_trainer/contract"):
        for path in (ROOT / folder).rglob("*.py"):
            taken = re.findall(r"^\s*(?:from|import) (trainwright_trainer\S*)", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert all(name.startswith("trainwright_trainer.contract") for name in taken), path


def test_both_packages_have_one_version() -> None:
    version = COMPILER["project"]["version"]
    assert TRAINER["project"]["version"] == version
    assert str(of_compiler()["trainwright-trainer"].specifier) == f"=={version}"
    assert python("import trainwright_trainer; print(trainwright_trainer.__version__)").strip() == version
    known = python("from trainwright_trainer.contract.versions import KNOWN_VERSIONS as k; print(k[-1])").strip()
    assert known == Version(version).base_version
    assert importlib.metadata.version("trainwright") == importlib.metadata.version("trainwright-trainer") == version


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_holds_each_direct_dependency_at_a_version_it_allows(lock: str) -> None:
    versions = locked(lock)
    for name, requirement in DIRECT[lock].items():
        if name in UNLOCKED:
            assert name not in versions
        else:
            assert name in versions, f"requirements/{lock}.txt lacks {name}: run make lock"
            assert all(requirement.specifier.contains(version) for version in versions[name]), f"{name}: run make lock"


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_has_hashes_and_names_no_machine(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[a-z0-9][a-z0-9.\-]*==)", text, flags=re.MULTILINE)[1:]
    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"://|^-|^/|--(extra-)?index-url|--find-links", text, flags=re.MULTILINE)


def test_locks_agree_and_the_larger_ones_contain_the_smaller() -> None:
    everything = locked("test")
    for lock in ("synth", "rehearse", "trainer", "build"):
        assert locked(lock).items() <= everything.items(), f"requirements/{lock}.txt: run make lock"
    for lock in ("bench", *(f"engines/{engine}" for engine in ENGINES)):
        ours = locked(lock)
        assert all(everything[name] == ours[name] for name in everything.keys() & ours.keys()), f"{lock}: run make lock"
    assert locked("synth").keys() <= locked("rehearse").keys()


def test_synth_installs_neither_torch_nor_what_ranks_need() -> None:
    assert not locked("synth").keys() & {"torch", "transformers", "numpy", "scikit-learn", "safetensors"}
    for lock in LOCKS:
        assert not [name for name in locked(lock) if name.startswith(("nvidia-", "cuda-", "triton"))]


def test_torch_is_pinned_within_what_the_trainer_allows() -> None:
    text = (ROOT / "requirements" / "torch.txt").read_text(encoding="utf-8")
    (pin,) = [Requirement(line) for line in text.splitlines() if not line.startswith("#")]
    (specifier,) = pin.specifier
    assert specifier.operator == "=="
    assert of_ranks()["torch"].specifier.contains(specifier.version)


@pytest.mark.parametrize("engine", ["deepspeed", "horovod"])
def test_an_engine_without_a_wheel_is_pinned_by_digest(engine: str) -> None:
    text = (ROOT / "requirements" / "engines" / "sdists" / f"{engine}.txt").read_text(encoding="utf-8")
    name, version = re.findall(r"^(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}$", text, flags=re.MULTILINE)[0]
    assert name == engine
    assert of_extra(engine)[engine].specifier.contains(version)
    metadata = tomllib.loads((ROOT / "requirements" / "uv.toml").read_text(encoding="utf-8"))["dependency-metadata"]
    assert [entry["version"] for entry in metadata if entry["name"] == engine] == [version]


def test_every_direct_dependency_has_its_reason() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE))
    npm = {name for tool in NPM for name in json.loads((ROOT / "tools" / tool / "package.json").read_text())["dependencies"]}
    direct = {requirement.name for requirements in (*DIRECT.values(), of_extra("nvml")) for requirement in requirements.values()}
    assert listed == direct | npm


@pytest.mark.parametrize("tool", NPM)
def test_npm_lock_pins_the_tool_and_names_no_registry(tool: str) -> None:
    folder = ROOT / "tools" / tool
    ((name, wanted),) = json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"].items()
    text = (folder / "package-lock.json").read_text(encoding="utf-8")
    packages = json.loads(text)["packages"]
    assert packages[f"node_modules/{name}"]["version"] == wanted
    assert all("integrity" in entry or "inBundle" in entry for path, entry in packages.items() if path)
    assert "resolved" not in text


@pytest.mark.parametrize(("folder", "package"), [(".", "trainwright"), ("trainer", "trainwright_trainer")])
def test_wheel_holds_its_package_and_needs_torch_only_as_an_extra(folder: str, package: str, tmp_path: Path) -> None:
    build = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT / folder)]
    subprocess.run([sys.executable, "-m", *build], check=True)
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        files = wheel.namelist()
        metadata = message_from_bytes(wheel.read(next(name for name in files if name.endswith(".dist-info/METADATA"))))
    assert {name.partition("/")[0] for name in files if ".dist-info/" not in name} == {package}
    assert f"{package}/py.typed" in files
    pages = {f"trainwright/pages/{page}" for page in ("record.md", *(f"findings/{code}.md" for code in CODES))}
    assert pages <= set(files) or package != "trainwright", "what `trainwright rules CODE` and `explain` print"
    always = [Requirement(line) for line in metadata.get_all("Requires-Dist", []) if not needs_extra(Requirement(line).marker)]
    assert not {"torch", "transformers"} & {requirement.name for requirement in always}


def needs_extra(marker: Marker | None) -> bool:
    return marker is not None and not marker.evaluate({"extra": ""})


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ([], 0, "make rehearse"),
        (["synth", "PYTHON={old}", "VENV={venv}"], 2, "Python 3.11 or newer is needed, and {old} is: Python 3.10.9"),
        (["synth", "PYTHON=no-such-python", "VENV={venv}"], 2, "Python 3.11 or newer is needed, and no-such-python is:"),
        (["rehearse", "VENV={venv}"], 2, "make rehearse RUN=digits-ddp"),
        (["help", "OS=Windows_NT"], 2, "Windows is not supported"),
    ],
)
def test_make_says_what_it_needs(arguments: list[str], status: int, says: str, tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text('#!/bin/sh\ncase "$1" in --version) echo Python 3.10.9 ;; *) exit 1 ;; esac\n', encoding="utf-8")
    old.chmod(0o755)
    words = {"old": str(old), "venv": str(tmp_path / "venv")}
    ended = subprocess.run(
        ["make", *(argument.format(**words) for argument in arguments)],
        cwd=ROOT, env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
        capture_output=True, text=True, check=False,
    )
    assert ended.returncode == status, ended.stderr
    assert says.format(**words) in ended.stdout + ended.stderr
    assert not (tmp_path / "venv").exists()
