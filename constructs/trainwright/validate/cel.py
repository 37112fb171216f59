"""CEL, the language of x-kubernetes-validations, by Google's own library; and RE2, which comes with it.

The API server runs cel-go. cel-cpp, which this package binds, is its sibling: same parser grammar, same checker, same conformance
tests, and the same RE2 regular expressions. Loading takes 50 ms, so nothing here is imported before a rule or a pattern needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

NOT_HERE = "not known here:"
"""In the message of a function that the API server has, for an argument that ours cannot treat as it does."""


class CannotEvaluateError(Exception):
    """The library cannot evaluate this: nothing is known about the value."""


class BreaksError(Exception):
    """The rule itself fails on this value, as it would in the API server: a missing key, a division by zero."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression over ``self``."""

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
            if "No matching overloads" in reason or NOT_HERE in reason:
                # the API server's checker would have refused the rule with its CRD, so the difference is ours
                raise CannotEvaluateError(reason)
            raise BreaksError(reason.partition(": ")[2] or reason)
        return result.value()


@cache
def compile_rule(text: str) -> Program:
    """A rule over ``self``.

    Raises:
        CannotEvaluateError: it cannot be parsed, or uses what the library does not have.
    """
    try:
        return Program(_environment().compile(text))
    except Exception as error:
        reason = re.search(r"ERROR: <input>:[0-9]+:[0-9]+: (.+?)(?: \(in container|$)", str(error), re.MULTILINE)
        raise CannotEvaluateError(reason[1] if reason else " ".join(str(error).split())) from error


@cache
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text has a match of an RE2 pattern anywhere in it.

    Python's ``re`` differs from Go's regexp, which the API server uses. In Python ``$`` also matches before a last newline,
    ``\\d`` and ``\\w`` every script's digits and letters, and ``(?i)`` within a pattern is an error. In RE2 lookaheads are one.

    Raises:
        CannotEvaluateError: it is no RE2 pattern.
    """
    from cel_expr_python import cel

    program = Program(_matching().compile("text.matches(pattern)"))
    if program.expression.eval(data={"text": "", "pattern": pattern}).type() == cel.Type.ERROR:
        raise CannotEvaluateError(f"{pattern} is no RE2 pattern")
    return lambda text: bool(program({"text": text, "pattern": pattern}))


@cache
def _matching() -> Any:
    from cel_expr_python import cel

    return cel.NewEnv(variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})


@cache
def _environment() -> Any:
    """CEL as CRDs have it since Kubernetes 1.29: optionals, strings, and the API server's own functions."""
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    from trainwright.validate.cel_library import functions

    # Ours last: it adds lists to `indexOf`, which strings declare, and only an extension may add to a function.
    extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional(), cel.CelExtension("kubernetes", functions())]
    return cel.NewEnv(variables={"self": cel.Type.DYN}, extensions=extensions)


_TEXT = re.compile(r"""(r?"(?:\\.|[^"\\])*"|r?'(?:\\.|[^'\\])*')""")


def without_texts(rule: str) -> str:
    """A rule with its string literals emptied, so that identifiers can be looked for."""
    return _TEXT.sub("''", rule)


def replace_identifier(rule: str, name: str, value: str) -> str:
    """A rule with an identifier replaced everywhere but inside string literals."""
    parts = _TEXT.split(rule)
    return "".join(part if index % 2 else re.sub(rf"(?<![.\w]){name}\b", value, part) for index, part in enumerate(parts))
