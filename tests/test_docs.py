"""Every example in the README and the docs is what the program really says, and every table is what the code really holds."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pages import DOCS, PAGES, ROOT, Block, blocks, rewrite

from trainwright.operators import TARGETS
from trainwright.project.load import Sources, find_project, load_sources
from trainwright_trainer.contract import EXIT_CODES, METRICS, Disposition

LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)#\s]*)(#(?P<anchor>[^)]*))?\)")

ACTIONS = {
    Disposition.DONE: "the index is complete",
    Disposition.PERMANENT: "FailJob: the run ends",
    Disposition.COUNTED: "counts against `restarts`, then retried",
    Disposition.IGNORED: "Ignore: retried, not counted",
}


def all_blocks(language: str, pattern: str) -> pytest.MarkDecorator:
    """Blocks of a language whose first line says what they show."""
    every = (block for page in PAGES for block in blocks(page))
    found = [block for block in every if block.language == language and re.fullmatch(pattern, block.what)]
    assert found
    return pytest.mark.parametrize("block", found, ids=[f"{number} {block.id}" for number, block in enumerate(found)])


@all_blocks("yaml", r"\S+/\S+")
def test_excerpts_are_in_the_file(block: Block, pytestconfig: pytest.Config) -> None:
    text, body = (ROOT / block.what).read_text(encoding="utf-8"), block.body
    name = Path(block.what).name.partition(".")[0]
    if pytestconfig.option.update_snapshots and (real := re.search(rf"\b{name}-\w{{8}}\b", text)):
        body = re.sub(rf"\b{name}-\w{{8}}\b", real[0], body)
        rewrite(block.page, block.body, body)
    lines = iter(text.splitlines())
    for line in body.splitlines():
        if line.strip() != "…":
            assert any(line == present for present in lines), f"{block.page.name}: {line!r} does not follow in {block.what}"


@all_blocks("text", r"(plan|rules|explain|check|validate) \S.*")
def test_outputs_are_what_the_command_prints(block: Block, pytestconfig: pytest.Config) -> None:
    executable = Path(sys.executable).with_name("trainwright")
    done = subprocess.run([executable, *block.what.split()], cwd=ROOT, capture_output=True, text=True, check=True)
    if pytestconfig.option.update_snapshots and done.stdout != block.body:
        rewrite(block.page, block.body, done.stdout)
    else:
        assert done.stdout == block.body, f"{block.page.name}: the output of trainwright {block.what} changed"


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(page.read_text(encoding="utf-8")):
        target, anchor = match["target"], match["anchor"]
        if target.startswith("http"):
            continue
        place = page.parent / target if target else page
        assert place.exists(), f"{page.name} links to {target}"
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), f"{page.name} links to {target}#{anchor}"


# Tables.


def test_the_exit_codes_are_the_contract() -> None:
    rows = [
        f"| {int(row.code)} | {row.reason} | {row.meaning} | {ACTIONS[row.disposition]} | {row.remedy} |"
        for row in EXIT_CODES.values()
    ]
    assert_table("| code | reason | meaning | what the Job does | what you do |\n|---|---|---|---|---|", rows)


def test_the_metrics_are_the_contract() -> None:
    rows = [f"| `{row.name}` | {row.kind} | {row.help} |" for row in METRICS.values()]
    assert_table("| metric | type | what, with its unit |\n|---|---|---|", rows)


def assert_table(head: str, rows: list[str]) -> None:
    table = "\n".join([head, *rows])
    page = (DOCS / "trainer.md").read_text(encoding="utf-8")
    assert table in page, f"docs/trainer.md is not what the contract says; its table should be:\n{table}"


# The runs and profiles of this repository.


def runs() -> Iterator[tuple[str, str, str]]:
    """Link, cluster and target of each run, as the page of runs shows them."""
    sources: Sources = load_sources(find_project(ROOT))
    for name, file in sorted(sources.runs.items()):
        cluster = sources.clusters[file.run.cluster].cluster
        target = TARGETS[file.run.target or cluster.default_target]
        path = Path(file.name).relative_to(ROOT) if Path(file.name).is_absolute() else Path(file.name)
        yield f"[`{name}`](../{path.as_posix()})", file.run.cluster, target.title


def test_the_page_of_runs_lists_every_run_with_its_target() -> None:
    page = (DOCS / "runs.md").read_text(encoding="utf-8")
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in page.splitlines() if line.startswith("| [`")]
    listed = [row[:3] for row in rows if "(../charts/runs/" in row[0]]
    assert sorted(listed) == sorted(runs())
    assert all(len(row[3]) > 20 for row in rows if "(../charts/runs/" in row[0])


def test_the_page_of_clusters_names_every_profile() -> None:
    page = (DOCS / "clusters.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\(\.\./charts/clusters/([\w-]+)\.yaml\)", page))
    assert named == {path.stem for path in (ROOT / "charts" / "clusters").glob("*.yaml")}


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_has_its_section(name: str) -> None:
    assert f"\n## {TARGETS[name].title}\n" in (DOCS / "targets.md").read_text(encoding="utf-8")
