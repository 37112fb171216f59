"""What must hold before a tag becomes a release: ``python tools/release.py v0.2.0`` prints its notes.

The tag is the version of both packages, and of the trainer that the compiler asks for; the changelog has a section of it, with
a date. Ends with 1 and a message where that is not so.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main(tag: str, root: Path = ROOT) -> str:
    """The notes of a release.

    Raises:
        ValueError: something is not as a release needs it.
    """
    wanted = tag.removeprefix("v")
    for file in ("pyproject.toml", "trainer/pyproject.toml"):
        project = tomllib.loads((root / file).read_text(encoding="utf-8"))["project"]
        ours = (pin.partition("==")[2] for pin in project["dependencies"] if pin.startswith("trainwright"))
        stated = {project["version"], *ours}
        if stated != {wanted}:
            raise ValueError(f"{file} says {', '.join(sorted(stated))}, and the tag {tag}: let them agree, and tag again")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(wanted)}, (?P<when>.*)\n(?P<notes>(?:(?!## ).*\n)*)", changelog, re.MULTILINE)
    if section is None or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", section["when"]):
        raise ValueError(f"CHANGELOG.md has no section `## {wanted}, YYYY-MM-DD`: write what the release changes, and tag again")
    return section["notes"].strip()


if __name__ == "__main__":
    try:
        (given,) = sys.argv[1:]
        print(main(given))
    except ValueError as error:
        sys.exit(f"release.py: {error}")
