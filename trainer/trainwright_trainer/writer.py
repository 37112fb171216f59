"""Becoming the one writer of a lineage, after the attempt before this one has let go of it."""

from __future__ import annotations

from trainwright_trainer.checkpoint import CheckpointStore, Holder, Lease, LeaseTiming
from trainwright_trainer.observe.log import get_log


def become_writer(store: CheckpointStore, identity: str, attempt: str, grace_seconds: float) -> Lease:
    """The lease of a store, on rank 0. Who has to wait for it says so once.

    Args:
        grace_seconds: How long an attempt before this one may still be saving.

    Raises :class:`StorageError`.
    """
    waited: list[Holder] = []

    def on_wait(holder: Holder, _seconds: float) -> None:
        if not waited:
            get_log().info("waiting_for_lease", reason=f"{holder} may still be saving")
        waited.append(holder)

    timing = LeaseTiming(patience_seconds=max(grace_seconds, LeaseTiming().expiry_seconds))
    return store.acquire_lease(identity, attempt, timing, on_wait)
