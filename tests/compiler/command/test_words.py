"""Words are those that bash itself passes to a program."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.command.grammar import read_text
from trainwright.command.launchers import launches
from trainwright.command.model import By
from trainwright.command.reading import read, script

NOT_IN_TEXT = "\0\r\ue000\ue001\ue002"
ANY = st.characters(codec="utf-8", exclude_characters=NOT_IN_TEXT)
PLAIN = st.text("abcXYZ019_./:=,+@%-", min_size=1)
SINGLE = st.text(ANY.filter(lambda character: character != "'"), max_size=6).map(lambda text: f"'{text}'")
ESCAPED_IN_DOUBLE = st.sampled_from(['\\"', "\\$", "\\`", "\\\\", "\\n"])
IN_DOUBLE = st.one_of(ANY.filter(lambda character: character not in '"$`\\'), ESCAPED_IN_DOUBLE)
DOUBLE = st.lists(IN_DOUBLE, max_size=6).map(lambda parts: f'"{"".join(parts)}"')
ESCAPED = st.sampled_from(["\\ ", "\\$", "\\'", '\\"', "\\\\", "\\;", "\\a", "\\&", "\\#"])
WORD = st.lists(st.one_of(PLAIN, SINGLE, DOUBLE, ESCAPED), min_size=1, max_size=4).map("".join)
BETWEEN = st.sampled_from([" ", "  ", "\t", " \\\n  "])


def words_of(text: str) -> list[str | None]:
    (simple,) = read_text(f"printf {text}").simple
    return [word.value for word in simple.words[1:]]


@settings(max_examples=60)
@given(st.lists(st.tuples(WORD, BETWEEN), min_size=1, max_size=5))
def test_words_are_those_of_bash(parts: list[tuple[str, str]]) -> None:
    text = "".join(f"{between}{word}" for word, between in parts)
    said = subprocess.run(["bash", "-c", f"printf '%s\\0' {text}"], capture_output=True, check=True, timeout=30).stdout
    assert words_of(text) == said.decode().split("\0")[:-1]


@given(st.lists(st.text(ANY, max_size=12), min_size=1, max_size=6))
def test_words_are_those_that_shlex_joins(words: list[str]) -> None:
    expected = ["".join("$" if part == "$$" else part for part in _pairs(word)) for word in words]
    assert words_of(shlex.join(words)) == expected


def _pairs(word: str) -> list[str]:
    """With two dollar signs as one part: Kubernetes makes one of them."""
    return word.replace("$$", "\0$$\0").split("\0")


PARTS = (
    *"$(){}'\"`\\;&|<>=# \n-a!*[]", "$(", "${A:-", "<<E\n", "if ", "then", "fi", "for X in ", "do", "done", "case ", " in",
    "esac", "bash -c ", "export A=", "torchrun ", '"$@"', "$0",
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.one_of(st.text(max_size=5), st.sampled_from(PARTS)), max_size=20).map("".join))
def test_any_text_can_be_read(text: str) -> None:
    for command in (script(text), read(("bash", "-c", text, "a", "b"))):
        assert all(launch.name for launch in launches(command))
        assert dict(command.sets()).keys() <= {name for name, _ in command.sets()}
        assert all(read.name for word in command.words() for read in word.reads if read.by is By.SHELL)


def test_a_text_of_a_thousand_brackets_is_not_read() -> None:
    assert not script("(" * 5000 + "a" + ")" * 5000).whole


def test_a_text_that_starts_itself_ends() -> None:
    text = 'bash -c "$1" "$1" "$1"'
    assert len(read(("bash", "-c", text, text, text)).simple) < 10


@pytest.mark.parametrize(("text", "value"), [
    ("A=1; start $A", "1"), ("A=1 B=${A}2; start $B", "12"), ("A='x y'; start \"$A\"", "x y"), ("start $A", None),
    ("A=1; read A; start $A", None), ("if x; then A=1; fi; start $A", None), ("A=1; A+=2; start $A", None),
    ("A=1 start $A", None), ("A=$(date); start $A", None), ("for A in 1 2; do start $A; done", None), ("start $(A)", None),
])  # fmt: skip
def test_a_variable_that_the_text_sets_is_known(text: str, value: str | None) -> None:
    assert next(simple.words[1].value for simple in script(text).simple if simple.program == "start") == value


@pytest.mark.parametrize("text", [
    'ARGS="--nnodes 2 t.py"; start $ARGS', "ARGS=(--nnodes 2 t.py); start ${ARGS[@]}", 'A=(--nnodes 2 t.py); start "${A[@]}"',
])  # fmt: skip
def test_a_variable_may_hold_several_words(text: str) -> None:
    assert [word.text for word in script(text).simple[-1].words] == ["start", "--nnodes", "2", "t.py"]
