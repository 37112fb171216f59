"""The fastest that this device multiplies matrices: ``python benchmarks/gemm.py {cuda,cpu} SIZE``. Prints one line of JSON.

bf16 matrices of random numbers (zeros would draw less power, and run faster than any training), in a process of its own.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time

import torch

WARM_UPS, GROUPS, PRODUCTS = 10, 9, 10


def main(device: str, size: int) -> None:
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(WARM_UPS):
        left @ right
    seconds = statistics.median(_group(left, right) for _ in range(GROUPS)) / PRODUCTS
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    print(json.dumps({"device": name, "flops": 2 * size**3 / seconds, "cuda": torch.version.cuda}))


def _group(left: torch.Tensor, right: torch.Tensor) -> float:
    """Seconds of so many products in a row."""
    _finish(left.device)
    started = time.perf_counter()
    for _ in range(PRODUCTS):
        left @ right
    _finish(left.device)
    return time.perf_counter() - started


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
