"""What ``/metrics`` shows."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from trainwright_trainer.contract.metrics import METRICS
from trainwright_trainer.observe.metrics import Measurements


def test_every_metric_of_the_table_is_described() -> None:
    text = Measurements().text().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert set(families) == set(METRICS)
    for metric in METRICS.values():
        assert (families[metric.name].type, families[metric.name].documentation) == (metric.kind, metric.help)


def test_values_and_counters() -> None:
    measurements = Measurements()
    measurements.update({"trainwright_loss": 0.25, "trainwright_checkpoint_failures": 2})
    measurements.update({"trainwright_loss": float("nan"), "unheard_of": 1.0})
    text = measurements.text().decode()
    assert "trainwright_loss NaN\n" in text
    assert "trainwright_checkpoint_failures_total 2.0\n" in text
    assert "unheard_of" not in text
    assert "\ntrainwright_step " not in text


def test_what_ranks_count_adds_up_in_a_pod() -> None:
    measurements = Measurements()
    for rank, images in ((0, 1), (1, 2), (0, 3)):
        measurements.update({"trainwright_left_out_images": images, "trainwright_step": images}, rank)
    text = measurements.text().decode()
    assert "trainwright_left_out_images_total 5.0\n" in text
    assert "\ntrainwright_step 3.0\n" in text


def test_a_value_that_holds_no_more_is_not_shown() -> None:
    measurements = Measurements()
    measurements.update({"trainwright_loss": 0.25, "trainwright_step": 3})
    measurements.forget(["trainwright_loss", "trainwright_goodput"])
    text = measurements.text().decode()
    assert "\ntrainwright_loss " not in text
    assert "\ntrainwright_step 3.0\n" in text
