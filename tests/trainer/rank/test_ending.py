"""What the grace period leaves for a save, and who hears that it is too little."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from trainwright_trainer.contract.layout import EXIT_MARGIN_SECONDS
from trainwright_trainer.rank.ending import seconds_for_save, warn_of_slow_save


def test_what_is_left_for_a_save() -> None:
    assert seconds_for_save(60) == 60 - EXIT_MARGIN_SECONDS
    assert seconds_for_save(EXIT_MARGIN_SECONDS / 2) == 0


@pytest.mark.parametrize(("seconds", "warnings"), [(54, []), (56, ["save_exceeds_grace"])])
def test_a_save_that_is_too_slow_is_told(seconds: float, warnings: list[str]) -> None:
    with capture_logs() as said:
        warn_of_slow_save(seconds, 60)
    assert [line["event"] for line in said] == warnings
