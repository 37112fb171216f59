"""The quick look at objects of Kubernetes' own kinds: what it lets pass, jsonschema lets pass too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st
from referencing import Registry, Resource
from tests.compiler.validate.samples import KUBERNETES, ROOT, Data, drop, names, pointers, put, sample

from trainwright.findings.locate import at
from trainwright.validate.core_schemas import definitions, schema_of, versions
from trainwright.validate.fits import KEYWORDS, fits
from trainwright.validate.manifests import read_manifests

OWN = names(custom=False)
FIELDS = sorted({field for one in definitions(KUBERNETES)["$defs"].values() for field in one.get("properties", {})})
VALUES: list[Any] = [
    None, True, 0, -1, 1, 2.0, 2.5, 2**40, "", "x", "1", "Never", "a b", "10Gi", [], [None], ["x"], [{}], {}, {"x": "y"},
]  # fmt: skip


def fits_quickly(manifest: Data) -> bool:
    schema = schema_of(manifest["kind"], manifest["apiVersion"], KUBERNETES)
    return fits(manifest, schema, definitions(KUBERNETES)["$defs"])


def is_valid(manifest: Data) -> bool:
    schema = schema_of(manifest["kind"], manifest["apiVersion"], KUBERNETES)
    registry: Registry[Any] = Resource.from_contents(definitions(KUBERNETES)) @ Registry()
    return bool(jsonschema.Draft202012Validator(schema, registry=registry).is_valid(manifest))


@pytest.mark.parametrize("name", OWN)
def test_a_valid_object_needs_no_second_look(name: str) -> None:
    assert fits_quickly(sample(name))


@pytest.mark.slow
def test_nor_does_any_in_dist() -> None:
    for path in sorted((ROOT / "dist").rglob("*.yaml")):
        for manifest in read_manifests(path)[0]:
            if f"{manifest.data['kind']} {manifest.data['apiVersion']}" in OWN:
                assert fits_quickly(manifest.data), path


@given(data=st.data())
def test_what_passes_the_quick_look_is_valid(data: st.DataObject) -> None:
    """Up to three places of an object, or fields beside them, with any value or none."""
    manifest = sample(data.draw(st.sampled_from(OWN)))
    for _ in range(data.draw(st.integers(1, 3))):
        pointer = data.draw(st.sampled_from([it for it in pointers(manifest) if it not in ("", "/kind", "/apiVersion")]))
        if data.draw(st.booleans()):
            drop(manifest, pointer)
            continue
        if isinstance(at(manifest, pointer.rpartition("/")[0]), dict) and data.draw(st.booleans()):
            pointer = f"{pointer.rpartition('/')[0]}/{data.draw(st.sampled_from(FIELDS))}"
        if pointer not in ("/kind", "/apiVersion"):
            put(manifest, pointer, data.draw(st.sampled_from(VALUES)))
    assert not fits_quickly(manifest) or is_valid(manifest)


def test_it_reads_every_keyword_of_every_version() -> None:
    """One that is new in the library costs time, and no wrong answer."""
    for version in versions():
        for name, definition in definitions(version)["$defs"].items():
            assert set(keywords(definition)) <= KEYWORDS, name


def keywords(schema: Data) -> Iterator[str]:
    yield from schema
    below = [*schema.get("properties", {}).values(), *(schema.get(name) for name in ("items", "additionalProperties"))]
    for part in (part for part in below if isinstance(part, dict)):
        yield from keywords(part)


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (1, {"const": 1}), ("x", {"minLength": 1}), ({"a": 1}, {"patternProperties": {"a": {}}}),
        (2.0, {"type": "integer"}), (1, {"oneOf": [{"type": "integer"}, {"minimum": 0}]}), (True, {"enum": [1]}),
    ],
)  # fmt: skip
def test_a_doubt_is_no_yes(value: object, schema: Data) -> None:
    assert not fits(value, schema, {})
