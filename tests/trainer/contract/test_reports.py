"""What is measured may be any number: it arrives where it goes, and ends nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from trainwright_trainer.checkpoint.ledger import Ledger, Past
from trainwright_trainer.contract.exit_codes import TerminationMessage
from trainwright_trainer.contract.ledger import Event
from trainwright_trainer.contract.metrics import StepSplit
from trainwright_trainer.observe.metrics import Measurements, RunPace, Timesheet
from trainwright_trainer.observe.sinks import Sinks, TensorBoardSink
from trainwright_trainer.rank.link import SoloLink
from trainwright_trainer.rank.messages import FromRankMessage, Measured
from trainwright_trainer.rank.place import Place
from trainwright_trainer.supervisor.wire.messages import Start, Upward
from trainwright_trainer.training.learner import Position
from trainwright_trainer.training.reporting import Reporter, Score, Speed
from trainwright_trainer.training.witness import StepSamples, StepTime

NUMBERS = [math.nan, math.inf, -math.inf, 1e400, -0.0, 1e308, 5e-324]
LEAVES = FromRankMessage | Upward | Start | Past | Event | TerminationMessage | StepTime | StepSamples
"""All that ranks and pods say, write down or end with."""


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every model that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation)
    for part in get_args(annotation):
        yield from models(part)


def example(annotation: Any, number: float) -> Any:
    """A value of a type in which every float is the number."""
    origin, parts = get_origin(annotation), [part for part in get_args(annotation) if part is not NoneType]
    if origin is Annotated:
        return example(parts[0], number)
    if origin is Literal:
        return parts[0]
    if origin in (Union, UnionType):
        return example(parts[0], number)
    if origin is dict:
        return {example(parts[0], number): example(parts[1], number)}
    if origin is tuple:
        return (example(parts[0], number),)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return built(annotation, number)
    return {float: number, int: 1, str: "x", bool: True}.get(annotation, datetime.now(UTC))


def built(model: type[BaseModel], number: float) -> BaseModel:
    return model(**{name: value_of(name, field, number) for name, field in model.model_fields.items()})


def value_of(name: str, field: FieldInfo, number: float) -> Any:
    if name == "attempt":
        return "a1b2c3"
    return example(field.annotation, number)


def numbers_in(value: Any) -> Iterator[float]:
    match value:
        case float():
            yield value
        case dict():
            for part in value.values():
                yield from numbers_in(part)
        case list() | tuple():
            for part in value:
                yield from numbers_in(part)


WITH_NUMBERS = sorted(
    {model for model in models(LEAVES) if any(True for _ in numbers_in(built(model, 1.5).model_dump()))},
    key=lambda model: model.__name__,
)


def test_the_walk_finds_them() -> None:
    names = {model.__name__ for model in WITH_NUMBERS}
    assert names >= {"Measured", "Pace", "StepSplit", "Heartbeat", "Committed", "Times", "Paces", "Past", "AttemptTimes",
                     "TerminationMessage", "RankState", "StepTime"}


@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("model", WITH_NUMBERS)
def test_any_number_is_carried(model: type[BaseModel], number: float) -> None:
    """As JSON that every reader takes, and back."""
    said = built(model, number)
    text = said.model_dump_json()
    json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON: {text}"))
    heard = TypeAdapter(model).validate_json(text)
    assert heard.model_dump_json() == text
    found = list(numbers_in(heard.model_dump()))
    assert all(value == number or (math.isnan(value) and math.isnan(number)) or 0 <= value <= 1e15 for value in found)


@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_a_step_and_an_evaluation_of_any_numbers(number: float, tmp_path: Path) -> None:
    """From the report to the metrics' text and to event files."""
    sinks, measurements = Sinks({"tensorboard": TensorBoardSink(str(tmp_path))}, {}), Measurements()

    class Line(SoloLink):
        def __init__(self) -> None:
            self.split: StepSplit | None = None

        def measured(self, values: Any) -> None:
            heard = Measured.model_validate_json(Measured(values=values).model_dump_json())
            measurements.update(heard.values)

        def pace(self, step: int, split: StepSplit) -> None:
            self.split = split

    line = Line()
    report, at = Reporter(Place(0, 1, 0, 0), line, sinks), Position(1, 8)
    report.started(at, 80, 8)
    split = StepSplit(step_seconds=number, waited_seconds=number, data_seconds=number)
    report.step(at, number, number, number, number, Speed(number, split))
    report.evaluated(at, Score(number, number, 1))
    report.stalled(number)
    assert line.split is not None
    RunPace(2, measurements).heard(1, {0: line.split, 1: StepSplit(step_seconds=1, waited_seconds=0)})
    assert b"trainwright_loss " in measurements.text()
    assert sinks._sinks, "the sink was not dropped"
    report.ended("finished", at, None)


@pytest.mark.parametrize("number", NUMBERS, ids=str)
def test_a_ledger_of_any_times_is_read(number: float, tmp_path: Path) -> None:
    for event in get_args(Event):
        Ledger(tmp_path).append(built(event, number))  # type: ignore[arg-type]
    past = Ledger(tmp_path).past("x")
    assert math.isfinite(past.productive_seconds)
    assert 0 <= Timesheet(past, 0).goodput(10) <= 1
