"""Take the pictures of the review page: docs/pictures/{page,page-dark}.png. Needs Debian's chromium.

    .venv/bin/python tools/screenshots.py

The page is that of this project with one edit: llama-1b-ddp on twice as many nodes, as in the picture of `diff`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
TRAINWRIGHT = [sys.executable, "-m", "trainwright"]
RUN = "charts/runs/llama-1b-ddp.yaml"
SCHEMES = {"page": "1", "page-dark": "0"}
"""Picture -> Chromium's number of the colour scheme."""


def main() -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("chromium is missing: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder, "training")
        for name in ("charts", "dist"):
            shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        git = ["git", "-C", str(project), "-c", "user.name=pictures", "-c", "user.email=pictures@example.com"]
        subprocess.run([*git, "init", "--quiet", "--initial-branch=main"], check=True)
        subprocess.run([*git, "add", "--all"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message=before"], check=True)
        run = project / RUN
        run.write_text(run.read_text(encoding="utf-8").replace("nodes: 4", "nodes: 8"), encoding="utf-8")
        subprocess.run([*TRAINWRIGHT, "synth", "--project", str(project)], check=True, capture_output=True)
        page = Path(folder, "review.html")
        subprocess.run([*TRAINWRIGHT, "page", "--project", str(project), "--diff", "main", "--output", str(page)], check=True)
        for name, scheme in SCHEMES.items():
            subprocess.run(
                [
                    chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
                    "--disable-component-update", "--disable-sync", f"--user-data-dir={folder}/{name}", "--hide-scrollbars",
                    "--window-size=1240,860", "--virtual-time-budget=4000", f"--blink-settings=preferredColorScheme={scheme}",
                    f"--screenshot={PICTURES / name}.png", f"{page.as_uri()}#llama-1b-ddp",
                ],
                check=True, capture_output=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
