"""Plain scalars that kubectl and Argo CD read otherwise than YAML 1.2.

Both use sigs.k8s.io/yaml, which follows YAML 1.1 in places (goyaml.v2/resolve.go): ``yes`` and ``on`` are true there, ``0644`` is
420, ``1_000`` is 1000. A validator that read them by YAML 1.2 would validate another object than the one that is applied.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.findings import Finding, Where
from trainwright.findings.codes import found
from trainwright.reading.scalar import Scalar, ScalarError, read_scalar
from trainwright.reading.shape import literal

_WORDS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_GO_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")
_GO_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SUSPECT = re.compile(rf"(?<![\w\"'.])(?:{'|'.join(_WORDS)}|[-+]?0[0-9a-zA-Z_]\w*|[-+]?[0-9][\w.+-]*_[\w.+-]*)(?![\w\"'.])")


def ambiguous_scalars(text: str, file: str) -> Iterator[Finding]:
    """A finding for each such scalar of a YAML text that can be parsed."""
    if not _SUSPECT.search(text):
        return  # parsing takes a hundred times as long
    from ruamel.yaml import YAML

    for event in YAML(typ="safe", pure=True).parse(text):
        if type(event).__name__ != "ScalarEvent" or event.style or event.tag or not differs(event.value):
            continue
        where = Where(file, event.start_mark.line + 1, event.start_mark.column + 1)
        meaning = literal(read_by_kubectl(event.value))
        fix = f'write {meaning}, or "{event.value}" in quotes if it is text'
        yield found("TW712", where, f"kubectl and Argo CD read {event.value} as {meaning}", fix)


def differs(scalar: str) -> bool:
    """Whether kubectl makes another value of a plain scalar than YAML 1.2."""
    try:
        ours = read_scalar(scalar)
    except ScalarError:
        return False  # refused already
    theirs = read_by_kubectl(scalar)
    return ours != theirs or isinstance(ours, bool) != isinstance(theirs, bool)


def read_by_kubectl(scalar: str) -> Scalar:
    """The value of a plain scalar that is no null, as goyaml.v2 resolves it. A date stays text."""
    if scalar in _WORDS:
        return _WORDS[scalar]
    if not scalar or scalar[0] not in "+-0123456789":
        return read_scalar(scalar)
    plain = scalar.replace("_", "")
    if number := _GO_INTEGER.fullmatch(plain):
        sign, *digits = number.groups()
        value = next(int(text, base) for text, base in zip(digits, (16, 2, 8, 10), strict=True) if text)
        return -value if sign == "-" else value
    return float(plain) if _GO_FLOAT.fullmatch(plain) else scalar
