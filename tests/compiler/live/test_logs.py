"""Which log of a container is meant."""

from __future__ import annotations

import pytest

from trainwright.live.case import LivePod
from trainwright.live.logs import Source, sources


@pytest.mark.parametrize(("state", "restarts", "previous"), [
    ("running", 0, False), ("running", 2, False), ("terminated", 0, False), ("terminated", 2, False), ("waiting", 2, True),
    ("waiting", 0, None),
])  # fmt: skip
def test_the_newest_log_that_there_is(state: str, restarts: int, previous: bool | None) -> None:
    """The kubelet calls that of the time before last the previous one, once a container has ended again."""
    status = {"name": "trainer", "restartCount": restarts, "state": {state: {}}}
    pod = LivePod({"metadata": {"name": "a-0"}, "status": {"containerStatuses": [status]}})
    assert list(sources(pod)) == ([] if previous is None else [Source("a-0", "trainer", previous)])
