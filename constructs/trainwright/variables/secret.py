"""What looks like a secret: by its form, or by the name of the variable that has it."""

from __future__ import annotations

import re

_WORDS = r"TOKEN|PASSWORD|PASSWD|PASSPHRASE|PSK|SECRET|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS"
SECRET_NAME = re.compile(rf"(^|_)({_WORDS})($|_)", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"\b(hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{20,}|glpat-[\w-]{20,}|sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[\w-]{10,}"
    r"|A(KI|SI)A[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----|://[^/\s:@]+:[^/\s@$]+@"
)
"""Forms of well-known tokens and keys, and a password in an address."""
ASSIGNED_SECRET = re.compile(
    rf"""(?P<before>\b[A-Z0-9_]*(?:{_WORDS})[\\"'\]]*\s*[=:]\s*[\\"']*)"""
    r"(?:[0-9a-f]{32,}|(?=\w*[A-Z])(?=\w*[a-z])(?=\w*[0-9])[A-Za-z0-9_+]{20,})\b"
)
"""What a command, a script or JSON gives a variable that is called like a secret: hexadecimal, or of mixed letters and digits."""


def has_secret(text: str) -> bool:
    """Whether a text has the form of a secret, or something of that form in it."""
    return bool(_SECRET_VALUE.search(text) or ASSIGNED_SECRET.search(text))


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable's value must not be repeated."""
    return bool(SECRET_NAME.search(name)) or has_secret(value)
