"""Rules of CRDs: every one compiles, and they say what the API server would say."""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.validate.samples import UPSTREAM, Data, upstream

from trainwright.objects.cel import CRD_RULES, BreaksError, CannotEvaluateError, replace_identifier, without_texts
from trainwright.validate.cel_rules import escaped, expression, rule_problems, rules_in


def said(rule: Data, value: Any, **schema: Any) -> list[tuple[str, str]]:
    made = {"x-kubernetes-validations": [rule], **schema}
    return [(problem.code, problem.pointer) for problem in rule_problems(value, made)]


if UPSTREAM:

    def test_every_rule_of_the_crds_compiles() -> None:
        """Transition rules compare with the object before: there is none when an object is created."""
        rules = [
            rule for crd in upstream().crds.values() for version in crd.versions.values() for rule in rules_in(version.schema)
        ]
        evaluated = [text for rule in rules if (text := expression(rule)) is not None]
        for text in evaluated:
            CRD_RULES.compile(text)
        assert (len(rules), len(evaluated), len(set(evaluated))) == (102, 56, 29)


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("self.a >= self.b", {"a": 2, "b": 1}, {"a": 1, "b": 2}),
        ("!has(self.a) || has(self.b)", {}, {"a": 1}),
        ("self.items.all(x, x.n > 0)", {"items": [{"n": 1}]}, {"items": [{"n": 0}]}),
        ("self.items.exists(x, x == 2)", {"items": [1, 2]}, {"items": [1]}),
        ("self.items.map(x, x * 2).exists_one(x, x == 4)", {"items": [2, 3]}, {"items": [2, 2]}),
        ("self.items.filter(x, x > 1).size() == 1", {"items": [1, 2]}, {"items": [2, 2]}),
        ("self.a in ['x', 'y']", {"a": "x"}, {"a": "z"}),
        ("self.name.matches('^[a-z]+$')", {"name": "a"}, {"name": "a\n"}),
        ("self.name.startsWith('a') ? size(self.name) <= 2 : true", {"name": "ab"}, {"name": "abc"}),
        ("self.name.split('-').size() == 2 && self.name.lowerAscii() == self.name", {"name": "a-b"}, {"name": "A-b"}),
        ("self.items.isSorted() && self.items.sum() < 10", {"items": [1, 2]}, {"items": [2, 1]}),
        ("self.items.min() == 1 && self.items.max() == 3 && self.items.indexOf(3) == 1", {"items": [1, 3]}, {"items": [3, 1]}),
        ("self.items.lastIndexOf('a') == 1", {"items": ["a", "a"]}, {"items": ["b"]}),
        ("self.name.find('[0-9]+') == '12' && self.name.findAll('[a-z]').size() == 2", {"name": "a12b"}, {"name": "12"}),
        ("isURL(self.url)", {"url": "https://example.com/x"}, {"url": "x y"}),
        ("isIP(self.ip) || isCIDR(self.ip)", {"ip": "10.0.0.0/8"}, {"ip": "ten"}),
        ("isQuantity(self.q)", {"q": "8Gi"}, {"q": "8GiB"}),
        ("self.?a.orValue(1) == 1", {}, {"a": 2}),
        ("type(self.a) == int ? self.a < 5 : self.a == 'x'", {"a": 3}, {"a": "y"}),
    ],
)
def test_what_a_rule_says(rule: str, good: Data, bad: Data) -> None:
    assert said({"rule": rule}, good) == []
    assert said({"rule": rule}, bad) == [("TW707", "")]


def test_a_rule_that_fails_on_a_value_is_broken_as_in_the_api_server() -> None:
    assert said({"rule": "self.a > 0"}, {}) == [("TW707", "")]
    assert said({"rule": "self[3] > 0"}, [1]) == [("TW707", "")]
    with pytest.raises(BreaksError, match="a"):
        CRD_RULES.compile("self.a > 0")({"self": {}})


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("self.filter(", {}),
        ("quantity(self.a).isGreaterThan(quantity('1'))", {"a": "2"}),
        ("undeclared > 1", {}),
        ("self.a > 1", {"a": "x"}),
        ("self.a.find('(?=x)') == ''", {"a": "x"}),
        ("self.a.find('x$') == 'x'", {"a": "x\n"}),
    ],
)
def test_what_cannot_be_evaluated_is_reported_and_never_passed_over(rule: str, value: Data) -> None:
    assert said({"rule": rule}, value) == [("TW708", "")]


def test_times_are_not_compared_as_texts() -> None:
    properties = {
        "properties": {"start": {"type": "string", "format": "date-time"}, "end": {"type": "string", "format": "date-time"}}
    }
    times = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:00+01:00"}
    assert said({"rule": "self.start < self.end"}, times, **properties) == [("TW708", "")]
    assert said({"rule": "has(self.start)"}, times, **properties) == []
    assert said({"rule": "self > timestamp('2026-01-01T00:00:00Z')"}, times["end"], type="string", format="date-time") == [
        ("TW708", "")
    ]


def test_the_place_and_the_words_are_the_rules_own() -> None:
    rule = {"rule": "false", "message": " too bad ", "fieldPath": ".spec['a/b'].c"}
    (problem,) = rule_problems({}, {"x-kubernetes-validations": [rule]})
    assert problem.pointer == "/spec/a~1b/c"
    assert problem.message.endswith(": too bad")


def test_rules_stand_anywhere_in_a_schema() -> None:
    whole = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]}
    schema = {
        "properties": {"a": whole, "list": {"items": whole}, "map": {"additionalProperties": whole}},
        "allOf": [{"x-kubernetes-validations": [{"rule": "has(self.a)"}]}],
    }
    found = [problem.pointer for problem in rule_problems({"a": 0, "list": [1, 0], "map": {"x/y": 0}}, schema)]
    assert found == ["/a", "/list/1", "/map/x~1y"]
    assert [problem.pointer for problem in rule_problems({}, schema)] == [""]
    assert len(list(rules_in(schema))) == 4


def test_transition_rules_wait_for_a_change() -> None:
    assert expression({"rule": "self == oldSelf"}) is None
    assert said({"rule": "self.a == oldSelf.a"}, {}) == []
    assert expression({"rule": "self.oldSelf == 'oldSelf'"}) == "self.oldSelf == 'oldSelf'"
    optional = {"rule": "!oldSelf.hasValue() || self.a == oldSelf.value().a", "optionalOldSelf": True}
    assert said(optional, {"a": 1}) == []
    assert said({"rule": "oldSelf.hasValue()", "optionalOldSelf": True}, {}) == [("TW707", "")]


def test_numbers_have_the_type_of_their_schema() -> None:
    assert said({"rule": "type(self.a) == double"}, {"a": 1}, properties={"a": {"type": "number"}}) == []
    assert said({"rule": "type(self.a) == int"}, {"a": 1.0}, properties={"a": {"type": "integer"}}) == []
    assert said({"rule": "self.a == b'ab'"}, {"a": "YWI="}, properties={"a": {"type": "string", "format": "byte"}}) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", "plain"),
        ("a-b", "a__dash__b"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("in", "__in__"),
    ],
)
def test_fields_have_the_names_that_rules_write(name: str, expected: str) -> None:
    assert escaped(name) == expected
    assert said({"rule": f"self.{expected} == 1"}, {name: 1}) == []


def test_texts_in_a_rule_are_no_identifiers() -> None:
    assert without_texts(r"""self.matches('old\'Self') && "x" == r'y'""") == "self.matches('') && '' == ''"
    assert replace_identifier("oldSelf.a == 'oldSelf' && self.oldSelf", "oldSelf", "x") == "x.a == 'oldSelf' && self.oldSelf"


def test_a_compile_error_says_what_is_missing() -> None:
    with pytest.raises(CannotEvaluateError, match=r"^undeclared reference to 'quantity'$"):
        CRD_RULES.compile("quantity(self) == 1")
