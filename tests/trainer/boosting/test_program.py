"""What the program refuses before it imports XGBoost, which is not in this environment."""

from __future__ import annotations

import pytest
from tests.trainer.contract.specifications import BOOSTING, TRACKER, changed

from trainwright_trainer.boosting.program import find_place
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.contract.failures import InvalidRunError, TopologyMismatchError

RUN = {"world.rendezvous": TRACKER, "world.processes_per_node": 1, "work": BOOSTING}
NUMBERS = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "1"}


def test_a_worker() -> None:
    place = find_place(RunSpec.model_validate(changed(RUN)), NUMBERS)
    assert (place.rank, place.world_size, place.node, place.leads) == (1, 2, 1, False)


def test_refusals() -> None:
    with pytest.raises(InvalidRunError, match=r"work\.kind is trainer, and this program runs xgboost"):
        find_place(RunSpec.model_validate(changed({})), NUMBERS)
    with pytest.raises(InvalidRunError, match=r"world\.processes_per_node is 2: XGBoost has one process a node"):
        find_place(RunSpec.model_validate(changed({**RUN, "world.processes_per_node": 2})), NUMBERS)
    with pytest.raises(TopologyMismatchError, match="WORLD_SIZE is 3"):
        find_place(RunSpec.model_validate(changed(RUN)), {**NUMBERS, "WORLD_SIZE": "3"})
