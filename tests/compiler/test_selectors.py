"""What selectors of labels mean."""

from __future__ import annotations

import pytest

from trainwright.objects.selectors import meets, selects

LABELS = {"gpu": "h100", "count": "8", "floor": "-1"}


@pytest.mark.parametrize(("key", "operator", "values", "true"), [
    ("gpu", "In", ["h100", "h200"], True), ("gpu", "In", ["h200"], False), ("zone", "In", ["a"], False),
    ("gpu", "NotIn", ["h100"], False), ("zone", "NotIn", ["a"], True),
    ("gpu", "Exists", [], True), ("zone", "Exists", [], False),
    ("gpu", "DoesNotExist", [], False), ("zone", "DoesNotExist", [], True),
    ("count", "Gt", ["7"], True), ("count", "Gt", ["8"], False), ("count", "Lt", ["9"], True), ("count", "Lt", ["8"], False),
    ("floor", "Lt", ["0"], True), ("gpu", "Gt", ["0"], False), ("zone", "Lt", ["1"], False),
])  # fmt: skip
def test_an_expression(key: str, operator: str, values: list[str], *, true: bool) -> None:
    assert meets({"key": key, "operator": operator, "values": values}, LABELS) is true


def test_a_selector_asks_for_all_that_it_says() -> None:
    there = {"key": "count", "operator": "Exists"}
    assert selects({}, LABELS)
    assert selects({"matchLabels": {"gpu": "h100"}, "matchExpressions": [there]}, LABELS)
    assert not selects({"matchLabels": {"gpu": "h200"}, "matchExpressions": [there]}, LABELS)
    assert not selects({"matchLabels": {"gpu": "h100"}, "matchExpressions": [{**there, "key": "zone"}]}, LABELS)
