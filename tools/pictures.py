"""Draw what commands say on a terminal, for the README: docs/pictures/{plan,diff,rehearse}.svg.

    .venv/bin/python tools/pictures.py [plan] [diff] [rehearse]      (`rehearse` needs `make rehearse` before, and takes a minute)

Each command runs on a terminal of its own, and Rich draws what came out. A test holds the pictures of `plan` and `diff` against
what the commands say today; a rehearsal says other seconds each time, so its picture is only drawn anew.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = 112
TRAINWRIGHT = [sys.executable, "-m", "trainwright"]
_FONT_FACES = re.compile(r"@font-face \{[^}]*\}\s*")
"""Fonts from another host: a picture in a README should ask nobody."""


def plan() -> str:
    """A run over four nodes with InfiniBand."""
    return drawn("trainwright plan llama-1b-ddp", [*TRAINWRIGHT, "plan", "llama-1b-ddp"], ROOT)


def diff() -> str:
    """The same run on twice as many nodes, with another learning rate."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "main"), Path(folder, "change")
        for copy in (before, after):
            for name in ("charts", "dist"):
                shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        run = after / "charts" / "runs" / "llama-1b-ddp.yaml"
        text = run.read_text(encoding="utf-8")
        edited = text.replace("nodes: 4", "nodes: 8").replace("base: 3e-4", "base: 2e-4")
        if edited == text:
            sys.exit(f"{run.name} is another one by now: edit it here in another way")
        run.write_text(edited, encoding="utf-8")
        subprocess.run([*TRAINWRIGHT, "synth", "--project", str(after)], check=True, capture_output=True)
        return drawn("trainwright diff ../main .", [*TRAINWRIGHT, "diff", "../main", "."], after)


def rehearse() -> str:
    """Two pods that train the digits."""
    return drawn("make rehearse RUN=digits-ddp", [*TRAINWRIGHT, "rehearse", "digits-ddp", "--fresh"], ROOT)


DRAWN: Mapping[str, Callable[[], str]] = {"plan": plan, "diff": diff, "rehearse": rehearse}


def drawn(title: str, command: list[str], folder: Path) -> str:
    """An SVG of what a command says; raises ``CalledProcessError`` where it fails."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(_said(command, folder)))
    picture = console.export_svg(title=title, theme=MONOKAI, unique_id="trainwright")
    return _FONT_FACES.sub("", picture)


def _said(command: list[str], folder: Path) -> str:
    """What a command says to a terminal."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    told = environment | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    with subprocess.Popen(command, cwd=folder, env=told, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while more := _more(ours):
            said += more
    os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, said)
    return said.decode().replace("\r\n", "\n").replace(f"{folder}/", "").rstrip("\n")


def _more(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux, where the other end is closed
        return b""


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or DRAWN:
        (PICTURES / f"{name}.svg").write_text(DRAWN[name](), encoding="utf-8")
