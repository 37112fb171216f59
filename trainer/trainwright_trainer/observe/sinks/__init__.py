"""Sinks: where a run's metrics go, beside ``/metrics`` and the log. Their names are those of the metric table."""

from trainwright_trainer.observe.sinks.sink import Sink
from trainwright_trainer.observe.sinks.sinks import Sinks, open_sinks

__all__ = ["Sink", "Sinks", "open_sinks"]
