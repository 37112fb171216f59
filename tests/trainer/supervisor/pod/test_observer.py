"""What a pod says of the attempts before."""

from __future__ import annotations

from tests.trainer.contract.specifications import changed

from trainwright_trainer.checkpoint.ledger import Past
from trainwright_trainer.contract import RunSpec
from trainwright_trainer.observe.metrics import Measurements
from trainwright_trainer.supervisor.pod.observer import OVER_ALL_ATTEMPTS, Observer

SPEC = RunSpec.model_validate(changed({}))


def test_a_pod_that_is_told_of_them() -> None:
    measurements = Measurements()
    Observer(SPEC, (), Past(attempts=3, down_seconds=20, attempts_without_progress=2), measurements, 0)
    assert [measurements.value(name) for name in OVER_ALL_ATTEMPTS] == [3, 20, None, 2]


def test_a_pod_that_is_not_told_says_no_more_what_held_before() -> None:
    """Another pod leads the next round of an elastic run: the old number beside the new one would look like a fall and a rise."""
    measurements = Measurements()
    Observer(SPEC, (), Past(attempts=3, down_seconds=20), measurements, 0)
    measurements.update({"trainwright_goodput": 0.75, "trainwright_step": 10})
    Observer(SPEC, (), Past(), measurements, 60)
    assert [measurements.value(name) for name in OVER_ALL_ATTEMPTS] == [None] * 4
    assert measurements.value("trainwright_step") == 10
    assert "\ntrainwright_attempt " not in measurements.text().decode()
