"""Every run in dist/ is rehearsed by a test, in this environment or in its engine's own."""

from __future__ import annotations

from tests.compiler.rehearsal.stage import DIST, ROOT

PLAYED = (ROOT / "tests" / "trainer" / "test_manifests.py", *sorted((ROOT / "tests" / "engines").glob("*/test_manifest.py")))


def test_no_run_is_left_out() -> None:
    """Those of KubeRay are played by a stage of their own."""
    text = "".join(path.read_text(encoding="utf-8") for path in PLAYED)
    runs = {path.relative_to(DIST).as_posix().removesuffix(".k8s.yaml") for path in DIST.glob("*/*/runs/*.yaml")}
    assert not [run for run in sorted(runs) if f'"{run}"' not in text]
