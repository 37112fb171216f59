"""A review of many runs: `trainwright diff` of one edit beside `trainwright check`, and the page in headless Chromium.

    .venv/bin/python benchmarks/review.py [RUNS] [ROUNDS]     (default 1,000 and 5; needs git, chromium and chromedriver)

Writes the project of ``compile_project.py``, commits it, edits the learning rate of one run, and measures whole commands in
turns: `check`, `diff` against the commit (as in a pull request), and `diff` against a folder. The aim is that `diff` takes at
most 1.5 times as long as `check`. Then it writes the page of all runs with that edit, and measures in the browser, with layout,
how long the page takes to open, to filter (until it is laid out, and until it is painted) and to show a run. The aim is 100 ms
for a filter. A missed aim fails nothing.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compile_project import write_project
from machine import Machine
from process_tree import Measured, measure
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

TRAINWRIGHT = str(Path(sys.executable).with_name("trainwright"))
AIM = 1.5
"""Times `check`: what `diff` may take."""
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
FILTERS = ("llama", "ddp h100-ib", "research", "z", "")
ROUNDS = 9
"""How often the browser does each thing."""
TYPE = """
const done = arguments[arguments.length - 1], field = document.getElementById("filter");
const before = performance.now();
field.value = arguments[0];
field.dispatchEvent(new Event("input"));
document.body.getBoundingClientRect();
const laidOut = performance.now() - before;
requestAnimationFrame(() => setTimeout(() => done([laidOut, performance.now() - before])));
"""
SHOW = """
const done = arguments[arguments.length - 1], before = performance.now(), name = arguments[0];
new MutationObserver((_, observer) => {
  document.body.getBoundingClientRect();
  observer.disconnect();
  done(performance.now() - before);
}).observe(document.getElementById("run"), { childList: true });
location.hash = name;
"""


def main(runs: int, rounds: int) -> None:
    """Print medians."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each command of ours would compile its modules again
    programs = {name: shutil.which(name) or "" for name in ("git", "chromium", "chromedriver")}
    if missing := [name for name, path in programs.items() if not path]:
        sys.exit(f"{' and '.join(missing)} missing: apt-get install git chromium chromium-driver")
    print(Machine.describe(["pydantic", "ruamel.yaml", "selenium"]))
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
        root = Path(folder)
        project, before, page = root / "project", root / "before", root / "page.html"
        prepare(project, before, runs)
        compare(project, before, rounds)
        written = trainwright(project, "page", "--diff", "HEAD", "--output", str(page))
        print(f"page: written in {written.seconds:.1f} s, {page.stat().st_size / 2**20:.1f} MiB")
        options = ChromeOptions()
        options.binary_location = programs["chromium"]
        for argument in (*QUIET, f"--user-data-dir={root}/profile"):
            options.add_argument(argument)
        driver = Chrome(options=options, service=ChromeService(programs["chromedriver"]))
        try:
            look(driver, page)
        finally:
            driver.quit()


def trainwright(project: Path, *arguments: str) -> Measured:
    return measure([TRAINWRIGHT, *arguments, "--project", str(project)])


def prepare(project: Path, before: Path, runs: int) -> None:
    """A project as it was committed, also as a folder, with one edit that is not committed."""
    write_project(project, runs)
    trainwright(project, "synth")
    git = ["git", "-C", str(project), "-c", "user.name=benchmark", "-c", "user.email=benchmark@example.com"]
    for arguments in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "before"]):
        subprocess.run([*git, *arguments], check=True)
    shutil.copytree(project, before, ignore=shutil.ignore_patterns(".git"))
    run = min((project / "charts" / "runs").glob("llama-1b-*.yaml"))
    text = run.read_text(encoding="utf-8")
    run.write_text(text.replace("e-4,", "e-5,", 1), encoding="utf-8")
    trainwright(project, "synth")


def compare(project: Path, before: Path, rounds: int) -> None:
    """Neighbours in time, so that other work on the machine disturbs all of them."""
    sides = {"check": ("check",), "diff, commit": ("diff", "HEAD"), "diff, folder": ("diff", str(before))}
    seconds: list[dict[str, float]] = []
    for _ in range(rounds):
        seconds.append({side: trainwright(project, *command).seconds for side, command in sides.items()})
    for side in sides:
        each = [one[side] for one in seconds]
        ratio = statistics.median(one[side] / one["check"] for one in seconds)
        said = "" if side == "check" else f", {ratio:.2f} times check (aim: at most {AIM})"
        print(f"{side:<13} {statistics.median(each):.2f} s ({min(each):.2f} to {max(each):.2f}){said}")


def look(driver: Chrome, page: Path) -> None:
    """The page, opened and used ROUNDS times."""
    opened = []
    for _ in range(ROUNDS):
        driver.get("about:blank")
        driver.get(page.as_uri())
        opened.append(driver.execute_script("return performance.timing.loadEventEnd - performance.timing.navigationStart"))
    number = driver.execute_script("return data.runs.length")
    typed = [driver.execute_async_script(TYPE, text) for _ in range(ROUNDS) for text in FILTERS]
    names = driver.execute_script("return data.runs.map((run) => run.run)")[: ROUNDS + 1]
    shown = [driver.execute_async_script(SHOW, name) for name in names[1:]]
    laid_out, painted = zip(*typed, strict=True)
    print(f"{number} runs: opens in {statistics.median(opened):.0f} ms, shows a run in {statistics.median(shown):.0f} ms")
    for step, each in (("laid out", laid_out), ("painted", painted)):
        nine = statistics.quantiles(each, n=10)[-1]
        print(f"a filter is {step} in {statistics.median(each):.0f} ms (nine of ten in {nine:.0f}, most {max(each):.0f})")



if __name__ == "__main__":
    asked = dict(zip(("runs", "rounds"), map(int, sys.argv[1:]), strict=False))
    main(asked.get("runs", 1000), asked.get("rounds", 5))
