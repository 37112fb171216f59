"""Memory of the GPU that is in use, by whichever process: the same measure for every side."""

from __future__ import annotations

import os
import subprocess
import tempfile
from types import TracebackType

EVERY_MILLISECONDS = 200


class GPUMemory:
    """Watches one GPU inside of a ``with`` block. An allocator keeps what it once had, so samples find the peak."""

    def __init__(self) -> None:
        self.peak_mebibytes = 0
        self._lines = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  closed in __exit__

    def __enter__(self) -> GPUMemory:
        index = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        command = ["nvidia-smi", f"--id={index}", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        self._process = subprocess.Popen([*command, f"--loop-ms={EVERY_MILLISECONDS}"], stdout=self._lines)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.terminate()
        self._process.wait()
        self._lines.seek(0)
        self.peak_mebibytes = max((int(line) for line in self._lines if line.strip().isdigit()), default=0)
        self._lines.close()
