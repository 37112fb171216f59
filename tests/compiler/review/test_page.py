"""The review page, in a real browser: Debian's Chromium, without a screen and without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import Select, WebDriverWait
from tests.compiler.example import compiled
from tests.compiler.projects import ROOT, Scratch, assert_ended
from tests.programs import found, needs

from trainwright.page import page as page_of
from trainwright.page.data import details
from trainwright.page.drawing import drawing
from trainwright.project.build import build_project
from trainwright.project.built import Build
from trainwright.project.load import Project, load_sources
from trainwright.project.record import RunRecord
from trainwright.report.facts import plan_facts
from trainwright.review import Class, Review, RunReview, SharedReview

CHROMIUM, DRIVER = found("chromium"), found("chromedriver")
needs_chromium = needs("chromium", "chromedriver")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1300,900",
)  # fmt: skip


@pytest.fixture(scope="module")
def fleet() -> Build:
    from tests.compiler.compiling import TODAY

    return build_project(load_sources(Project(ROOT)), TODAY)


@pytest.fixture(scope="module")
def written(edited: Scratch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of ten edits against main, one of which does not compile."""
    path = tmp_path_factory.mktemp("page") / "review.html"
    broken = edited.path("charts/runs/digits-ddp.yaml")
    text = broken.read_text(encoding="utf-8")
    try:
        broken.write_text(text.replace("cluster: laptop", "cluster: lapdog"), encoding="utf-8")
        assert_ended(edited.run("page", "--diff", "main", "--output", str(path)), 0, "wrote")
    finally:
        broken.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = CHROMIUM or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in (*QUIET, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(argument)
    driver = Chrome(options=options, service=ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def page(browser: Chrome, written: Path) -> Chrome:
    browser.get("about:blank")
    browser.get(written.as_uri())
    opened(browser)
    return browser


def opened(browser: Chrome, run: str | None = None) -> WebElement:
    """The part of the page about a run, or about the one that its address names, once that is what it shows.

    The page unpacks a run in the background and then replaces all elements of this part, so only the part itself, which stays,
    can say when that is done. A run is opened by keyboard: a row far down gets its real height when it is scrolled to, so that a
    click could land beside it.
    """
    if run is not None:
        browser.find_element(By.LINK_TEXT, run).send_keys(Keys.ENTER)
    name = run or browser.current_url.partition("#")[2] or browser.execute_script("return data.runs[0].run")
    there = (By.CSS_SELECTOR, f'#run[data-run="{name}"]:not([aria-busy])')
    found: WebElement = WebDriverWait(browser, 20).until(expected_conditions.presence_of_element_located(there))
    return found


def shown(browser: Chrome) -> list[str]:
    rows = browser.find_elements(By.CSS_SELECTOR, "#fleet tbody tr[id]")
    return [row.find_element(By.TAG_NAME, "a").text for row in rows if row.is_displayed()]


@needs_chromium
def test_the_list_has_every_run_and_is_filtered_and_grouped(page: Chrome) -> None:
    runs = {path.stem.replace("_", "-") for path in (ROOT / "charts" / "runs").glob("[!_]*.*")}
    assert set(shown(page)) == runs
    page.find_element(By.ID, "filter").send_keys("horovod MPIJob")
    assert set(shown(page)) < runs
    assert "nccl-training" in shown(page)
    assert "llama-1b-ddp" not in shown(page)
    page.find_element(By.ID, "filter").clear()
    page.find_element(By.ID, "filter").send_keys(" ")
    Select(page.find_element(By.ID, "group")).select_by_visible_text("team")
    headings = [one.text for one in page.find_elements(By.CSS_SELECTOR, "th[scope=rowgroup]") if one.is_displayed()]
    assert all(re.fullmatch(r".+: \d+ runs?, \d+ GPUs?", one) for one in headings), headings
    assert any(one.startswith("nlp: ") for one in headings), headings
    page.find_element(By.ID, "changed").click()
    assert "llama-1b-ddp" in shown(page)
    assert "ray-lm" not in shown(page)


@needs_chromium
def test_what_changes_for_several_runs_stands_above_them(page: Chrome) -> None:
    titles = [one.text for one in page.find_elements(By.CSS_SELECTOR, "#shared > details > summary")]
    assert "DATA AT RISK: foundation kubeflow-a100/training-host" in titles
    assert "profile h100-ib" in titles


@needs_chromium
def test_a_run_shows_what_changes_and_what_it_is(page: Chrome) -> None:
    text = opened(page, "llama-1b-ddp").text
    assert "This change: replaces a running job; training goes on from its last checkpoint" in text
    assert "learning rate base" in text
    assert "4 nodes x 8 H100 80Gi" in text
    drawn = page.find_element(By.CSS_SELECTOR, "#run svg")
    assert "4 nodes, world size 32" in str(drawn.get_attribute("aria-label"))
    assert len(drawn.find_elements(By.CSS_SELECTOR, ".pod")) == 4
    assert len(drawn.find_elements(By.CSS_SELECTOR, ".rank")) == 32
    assert len(drawn.find_elements(By.CSS_SELECTOR, ".first")) == 1


@needs_chromium
def test_a_run_that_does_not_compile_shows_why(page: Chrome) -> None:
    page.get(page.current_url.partition("#")[0] + "#digits-ddp")
    text = opened(page).text
    assert "TW110" in text
    assert "lapdog" in text
    assert "does not compile" in page.find_element(By.ID, "row-digits-ddp").text


@needs_chromium
def test_every_line_of_the_yaml_says_why_by_pointer_and_by_keyboard(page: Chrome) -> None:
    opened(page, "own-script")
    lines = page.find_elements(By.CSS_SELECTOR, ".yaml div")
    (number,) = [index for index, line in enumerate(lines) if line.text.strip() == "completions: 4"]
    page.execute_script("arguments[0].dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))", lines[number])
    why = page.find_element(By.ID, "why")
    assert why.text.startswith(f"Line {number + 1}: ")
    assert "charts/runs/own-script.yaml:" in why.text
    listing = page.find_element(By.CSS_SELECTOR, ".yaml")
    listing.send_keys(Keys.HOME, Keys.ARROW_DOWN)
    assert why.text.startswith("Line 2: states the plan")
    assert listing.get_attribute("aria-activedescendant") == "line-2"


@needs_chromium
def test_it_asks_nobody_and_complains_of_nothing(page: Chrome) -> None:
    opened(page, "vit-horovod")
    assert page.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)") == []
    assert [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"] == []  # type: ignore[no-untyped-call]


@needs_chromium
def test_it_follows_dark_and_fits_a_narrow_screen(page: Chrome) -> None:
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    page.set_window_size(500, 900)
    try:
        colour = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert colour == "rgb(16, 21, 27)"
        wide = page.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        page.set_window_size(1300, 900)


def test_its_policy_lets_in_nothing_from_elsewhere(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"(?:src|href)=[\"']?https?:", text)


def test_the_same_project_gives_the_same_page(edited: Scratch, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert_ended(edited.run("page", "--diff", "main", "--output", str(tmp_path / name)), 0)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_every_drawing_is_well_formed_and_shows_every_role(fleet: Build) -> None:
    for name, built in fleet.runs.items():
        image = fromstring(drawing(built.compiled))  # noqa: S314 it is ours
        words = " ".join(image.itertext())
        for role in built.compiled.resolution.binding.roles:
            assert f"{role.name}: {role.pods} pod" in words, name
        for path in built.file.run.mounts:
            assert path in words, name


def test_a_drawing_says_what_is_mounted_in_words() -> None:
    projected = [{"config_map": "settings"}, {"secret": "key"}]
    mounts = {"/etc/app": {"projected": projected}, "/data": {"config_map": "index"}, "/fast": {"ephemeral": "10Gi"}}
    words = " ".join(fromstring(drawing(compiled({"mounts": mounts}))).itertext())  # noqa: S314 it is ours
    for said in ("/etc/app: projected from 2 sources", "/data: config map index", "/fast: ephemeral 10Gi"):
        assert said in words


def test_no_text_of_a_run_ends_the_data(written: Path) -> None:
    text = written.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert "<" not in data
    found: dict[str, Any] = json.loads(data)
    assert len(found["details"]) == len(found["runs"])


def test_a_base_that_is_no_revision_is_said(edited: Scratch) -> None:
    assert_ended(edited.run("page", "--diff", "nowhere"), 2, "nowhere")


def test_what_has_left_and_what_is_shared_is_in_the_data(fleet: Build) -> None:
    facts = {"team": "nlp", "cluster": "laptop", "queue": "research", "checkpoints.by": "own"}
    gone = RunReview("left", Class.RETIRED, RunRecord(identity="a", file="", facts=facts), None, "job left-a is stopped", "ends")
    claim = SharedReview("foundation laptop/training", ("left",), risk="the storage out is gone", effect="By itself nothing.")
    empty = fleet._replace(runs={}, paused={}, done={}, failures={})
    text = page_of(Project(ROOT), empty, Review("main", "here", (gone,), (claim,), ("a note",)), lambda names, _: names)
    (data,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    found: dict[str, Any] = json.loads(data)
    (row,) = found["runs"]
    assert (row["run"], row["state"], row["change"], row["team"], row["cluster"]) == ("left", "gone", "retired", "nlp", "laptop")
    assert "left" in found["details"]
    (shared,) = found["shared"]
    assert (shared["title"], shared["risk"], shared["runs"]) == ("foundation laptop/training", "the storage out is gone", "left")
    assert found["notes"] == ["a note"]


def test_what_runs_ask_of_their_queue_together_is_a_row(fleet: Build) -> None:
    from tests.compiler.rules.test_quota import RUN, flavor, kueue

    result = compiled(RUN, kueue({"a": flavor(nominal=32)}))
    name, built = next(iter(fleet.runs.items()))
    beside = RunRecord(identity="1a2b3c4d", file="", facts={**plan_facts(result), "namespace": "training"})
    build = fleet._replace(runs={**fleet.runs, name: built._replace(compiled=result)})
    alone, both = (details(Project(ROOT), build, name, None, records) for records in ({}, {"other": beside}))
    said = ("queue", "64 of 32 nvidia.com/gpu for 2 active runs, so some wait for others")
    assert [row for row in both["plan"] if row not in alone["plan"]] == [said]
