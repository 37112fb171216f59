"""The comments at the top of a file of dist/: one fact a line, and nothing that a reader of YAML takes for more."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from trainwright.model import Fact
from trainwright.report.header import foundation_header, run_header, split_header

ROOT = Path(__file__).parents[3]
BELOW = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: two\n"
HIDDEN = "x\nkind: Pod\n---\n"
WORDS = st.text() | st.sampled_from(
    ["\x85", "\u2028", "\u2029", "\r", "\x0b", "\x0c", "\x1b[2K", "\u202e", "\ufeff", "\x00", HIDDEN]
)
VALUES = WORDS | st.integers() | st.booleans() | st.floats()


@given(st.builds("".join, st.lists(WORDS)), st.dictionaries(st.builds("".join, st.lists(WORDS)), VALUES))
@example("charts/runs/\x85kind: Pod.yaml", {"queue\u2028kind: Pod": "\u2029---\nkind: Pod"})
def test_no_text_changes_what_the_file_holds(source: str, facts: dict[str, str | int | float | bool]) -> None:
    for header in (run_header(source, facts), foundation_header(source)):
        text = header + BELOW
        assert list(yaml.safe_load_all(text)) == list(yaml.safe_load_all(BELOW))
        assert list(YAML(typ="safe", pure=True).load_all(text)) == list(YAML(typ="safe", pure=True).load_all(BELOW))
        assert header.isascii()
        assert all(line.startswith("#") and line.isprintable() for line in header.removesuffix("\n").split("\n"))
        assert split_header(text) == (header, BELOW)


def test_a_text_that_is_not_escaped_would_hide_an_object() -> None:
    assert len(list(yaml.safe_load_all(f"# queue: a\x85---\x85kind: Pod\n---\n{BELOW}"))) == 3


def test_a_fact_is_a_line_and_groups_stand_apart() -> None:
    facts: dict[str, Fact] = {
        "team": "nlp", "gpus": 32, "learning_rate": "2.0e-5", "learning_rate.base": "2.0e-5", "waivers.TW214": "until 2027: a",
        "queue": "research", "overrides.pod.rank.x": 1, "mounts./data.read_only": True,
    }
    assert run_header("charts/runs/a.yaml", facts) == """\
# Made by trainwright from charts/runs/a.yaml. Edit that file, and do not edit this one.
#
# team: nlp
#
# GPUs: 32
#
# learning rate: 2.0e-5
#
# queue: research
#
# mounts /data.read_only: yes
#
# overrides pod rank x: 1
#
# waivers TW214: until 2027: a
"""


def test_a_rate_that_something_scales_states_its_base() -> None:
    header = run_header("a", {"learning_rate": "4.0e-5", "learning_rate.base": "2.0e-5"})
    assert "# learning rate: 4.0e-5\n# learning rate base: 2.0e-5\n" in header


@pytest.mark.parametrize("file", sorted((ROOT / "dist").rglob("*.k8s.yaml")), ids=lambda path: path.name)
def test_every_file_of_dist_has_one(file: Path) -> None:
    header, below = split_header(file.read_text(encoding="ascii"))
    assert header.startswith("# Made by trainwright from charts/")
    assert below.startswith("apiVersion: ")
