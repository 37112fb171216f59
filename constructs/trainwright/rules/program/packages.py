"""Rules on the packages that pip installs for a script."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.findings import Finding
from trainwright.findings.codes import found
from trainwright.findings.context import Context
from trainwright.plan.packages import FOLDER, packages_of

_NAME = r"(?P<name>[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?)(\[[-A-Za-z0-9._, ]+\])?"
_PINNED = re.compile(rf"{_NAME} *={{2,3}} *[A-Za-z0-9][-A-Za-z0-9.+!_]* *(;[^#]*?)?(?P<hashes>( +--hash=\S+)*) *")
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})")
"""Those that pip takes as strong (pip/_internal/utils/hashes.py)."""


def are_pinned(context: Context) -> Iterator[Finding]:
    """pip refuses all of them where one has no hash, and hashes need a version."""
    seen: dict[str, int] = {}
    for number, line in enumerate(packages_of(context.run)):
        where, match = context.locate.run(f"/workload/packages/{number}"), _PINNED.fullmatch(line)
        name = re.sub(r"[-_.]+", "-", match["name"]).lower() if match else ""
        if match is None or "*" in line.split(";")[0]:
            fix = "write NAME==VERSION --hash=sha256:…, as `uv pip compile --generate-hashes` prints it, on one line"
            yield found("TW485", where, f"{line.split(' --hash')[0]} is not one version of one package", fix)
        elif not match["hashes"] or not all(_HASH.fullmatch(one) for one in match["hashes"].split()):
            fix = "add --hash=sha256: and the 64 digits, as `uv pip compile --generate-hashes` or `pip hash FILE` prints them"
            yield found("TW485", where, f"{match['name']} has no hash that pip could check it by", fix)
        elif seen.setdefault(name, number) != number and not match[0].partition(";")[2]:
            yield found("TW485", where, f"{match['name']} is there twice, which pip refuses", "keep one of the two")


def reach_the_program(context: Context) -> Iterator[Finding]:
    """From an index that the platform team names, into a folder where Python looks."""
    packages, path = packages_of(context.run), context.run.env.get("PYTHONPATH")
    if packages and context.cluster.package_index is None:
        message = f"the profile of cluster {context.cluster.cluster} names no index that packages could come from"
        fix = "put them into the image, or ask the platform team for package_index in the profile"
        yield found("TW486", context.locate.run("/workload/packages"), message, fix)
    if packages and path is not None and not (isinstance(path, str) and FOLDER in path.split(":")):
        message = f"PYTHONPATH of the run takes the place of {FOLDER}, where the packages are"
        yield found("TW486", context.locate.run("/env/PYTHONPATH"), message, f"write {FOLDER} in it too, before a colon")


RUN = (are_pinned, reach_the_program)
