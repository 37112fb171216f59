"""The review page with many runs, in headless Chromium: how long it takes to open, to filter and to show a run.

    .venv/bin/python benchmarks/page.py [RUNS]        (default 1,000; needs chromium and chromedriver)

Makes the page of this project, repeats its runs under other names until there are so many, and measures in the browser, with
layout. The aim is 100 ms for a filter. It is compared with the page of the project as it is.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from machine import Machine
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

FILTERS = ("llama", "horovod mpijob", "research", "z", "")
ROUNDS = 9
TYPE = """
const done = arguments[arguments.length - 1], field = document.getElementById("filter");
const before = performance.now();
field.value = arguments[0];
field.dispatchEvent(new Event("input"));
document.body.getBoundingClientRect();
requestAnimationFrame(() => setTimeout(() => done(performance.now() - before)));
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


def main(runs: int) -> None:
    """Print medians."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    if missing := [name for name, path in programs.items() if path is None]:
        sys.exit(f"{' and '.join(missing)} missing: apt-get install chromium chromium-driver")
    print(Machine.describe(["selenium"]))
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.html"), Path(folder, "large.html")
        subprocess.run([sys.executable, "-m", "trainwright", "page", "--output", str(small)], check=True, capture_output=True)
        large.write_text(repeated(small.read_text(encoding="utf-8"), runs), encoding="utf-8")
        options = ChromeOptions()
        options.binary_location = programs["chromium"] or ""
        for argument in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile"):
            options.add_argument(argument)
        driver = Chrome(options=options, service=ChromeService(programs["chromedriver"]))
        try:
            for page in (small, large):
                measure(driver, page)
        finally:
            driver.quit()


def measure(driver: Chrome, page: Path) -> None:
    opened = []
    for _ in range(ROUNDS):
        driver.get("about:blank")
        driver.get(page.as_uri())
        opened.append(driver.execute_script("return performance.timing.loadEventEnd - performance.timing.navigationStart"))
    number = driver.execute_script("return data.runs.length")
    typed = [driver.execute_async_script(TYPE, text) for _ in range(ROUNDS) for text in FILTERS]
    names = driver.execute_script("return data.runs.map((run) => run.run)")[: ROUNDS + 1]
    shown = [driver.execute_async_script(SHOW, name) for name in names[1:]]
    size, often, most = page.stat().st_size / 2**20, statistics.median(typed), max(typed)
    print(f"{number:5} runs, {size:.1f} MiB: opens in {statistics.median(opened):.0f} ms, filters in {often:.0f} ms "
          f"(most {most:.0f}), shows a run in {statistics.median(shown):.0f} ms")


def repeated(text: str, runs: int) -> str:
    """The page with copies of its runs."""
    before, data_begin, rest = text.partition('<script id="data" type="application/json">')
    written, data_end, after = rest.partition("</script>")
    data = json.loads(written)
    first, details = data["runs"], data["details"]
    for number in range(runs - len(first)):
        like = first[number % len(first)]
        name = f"{like['run']}-{number}"
        data["runs"].append({**like, "run": name})
        details[name] = details[like["run"]]
    return "".join((before, data_begin, json.dumps(data).replace("<", "\\u003c"), data_end, after))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
