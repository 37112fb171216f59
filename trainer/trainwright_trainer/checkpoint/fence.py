"""Fence: keeps drafts of attempts that lost the lease from ever being committed; see :mod:`lease` for why that is enough."""

from __future__ import annotations

from trainwright_trainer.checkpoint.layout import CheckpointName, Listing, record_key
from trainwright_trainer.checkpoint.lease import Lease
from trainwright_trainer.checkpoint.record import encode_fence
from trainwright_trainer.checkpoint.volume import Volume


def fence_drafts(volume: Volume, lease: Lease) -> frozenset[CheckpointName]:
    """Fence every draft of another attempt. Gives the names that are committed, or fenced, from before this lease.

    Raises:
        LeaseLostError: A newer attempt was faster, so what was seen may be its own.
        StorageError: The volume refused.
    """
    seen = Listing.of(volume)
    lease.check()  # after the look: whatever a newer attempt began, it began after it took this lease
    drafts = {*seen.data, *(name for name, _ in seen.temporary)}.difference(seen.records, seen.bad_records)
    for name in drafts:
        if name.attempt != lease.holder.attempt:
            volume.create(record_key(name), encode_fence(lease.holder.term))
    return frozenset(Listing.of(volume).records) & {*seen.records, *drafts}
