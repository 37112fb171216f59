"""Builds the wheel of an engine for an image: ``PYTHON image.py NAME DEVICE FOLDER``, where ``build.py`` builds for this machine.

An image runs on other machines than the one that builds it, so the wheel is compiled for a generation of processors and not for
the one at hand, and with the operators that ranks on DEVICE ask for.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from build import BuildError, build, require_programs
from recipe import FOLDER, RECIPES, Recipe

ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"
"""Variable with the compute capabilities to compile for, as torch and DeepSpeed read it: ``8.0 9.0``."""
CUDA_HOME = "/usr/local/cuda"

PROCESSORS: Mapping[str, tuple[str, str]] = {
    "x86_64": ("-march=x86-64-v3", "-D__AVX256__"),  # Intel since Haswell, AMD since Zen: AVX2, FMA and F16C
    "aarch64": ("-march=armv8-a", "-D__NEON__"),
}
"""Machine -> the compiler's option, and the width that DeepSpeed's Adam is written for."""


def main() -> int:
    """Exit code 0 with the wheel in FOLDER, or 1 with a sentence on standard error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(RECIPES))
    parser.add_argument("device", choices=("cpu", "cuda"))
    parser.add_argument("folder", type=Path)
    asked = parser.parse_args()
    try:
        recipe = for_image(RECIPES[asked.name], asked.device, platform.machine(), os.environ.get(ARCHITECTURES, ""))
        require_programs(recipe)
        asked.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{recipe.name}-") as scratch:
            shutil.copy2(build(recipe, Path(scratch)), asked.folder)
    except BuildError as error:
        print(f"{asked.name}: {error}", file=sys.stderr)
        return 1
    return 0


def for_image(recipe: Recipe, device: str, machine: str, architectures: str) -> Recipe:
    """The recipe with what an image changes. Raises BuildError for a machine that we have no options for."""
    if machine not in PROCESSORS:
        raise BuildError(f"no options of the compiler are known for {machine}; known are {', '.join(sorted(PROCESSORS))}")
    if device == "cuda" and not architectures.split():
        raise BuildError(f"{ARCHITECTURES} is empty; name the compute capabilities of the GPUs, such as '8.0 9.0'")
    march, width = PROCESSORS[machine]
    if recipe.name == "deepspeed":
        portable, patches = {"DS_CPU_ARCH": march, "DS_SIMD_WIDTH": width}, (FOLDER / "deepspeed-portable.patch",)
    else:
        portable, patches = {"HOROVOD_BUILD_ARCH_FLAGS": march}, ()
    gpu = _on_gpus(recipe.name, architectures) if device == "cuda" else {}
    programs = recipe.programs | ({"nvcc": "nothing: it comes with CUDA_IMAGE"} if gpu else {})
    environment = {name: value for name, value in (recipe.environment | portable | gpu).items() if value}
    return replace(recipe, environment=environment, programs=programs, patches=(*recipe.patches, *patches))


def _on_gpus(name: str, architectures: str) -> dict[str, str]:
    if name == "deepspeed":
        # Collectives in shared memory are for ranks without a GPU; Adam on the host is for weights that are offloaded.
        return {"DS_ACCELERATOR": "cuda", "DS_BUILD_SHM_COMM": "", "CUDA_HOME": CUDA_HOME}
    capabilities = ",".join(word.replace(".", "") for word in architectures.split())
    return {
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_CUDA_HOME": CUDA_HOME,
        "HOROVOD_BUILD_CUDA_CC_LIST": capabilities,
        "HOROVOD_NCCL_LINK": "STATIC",  # a copy of its own: torch brings NCCL without what a linker needs
        "CUDA_HOME": CUDA_HOME,
    }


if __name__ == "__main__":
    sys.exit(main())
