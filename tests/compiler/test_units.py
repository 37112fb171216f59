"""Durations, bytes and CPUs: what is read, what is printed, what is refused with which advice."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from trainwright.units import Bytes, Cpu, Duration, UnitError

Quantity = type[Bytes] | type[Cpu] | type[Duration]


@given(st.integers(1, Duration.LONGEST))
def test_duration_survives_both_of_its_texts(seconds: int) -> None:
    duration = Duration(seconds)
    assert Duration.parse(str(duration)) == duration
    assert Duration.parse(duration.canonical) == duration


ROUND = st.integers(1, 2**13).map(lambda n: n * 2**30) | st.integers(1, 9000).map(lambda n: n * 10**9)
COUNTS = st.integers(1, Bytes.LARGEST) | ROUND


@given(COUNTS)
def test_bytes_survive_their_text(count: int) -> None:
    assert Bytes.parse(str(Bytes(count))) == Bytes(count)


@given(st.integers(1, Cpu.LARGEST))
def test_cpu_survives_its_text(millicores: int) -> None:
    assert Cpu.parse(str(Cpu(millicores))) == Cpu(millicores)


@given(COUNTS)
def test_bytes_print_as_the_api_server_keeps_them(count: int) -> None:
    """The number has no factor left that a larger suffix of its own kind would take (Quantity.CanonicalizeBytes)."""
    match = re.fullmatch(r"([0-9]+)([A-Za-z]*)", str(Bytes(count)))
    assert match is not None
    assert match[2].endswith("i") or int(match[1]) % 1000
    assert not match[2].endswith("i") or int(match[1]) % 1024


@pytest.mark.parametrize(
    ("kind", "written", "kept"),
    [
        (Duration, "30m", "30m"), (Duration, "1h30m", "1h30m"), (Duration, "90s", "1m30s"), (Duration, "1.5h", "1h30m"),
        (Duration, "30 min", "30m"), (Duration, " 2d ", "2d"),
        (Bytes, "256Gi", "256Gi"), (Bytes, 268435456, "256Mi"), (Bytes, "1024Mi", "1Gi"), (Bytes, "1.5Gi", "1536Mi"),
        (Bytes, "1G", "1G"), (Bytes, "1000M", "1G"), (Bytes, "1T", "1T"), (Bytes, "100", "100"), (Bytes, "0.5Ki", "512"),
        (Cpu, "500m", "500m"), (Cpu, "2", "2"), (Cpu, 4, "4"), (Cpu, "1.5", "1500m"), (Cpu, 0.5, "500m"), (Cpu, "2000m", "2"),
        (Cpu, 1000, "1k"),
    ],
)
def test_canonical_form(kind: Quantity, written: object, kept: str) -> None:
    assert kind.parse(written).canonical == kept


def test_a_duration_prints_for_people() -> None:
    assert str(Duration.parse("30m")) == "30 min"
    assert str(Duration.parse("1h30m")) == "1 h 30 min"


@pytest.mark.parametrize(
    ("kind", "written", "advice"),
    [
        (Duration, "45", "write 45s, 45m or 45h"), (Duration, 45, "write 45s, 45m or 45h"), (Duration, "30 minutes", "write 30m"),
        (Duration, "1m1h", "from long to short"), (Duration, "500ms", "whole seconds"), (Duration, "0.5s", "whole seconds"),
        (Duration, "0s", "at least 1s"), (Duration, "101d", "at most 100d"), (Duration, "", "such as"),
        (Duration, True, "such as"),
        (Duration, "٣m", "90s, 30m"), (Duration, "1" * 100 + "s", "such as"), (Duration, None, "such as"),
        (Bytes, "80GB", "write 80Gi, or 80G"), (Bytes, "80 GiB", "write 80Gi"),
        (Bytes, "512m", "write 512Mi .m means thousandths"),
        (Bytes, "0.1Gi", "write 102Mi"), (Bytes, 1e9, "write 1G"), (Bytes, "1Ei", "at most 8Pi"), (Bytes, 0, "at least 1 byte"),
        (Bytes, True, "such as"), (Bytes, "-1", "such as"), (Bytes, "12x", "such as 12Mi"), (Bytes, [1], "such as"),
        (Cpu, "4Gi", "such as 500m"), (Cpu, "0.0001", "write 1m"), (Cpu, 0, "at least 1m"), (Cpu, -3, "at least 1m"),
        (Cpu, 10**30, "at most 100k"), (Cpu, float("nan"), "such as 500m"), (Cpu, True, "such as 500m"),
        (Cpu, {}, "such as 500m"),
    ],
)
def test_refused_with_advice(kind: Quantity, written: object, advice: str) -> None:
    with pytest.raises(UnitError) as refusal:
        kind.parse(written)
    assert re.search(advice, refusal.value.fix)


@given(st.sampled_from([Bytes, Cpu, Duration]), st.text() | st.floats() | st.integers() | st.none() | st.lists(st.integers()))
def test_anything_is_a_quantity_or_a_refusal(kind: Quantity, written: object) -> None:
    try:
        quantity = kind.parse(written)
    except UnitError as error:
        fix = error.fix
    else:
        assert kind.parse(quantity.canonical) == quantity
        fix = "none needed"
    assert fix


class Pod(BaseModel):
    memory: Bytes
    cpu: Cpu
    grace: Duration


def test_in_a_model() -> None:
    pod = Pod.model_validate_json('{"memory": "8Gi", "cpu": 2, "grace": "30m"}', strict=True)
    assert pod.memory < Bytes.parse("9Gi")
    assert json.loads(pod.model_dump_json()) == {"memory": "8Gi", "cpu": "2", "grace": "30m"}
    assert pod.model_dump() == {"memory": "8Gi", "cpu": "2", "grace": "30m"}
    assert Pod.model_validate(pod.model_dump()) == pod


@given(st.sampled_from(["30m", "1h30m", "90s", "1 h 30 min", "1.5d"]))
def test_the_schema_of_a_duration_knows_what_is_read(written: str) -> None:
    schema = Pod.model_json_schema()["properties"]["grace"]
    assert re.search(schema["pattern"], written)
    assert all(Duration.parse(example) for example in schema["examples"])
