"""Build the docs as a site into ``build/site``: ``python tools/site.py [--output DIR]``, without the network.

The pages are written for a Git host, so they are prepared first. A link may lead out of ``docs/``, to a run, a test or
``CONTRIBUTING.md``: such a file becomes a page below ``source/``, so that every link holds in a folder.
A fenced block may say after its language what it shows, which Markdown wants as a title.

Exit code 1 when a link or an anchor leads nowhere.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(?P<language>\w*) (?P<what>\S.*)$")
LINK = re.compile(r"(?P<before>\[[^\]]*\]\()(?P<target>[^)#\s]+)(?P<after>(#[^)]*)?\))")
COMMANDS = re.compile(r"(plan|rules|explain|check|validate) \S")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml", ".sh": "bash", ".json": "json"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the docs as a site, without the network.")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    output = parser.parse_args().output.resolve()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        prepare(work / "docs")
        shutil.copy(ROOT / "zensical.toml", work)
        built = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=work)
        if built.returncode == 0:
            shutil.rmtree(output, ignore_errors=True)
            shutil.copytree(work / "site", output)
    return built.returncode


def prepare(place: Path) -> None:
    """Write the pages as the site wants them: those of ``docs/``, and one for each file outside that they link to."""
    shutil.copytree(ROOT / "docs" / "pictures", place / "pictures")
    waiting = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md") if "examples" not in path.parts]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        text = _text(path)
        page = place / _page(path)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(_moved(text, path), encoding="utf-8")
        new = {target for target in _targets(text, path) if _page(target) and (ROOT / target).exists()} - seen
        seen |= new
        waiting += sorted(new)


def _text(path: str) -> str:
    """Of a page; a file that is none is shown as it is, and a folder by its names, both kept from the search."""
    here = ROOT / path
    if here.is_dir():
        names = (name.name for name in here.iterdir() if not name.name.startswith(("_", ".")))
        body = f"# {path}\n\n" + "\n".join(f"- `{name}`" for name in sorted(names))
    elif here.suffix == ".md":
        body = here.read_text(encoding="utf-8")
    else:
        body = f"# {path}\n\n`````{LANGUAGES.get(here.suffix, 'text')}\n{here.read_text(encoding='utf-8')}`````\n"
    return body if path.startswith("docs/") and here.suffix == ".md" else f"---\nsearch: {{exclude: true}}\n---\n{body}"


def _page(path: str) -> str:
    """Where the site has a file of the repository; empty for a picture, which is copied. Folders with a dot would be left out."""
    inside = path.removeprefix("docs/")
    if inside.startswith("pictures/"):
        return ""
    return inside if inside != path and inside.endswith(".md") else f"source/{path.lstrip('.')}.page.md"


def _moved(text: str, path: str) -> str:
    """Links as the site's folders are, and a title on each block that says what it shows."""

    def moved(match: re.Match[str]) -> str:
        target = _path(match["target"], path)
        if target is None:
            return match[0]
        place = _page(target) or target.removeprefix("docs/")
        return f"{match['before']}{posixpath.relpath(place, posixpath.dirname(_page(path)) or '.')}{match['after']}"

    lines = []
    for line, is_code in _lines(text):
        if not is_code:
            line = LINK.sub(moved, line)
        elif opening := FENCE.match(line):
            what = f"$ trainwright {opening['what']}" if COMMANDS.match(opening["what"]) else opening["what"]
            line = f'```{opening["language"]} title="{what}"'
        lines.append(line)
    return "\n".join(lines) + "\n"


def _targets(text: str, path: str) -> Iterator[str]:
    """Files of the repository that a page links to."""
    for line, is_code in _lines(text):
        for match in LINK.finditer("" if is_code else line):
            if target := _path(match["target"], path):
                yield target


def _path(target: str, origin: str) -> str | None:
    """Of a link's target in the repository; None for another site."""
    if re.match(r"\w+:", target):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is in a fenced block or opens one."""
    fence = ""
    for line in text.splitlines():
        found = re.match(r"`{3,}", line)
        if fence:
            yield line, True
            fence = "" if found and line.strip() == fence else fence
        else:
            yield line, bool(found)
            fence = found[0] if found else ""


if __name__ == "__main__":
    sys.exit(main())
