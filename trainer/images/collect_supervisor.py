"""Makes the folder that brings the supervisor into any image: ``python collect_supervisor.py SITE_PACKAGES FOLDER``.

In it are this Python, its standard library, the packages, every shared library that one of these needs, and the loader that
starts them, so that the root around the folder need not have a C library. Run by the Python of a base image, not by one of a
virtual environment: that one's ``site`` would look for packages elsewhere.
"""

from __future__ import annotations

import compileall
import platform
import py_compile
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
LEFT_OUT = (
    "__pycache__", "test", "tests", "idlelib", "tkinter", "turtle*", "ensurepip", "lib2to3", "distutils", "pydoc_data",
    "config-*", "site-packages", "dist-packages", "_tkinter*", "_dbm*", "_gdbm*", "_curses*", "readline*", "nis*", "*sqlite3*",
    "_test*", "_xxtest*", "*.a", "pip", "pip-*", "setuptools", "setuptools-*", "pkg_resources", "_distutils_hack", "*.pth",
    "*.pyi",
)
"""Of the standard library and of the packages: what no supervisor imports."""
SERVICES = {"s3", "sso", "sso-oidc", "sts"}
"""Of Amazon's services, those by which an object store and its keys are reached; botocore describes hundreds."""

HAND = ("run", "adapters")
"""Of our package, what a script imports by a Python of its own."""


def main(packages: Path, folder: Path) -> None:
    left_out = shutil.ignore_patterns(*LEFT_OUT)
    library = folder / "lib" / Path(sysconfig.get_path("stdlib")).name
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=left_out)
    own = Path(site.getsitepackages([str(folder)])[-1])
    shutil.copytree(packages, own, ignore=left_out, dirs_exist_ok=True)
    for service in own.glob("botocore/data/*/"):
        if service.name not in SERVICES:
            shutil.rmtree(service)
    hand = folder / "lib" / "hand" / "trainwright_trainer"  # the contract's HAND_FOLDER
    for part in HAND:
        shutil.copytree(own / "trainwright_trainer" / part, hand / part, ignore=left_out)
    shutil.copy(own / "trainwright_trainer" / "__init__.py", hand)
    (folder / "self").symlink_to(".")  # the contract's IMAGE_FOLDER
    (folder / "bin").mkdir()
    shutil.copy(sys.executable, folder / "bin" / "python3")
    loader = LOADERS[platform.machine()]
    shutil.copy(loader, folder / "lib" / "ld.so")
    for needed in sorted({one for path in programs(folder) for one in libraries(loader, path)}):
        shutil.copy(needed, folder / "lib")
    # Whoever reads these may not write beside them, and copies need not keep times.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(folder / "lib", quiet=1, stripdir=str(folder), invalidation_mode=unchecked)
    for path in (folder, *(path for part in ("bin", "lib") for path in (folder / part, *(folder / part).rglob("*")))):
        path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" or path.name == "ld.so" else 0o644)


def programs(folder: Path) -> list[Path]:
    return [folder / "bin" / "python3", *(folder / "lib").rglob("*.so"), *(folder / "lib").rglob("*.so.*")]


def libraries(loader: str, path: Path) -> list[str]:
    """Paths of the shared libraries that a program or an extension is started with. Fails where one is missing."""
    said = subprocess.run([loader, "--list", str(path)], check=True, capture_output=True, text=True).stdout
    if "not found" in said:
        raise SystemExit(f"{path} needs a library that is not here:\n{said}")
    return re.findall(r"=> (/\S+) \(", said)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
