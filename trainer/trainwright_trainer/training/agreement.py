"""What the ranks of a run agree on when they have met, before any of them trains."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.contract.spec import RunSpec
from trainwright_trainer.rank import software
from trainwright_trainer.rank.group import Group
from trainwright_trainer.rank.link import Link
from trainwright_trainer.rank.messages import ATTEMPT_ENV
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
