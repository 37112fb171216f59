"""CEL, the language of x-kubernetes-validations, by Google's own library; and RE2, which comes with it.

The API server runs cel-go. cel-cpp, which this package binds, is its sibling: same parser grammar, same checker, same conformance
tests, and the same RE2 regular expressions. Loading takes 50 ms, so nothing here is imported before a rule or a pattern needs it.

The functions that the API server adds to CEL (apiserver, pkg/cel/library) are here: lists, regular expressions, URLs,
addresses. A rule with a function that is not here, such as arithmetic on quantities, cannot be evaluated, and is reported as
such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from inspect import signature
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from trainwright.objects.formats import FORMATS

NOT_SUPPORTED = "not supported here:"
"""Start of the message where a function of the API server has an argument that ours cannot treat in the same way."""

_TEXT = re.compile(r"""(r?"(?:\\.|[^"\\])*"|r?'(?:\\.|[^'\\])*')""")
_UNLIKE_RE2 = re.compile(r"\\[zZAQEpPC]|\[\[:|\(\?(?![:P])|[*+?}]\+")
"""What Python's ``re`` reads differently from RE2, or not at all."""


class CannotEvaluateError(Exception):
    """The library cannot evaluate this: nothing is known about the value."""


class BreaksError(Exception):
    """The rule itself fails on this value, as it would in the API server: a missing key, a division by zero."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    expression: Any

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The result for the values of the variables.

        Raises:
            BreaksError: the expression fails on the value.
            CannotEvaluateError: a function of the API server that is not there, or a value that has no counterpart.
        """
        from cel_expr_python import cel

        try:
            result = self.expression.eval(data=dict(values))
        except Exception as error:  # the binding raises several kinds, AssertionError among them
            raise CannotEvaluateError(str(error)) from error
        if result.type() == cel.Type.ERROR:
            reason = str(result.value())
            if "No matching overloads" in reason or NOT_SUPPORTED in reason:
                # the API server's checker would have refused the rule with its CRD, so the difference is ours
                raise CannotEvaluateError(reason)
            raise BreaksError(reason.partition(": ")[2] or reason)
        return result.plain_value()


class Language:
    """CEL as CRDs have it since Kubernetes 1.29: optionals, strings, and the API server's own functions.

    Args:
        variables: names that expressions read, with values of any type.
        more: functions that expressions may call besides.
    """

    def __init__(self, variables: Iterable[str], more: Mapping[str, Callable[..., Any]] = MappingProxyType({})) -> None:
        self.names = frozenset(variables)
        self._more = more
        self._programs: dict[str, Program] = {}

    def compile(self, text: str) -> Program:
        """An expression over the variables.

        Raises:
            CannotEvaluateError: it cannot be parsed, or uses what the library does not have.
        """
        if text not in self._programs:
            try:
                self._programs[text] = Program(self._environment.compile(text))
            except Exception as error:
                reason = re.search(r"ERROR: <input>:[0-9]+:[0-9]+: (.+?)(?: \(in container|$)", str(error), re.MULTILINE)
                raise CannotEvaluateError(reason[1] if reason else " ".join(str(error).split())) from error
        return self._programs[text]

    @cached_property
    def _environment(self) -> Any:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_optional, ext_strings

        # Ours last: it adds lists to `indexOf`, which strings declare, and only an extension may add to a function.
        own = [_global(name, implementation) for name, implementation in self._more.items()]
        extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional(), cel.CelExtension("kubernetes", [*functions(), *own])]
        return cel.NewEnv(variables=dict.fromkeys(self.names, cel.Type.DYN), extensions=extensions)


CRD_RULES = Language(("self",))
"""What rules of CRDs are written in."""


@cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text has a match of an RE2 pattern anywhere in it.

    Python's ``re`` differs from Go's regexp, which the API server uses. In Python ``$`` also matches before a last newline,
    ``\\d`` and ``\\w`` every script's digits and letters, and ``(?i)`` within a pattern is an error. In RE2 lookaheads are one.

    Raises:
        CannotEvaluateError: it is not an RE2 pattern.
    """
    from cel_expr_python import cel

    program = Program(_matching().compile("text.matches(pattern)"))
    if program.expression.eval(data={"text": "", "pattern": pattern}).type() == cel.Type.ERROR:
        raise CannotEvaluateError(f"{pattern} is not an RE2 pattern")
    return lambda text: bool(program({"text": text, "pattern": pattern}))


@cache
def _matching() -> Any:
    from cel_expr_python import cel

    return cel.NewEnv(variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})


def without_texts(rule: str) -> str:
    """A rule with its string literals emptied, so that identifiers can be looked for."""
    return _TEXT.sub("''", rule)


def replace_identifier(rule: str, name: str, value: str) -> str:
    """A rule with an identifier replaced everywhere but inside string literals."""
    parts = _TEXT.split(rule)
    return "".join(part if index % 2 else re.sub(rf"(?<![.\w]){name}\b", value, part) for index, part in enumerate(parts))


def functions() -> list[Any]:
    """Declarations with implementations for :func:`cel.NewEnv`."""
    from cel_expr_python.cel import FunctionDecl, Overload, Type

    anything, texts = Type.List(Type.DYN), Type.List(Type.STRING)

    def of_list(name: str, implementation: Any, result: Any, *more: Any) -> Any:
        overload = Overload(f"list_{name}", result, [anything, *more], is_member=True, impl=implementation)
        return FunctionDecl(name, [overload])

    def of_text(name: str, implementation: Any, result: Any = Type.BOOL) -> Any:
        return FunctionDecl(name, [Overload(f"{name}_string", result, [Type.STRING], is_member=False, impl=implementation)])

    def in_text(name: str, result: Any, *overloads: tuple[Any, Any]) -> Any:
        made = [
            Overload(f"string_{name}_{len(more)}", result, [Type.STRING, *more], is_member=True, impl=implementation)
            for implementation, more in overloads
        ]
        return FunctionDecl(name, made)

    return [
        of_list("isSorted", lambda items: all(a <= b for a, b in pairwise(items)), Type.BOOL),
        of_list("sum", sum, Type.DYN),
        of_list("min", min, Type.DYN),
        of_list("max", max, Type.DYN),
        of_list("indexOf", lambda items, item: items.index(item) if item in items else -1, Type.INT, Type.DYN),
        of_list("lastIndexOf", _last_index, Type.INT, Type.DYN),
        in_text("find", Type.STRING, (_find, [Type.STRING])),
        in_text("findAll", texts, (_find_all, [Type.STRING]), (_find_all, [Type.STRING, Type.INT])),
        of_text("isURL", FORMATS["uri"]),
        of_text("isQuantity", FORMATS["quantity"]),
        of_text("isIP", lambda text: FORMATS["ipv4"](text) or FORMATS["ipv6"](text)),
        of_text("isCIDR", FORMATS["cidr"]),
    ]


def _global(name: str, implementation: Callable[..., Any]) -> Any:
    """A function of ours, of values of any type."""
    from cel_expr_python.cel import FunctionDecl, Overload, Type

    takes = [Type.DYN] * len(signature(implementation).parameters)
    return FunctionDecl(name, [Overload(f"{name}_any", Type.DYN, takes, is_member=False, impl=implementation)])


def _last_index(items: list[Any], item: Any) -> int:
    return next((index for index in reversed(range(len(items))) if items[index] == item), -1)


def _find(text: str, pattern: str) -> str:
    match = _compiled(text, pattern).search(text)
    return match[0] if match else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [match[0] for match in _compiled(text, pattern).finditer(text)]
    return found if most < 0 else found[:most]


def _compiled(text: str, pattern: str) -> re.Pattern[str]:
    """The pattern for Python's ``re``, where both read it alike; an error, and so a report, where they do not."""
    if _UNLIKE_RE2.search(pattern) or ("$" in pattern and "\n" in text):
        raise ValueError(f"{NOT_SUPPORTED} a search for {pattern} as RE2 does it")
    return re.compile(pattern, re.ASCII)
