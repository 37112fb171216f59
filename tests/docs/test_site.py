"""The docs as a site: built without a network, every link leads to a page, and nothing is fetched from elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tests.pages import DOCS, ROOT

from trainwright.findings.codes import CODES


@dataclass
class Page(HTMLParser):
    """What a page of the site has: anchors, links, and what a browser loads to show it."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        has = {name: value or "" for name, value in attrs}
        self.anchors |= {has[key] for key in ("id", "name") if key in has}
        if tag == "a" and "href" in has:
            self.links.append(has["href"])
        elif "src" in has:
            self.loads.append(has["src"])
        elif tag == "link" and has.get("rel") in {"stylesheet", "icon", "preconnect"}:
            self.loads.append(has["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """Each page of the site. The build has no network where the machine lets us take it away."""
    output = tmp_path_factory.mktemp("site") / "site"
    alone = ["unshare", "--user", "--map-root-user", "--net"]
    unshared = subprocess.run([*alone, "true"], capture_output=True).returncode == 0
    command = [*(alone if unshared else []), sys.executable, "tools/site.py", "--output", str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {}
    for path in output.rglob("*.html"):
        pages[path] = Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    return pages


def test_links_and_anchors_lead_somewhere(site: dict[Path, Page]) -> None:
    broken = []
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or (path.name == "404.html"):
                continue
            place = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if place.is_dir():
                place /= "index.html"
            if not place.exists() or (parts.fragment and unquote(parts.fragment) not in site[place].anchors):
                broken.append(f"{path.name}: {link}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(site: dict[Path, Page]) -> None:
    assert {load for page in site.values() for load in page.loads if urlsplit(load).netloc} == set()


def test_every_page_is_in_the_site_and_found_by_the_search(site: dict[Path, Page]) -> None:
    (index,) = (path.parent for path in site if path.name == "404.html")
    found = {item["location"].partition("#")[0] for item in json.loads((index / "search.json").read_text())["items"]}
    pages = [page.relative_to(DOCS) for page in DOCS.rglob("*.md") if "examples" not in page.parts]
    expected = {str(page.with_name("index.html") if page.name == "README.md" else page.with_suffix(".html")) for page in pages}
    assert expected <= {path.relative_to(index).as_posix() for path in site}
    assert expected <= {location or "index.html" for location in found}
    assert {f"findings/{code}.html" for code in CODES} <= found
    assert not any(location.startswith("source/") for location in found)


def test_a_page_that_is_in_no_menu_is_noticed() -> None:
    menu = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    pages = [page for page in DOCS.rglob("*.md") if "examples" not in page.parts and not page.match("findings/TW*.md")]
    assert {page.relative_to(DOCS).as_posix() for page in pages if f'"{page.relative_to(DOCS).as_posix()}"' not in menu} == set()
