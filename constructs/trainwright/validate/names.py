"""The forms that the API server demands of names, labels and keys (apimachinery, pkg/util/validation/validation.go)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainwright.findings.locate import escape
from trainwright.validate.problem import Problem

LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
MOST_ANNOTATIONS = 256 * 1024
"""Bytes, all keys and values of an object together."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1123_LABEL = re.compile(_LABEL)
_DNS_1123_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DNS_FORM = "lower case letters, digits and dashes, with a letter or digit first and last"


def not_a_label(name: str) -> str:
    """Why a name is no DNS label (RFC 1123), or nothing."""
    if len(name) > LONGEST_LABEL:
        return f"has {len(name)} characters, and {LONGEST_LABEL} are allowed"
    return "" if _DNS_1123_LABEL.fullmatch(name) else f"must be {_DNS_FORM}"


def not_a_service_label(name: str) -> str:
    """Why a name is no DNS label that starts with a letter (RFC 1035), or nothing."""
    if len(name) > LONGEST_LABEL:
        return f"has {len(name)} characters, and {LONGEST_LABEL} are allowed"
    form = "lower case letters, digits and dashes, with a letter first and a letter or digit last"
    return "" if _DNS_1035_LABEL.fullmatch(name) else f"must be {form}"


def not_a_subdomain(name: str) -> str:
    """Why a name is no DNS subdomain (RFC 1123), or nothing."""
    if len(name) > LONGEST_SUBDOMAIN:
        return f"has {len(name)} characters, and {LONGEST_SUBDOMAIN} are allowed"
    return "" if _DNS_1123_SUBDOMAIN.fullmatch(name) else f"must be {_DNS_FORM}, in parts between dots"


def not_qualified(key: str) -> str:
    """Why a text is no key of a label or annotation, or nothing."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or not_a_subdomain(prefix)):
        return "has a prefix that is no DNS name"
    if len(name) > LONGEST_LABEL:
        return f"has {len(name)} characters after the prefix, and {LONGEST_LABEL} are allowed"
    return (
        ""
        if _QUALIFIED.fullmatch(name)
        else "must be letters, digits, dashes, dots and underscores, with a letter or digit first and last"
    )


def not_a_label_value(value: str) -> str:
    """Why a text cannot be a label's value, or nothing."""
    return not_qualified(value) if value and "/" not in value else "must not have a slash" if value else ""


def label_problems(labels: object, pointer: str) -> Iterator[Problem]:
    """Keys and values that the API server refuses in a mapping of labels."""
    if not isinstance(labels, Mapping):
        return
    for key, value in labels.items():
        place = f"{pointer}/{escape(key)}"
        if reason := not_qualified(key):
            yield Problem("TW705", place, f"label key {key} {reason}", "write a key such as example.com/team")
        if isinstance(value, str) and (reason := not_a_label_value(value)):
            yield Problem("TW705", place, f"label {key} is {value!r}, which {reason}", "write a shorter or simpler value")


def annotation_problems(annotations: object, pointer: str) -> Iterator[Problem]:
    """Keys that the API server refuses in a mapping of annotations, and more text than it takes."""
    if not isinstance(annotations, Mapping):
        return
    for key in annotations:
        if reason := not_qualified(key.lower()):
            place = f"{pointer}/{escape(key)}"
            yield Problem("TW705", place, f"annotation key {key} {reason}", "write a key such as example.com/team")
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items() if isinstance(value, str))
    if size > MOST_ANNOTATIONS:
        fix = "keep large texts in a ConfigMap"
        yield Problem("TW705", pointer, f"the annotations hold {size:,} bytes, and {MOST_ANNOTATIONS:,} are allowed", fix)
