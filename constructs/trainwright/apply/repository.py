"""What git says of a project that is to be applied: which one it is, at which commit, and whether all of it is committed."""

from __future__ import annotations

import re
from pathlib import Path

from trainwright.review.side import READ, SideError, commit_of, git

CHARTS = "charts"


def commit(root: Path) -> str:
    """The commit whose files are applied.

    Raises:
        SideError: where there is none, or where the files are not those of the commit.
    """
    found = commit_of(root, "HEAD")
    if found is None:
        raise SideError(f"{root} has no commit: what is applied is what was reviewed, so commit it to git first")
    changed = git(root, "status", "--porcelain", "--untracked-files=all", "--", CHARTS, READ[1]).decode().splitlines()
    if changed:
        names = ", ".join(line[3:] for line in changed[:3]) + (f" and {len(changed) - 3} more" if len(changed) > 3 else "")
        raise SideError(f"not committed: {names}; what is applied is what was reviewed, so commit it, or take it back")
    return found


def project_name(root: Path) -> str:
    """What tells this project from others that may apply to the same namespace: its repository, and its folder there.

    The address is that of the remote ``origin`` without scheme, user and ``.git``, so that each clone has the same.

    Raises:
        SideError: where there is no such remote.
    """
    try:
        url = git(root, "remote", "get-url", "origin").decode().strip()
    except SideError as error:
        raise SideError(
            "this repository has no remote `origin`, by which its objects in a cluster are told from those of other projects: "
            "`git remote add origin URL`"
        ) from error
    address = re.sub(r"^[a-z+]+://", "", url)
    address = re.sub(r"^[^@/]*@", "", address).replace(":", "/", 0 if "://" in url else 1)
    folder = git(root, "rev-parse", "--show-prefix").decode().strip().rstrip("/")
    return "/".join(filter(None, (address.rstrip("/").removesuffix(".git").lower(), folder)))
