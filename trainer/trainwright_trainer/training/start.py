"""Start of an attempt: what its ranks agree on when they have met, who writes the lineage, and the commits to try in order.

The newest comes first, but for the last attempt that a run may make without progress. A checkpoint can verify and still lead
every attempt into the same crash, by weights that are near to overflow for example; so that attempt begins with a commit of an
earlier step, if there is one. Nothing is set aside for it: the newest stays where it is, for a person to look at.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, Holder, Lease, LeaseTiming
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.observe.log import get_log
from trainwright_trainer.rank import software
from trainwright_trainer.rank.group import Group
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.messages import ATTEMPT_ENV, RESUME_BEFORE_ENV
from trainwright_trainer.rank.place import Place
from trainwright_trainer.rank.preflight import Checks, Control, preflight


def check_ranks(spec: RunSpec, place: Place, link: Link, group: Group, checks: Checks) -> None:
    """What ranks make sure of when they have met: all run one image, and no node is unfit. Raises :class:`RankError`."""
    software.same_software_everywhere(software.installed(), place, group.broadcast, group.reduce_sums)
    preflight(spec, place, link, checks, Control(group.broadcast, group.reduce_sums))


def check_data(group: Group, fingerprint: str) -> None:
    """Raises :class:`DataError` on every rank where one reads other data than rank 0."""
    fingerprints = group.gather(fingerprint)
    different = group.broadcast([rank for rank, found in enumerate(fingerprints) if found != fingerprints[0]])
    if different:
        raise DataError(f"ranks {different} read other data than rank 0: the pods' images or volumes differ")


def agreed_attempt(environment: Mapping[str, str], group: Group) -> str:
    """The attempt's nonce, from the supervisors, or from rank 0 where there is none."""
    return environment.get(ATTEMPT_ENV) or group.broadcast(secrets.token_hex(6))


def become_writer(store: CheckpointStore, identity: str, attempt: str, grace_seconds: float) -> Lease:
    """Acquire the lease of a store, on rank 0. Logs once that it has to wait.

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


def resume_before(environment: Mapping[str, str]) -> int | None:
    """The step that this attempt passes over, from the environment that its supervisor gave it; None for most."""
    text = environment.get(RESUME_BEFORE_ENV, "")
    return int(text) if text.isascii() and text.isdigit() else None


def log_passed_over(records: Sequence[CommitRecord], chosen: CommitRecord, before: int | None) -> None:
    """Log which commit was passed over for the chosen one, if one was (rank 0)."""
    newest = max((record.step for record in records), default=0)
    if before is not None and chosen.step < before <= newest:
        reason = f"the attempts before this one began there and got no further, so the last one left begins with {chosen.name}"
        get_log().warning("checkpoint_passed_over", step=newest, reason=reason)


def refuse_other_data(step: int, trained_on: object, fingerprint: str) -> None:
    """Raises :class:`DataError` where a commit was trained on data of another fingerprint."""
    if trained_on != fingerprint:
        raise DataError(
            f"the data is not what step {step} was trained on (fingerprint {fingerprint[:12]}, then {str(trained_on)[:12]}): "
            "restore the data, or use a checkpoint directory of its own"
        )
