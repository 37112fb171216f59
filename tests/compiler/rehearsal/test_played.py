"""Every run in dist/ is rehearsed by a test, in this environment or in its engine's own."""

from __future__ import annotations

from tests.compiler.rehearsal.stage import DIST, ROOT

TESTS = ROOT / "tests"
PLAYED = (
    TESTS / "trainer" / "test_manifests.py", *sorted((TESTS / "engines").glob("*/test_manifest.py")),
    TESTS / "engines" / "adapters" / "test_shapes.py",
)  # fmt: skip
BY_PROGRAM = (TESTS / "trainer" / "test_hugging_face.py", TESTS / "engines" / "adapters" / "test_adapters.py")
"""Runs whose model comes from the Hub: their program, as ``dist/`` has it, trains a tiny one under real supervisors."""


def test_no_run_is_left_out() -> None:
    text, programs = ("".join(path.read_text(encoding="utf-8") for path in paths) for paths in (PLAYED, BY_PROGRAM))
    runs = {path.relative_to(DIST).as_posix().removesuffix(".k8s.yaml") for path in DIST.glob("*/*/runs/*.yaml")}
    left_out = [run for run in sorted(runs) if f'"{run}"' not in text]
    assert not [run for run in left_out if f'recipe("{run.rpartition("/")[2]}", ' not in programs]
