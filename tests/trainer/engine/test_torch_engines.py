"""Engines of torch in this process, as a world of one. Worlds of several are in ``training/test_conformance.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest
import torch
from tests.trainer.contract.specifications import RESNET, changed
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from transformers.modeling_outputs import ImageClassifierOutput

from trainwright_trainer.checkpoint import CheckpointStore, CommittedFiles, Snapshot
from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract import RunSpec, Training
from trainwright_trainer.contract.engine import DDPSettings
from trainwright_trainer.contract.failures import DivergedError, InvalidRunError
from trainwright_trainer.contract.training import SGD
from trainwright_trainer.engine.base import Engine, Recipe
from trainwright_trainer.engine.ddp import DDPEngine
from trainwright_trainer.engine.fsdp2 import FSDP2Engine
from trainwright_trainer.engine.update import UpdateSettings
from trainwright_trainer.engine.world import TorchWorld
from trainwright_trainer.model.initialise import Store, initialise
from trainwright_trainer.rank.place import Place
from trainwright_trainer.training.assembly import ORDERED, build_optimizer, build_task, choose_kernels

RATE = 1.0


class Small(nn.Module):
    """Batch norm, dropout and a parameter that no output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(4, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, pixel_values: Tensor) -> ImageClassifierOutput:
        return ImageClassifierOutput(logits=self.head(self.dropout(self.norm(pixel_values))))


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, pixel_values: Tensor) -> ImageClassifierOutput:
        return ImageClassifierOutput(logits=self.head(pixel_values))


def batch() -> dict[str, Tensor]:
    return {"images": torch.arange(24.0).reshape(6, 4), "labels": torch.tensor([0, 1, 2, 0, 1, 2])}


RULES = UpdateSettings("fp32", clip_norm=0.5, skips=0)
Start = Callable[[UpdateSettings], Engine]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[TorchWorld]:
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", str(free_port())), ("GLOO_SOCKET_IFNAME", "lo")):
        monkeypatch.setenv(name, value)
    world = TorchWorld(Place(0, 1, 0, 0), torch.device("cpu"), timedelta(seconds=60))
    yield world
    world.close()


@pytest.fixture(params=[DDPEngine, FSDP2Engine])
def start(request: pytest.FixtureRequest, world: TorchWorld) -> Start:
    """Makes the engine, once."""
    return lambda rules: cast("Engine", request.param(world, rules))


@pytest.fixture
def engine(start: Start) -> Engine:
    return start(RULES)


def set_up(engine: Engine, build: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    sgd = SGD(kind="sgd", momentum=0)
    built: list[nn.Module] = []

    def keep() -> nn.Module:
        built.append(build())
        return built[0]

    def first_values(module: nn.Module, store: Store) -> None:
        initialise(module, seed=0, store=store)

    task = build_task("image-classification")
    engine.setup(Recipe(
        keep, lambda module: None, first_values, lambda module: [], lambda module: build_optimizer(sgd, module, RATE), task
    ))
    engine.initialise()
    return built[0]


def warmed_up(engine: Engine, build: Callable[[], nn.Module]) -> nn.Module:
    module = set_up(engine, build)
    engine.warm_up(batch())
    return module


def whole(module: nn.Module) -> list[Tensor]:
    return [whole_tensor(parameter.detach()) for parameter in module.parameters()]


def whole_tensor(tensor: Tensor) -> Tensor:
    return tensor.full_tensor().clone() if isinstance(tensor, DTensor) else tensor.clone()


def test_warm_up_changes_nothing(engine: Engine) -> None:
    module = set_up(engine, Small)
    before = {name: whole_tensor(tensor) for name, tensor in module.state_dict().items()}
    random = torch.get_rng_state()
    engine.warm_up(batch())
    assert torch.equal(torch.get_rng_state(), random)
    for name, tensor in module.state_dict().items():
        assert torch.equal(whole_tensor(tensor), before[name]), name
    assert all(parameter.grad is None for parameter in module.parameters())


def test_parameter_without_gradient_is_no_obstacle(engine: Engine) -> None:
    warmed_up(engine, Small)
    losses = []
    for _ in range(3):
        engine.forward_backward(batch(), loss_denominator=6, sync=True)
        losses.append(float(engine.step(RATE).loss))
    assert len(set(losses)) == 3


def test_clipping(engine: Engine) -> None:
    module = warmed_up(engine, Plain)
    before = whole(module)
    engine.forward_backward(batch(), loss_denominator=6, sync=True)
    result = engine.step(RATE)
    assert float(result.gradient_norm) > 0.5
    assert result.finite()
    moved = torch.cat([(now - then).flatten() for now, then in zip(whole(module), before, strict=True)])
    assert float(moved.norm()) == pytest.approx(0.5 * RATE, rel=1e-3)


def test_non_finite_is_reported(engine: Engine) -> None:
    warmed_up(engine, Plain)
    engine.forward_backward({**batch(), "images": torch.full((6, 4), torch.inf)}, loss_denominator=6, sync=True)
    assert not engine.step(RATE).finite()


def test_evaluation_leaves_training_mode_behind_and_comes_back(engine: Engine) -> None:
    module = warmed_up(engine, Small)
    assert torch.equal(engine.evaluate(batch()), engine.evaluate(batch()))  # no dropout
    assert not module.training
    engine.forward_backward(batch(), loss_denominator=6, sync=True)
    assert module.training


@dataclass(frozen=True)
class Written(CommittedFiles):
    """What a snapshot wrote, as a checkpoint of one rank."""

    directory: Path
    world_size: int = 1

    def names(self) -> tuple[str, ...]:
        return tuple(path.name for path in self.directory.iterdir())

    def path(self, name: str) -> Path:
        return self.directory / name


def written(engine: Engine, directory: Path) -> Written:
    return write_out(engine.snapshot(), directory)


def write_out(snapshot: Snapshot, directory: Path) -> Written:
    draft = CheckpointStore(directory).begin(1, "attempt")
    names = [digest.name for digest in snapshot.write(draft)]
    return Written(draft.path(names[0]).parent)


def test_state_goes_out_and_comes_back(engine: Engine, tmp_path: Path) -> None:
    module = warmed_up(engine, Small)
    engine.forward_backward(batch(), loss_denominator=6, sync=True)
    engine.step(RATE)
    saved, at_save = written(engine, tmp_path / "one"), whole(module)
    engine.forward_backward(batch(), loss_denominator=6, sync=True)
    engine.step(RATE)
    assert any(not torch.equal(now, then) for now, then in zip(whole(module), at_save, strict=True))
    engine.load(saved)
    assert all(torch.equal(now, then) for now, then in zip(whole(module), at_save, strict=True))
    again = written(engine, tmp_path / "two")
    for name in saved.names():
        assert again.path(name).read_bytes() == saved.path(name).read_bytes(), name


def test_held_snapshot_is_of_its_own_time(engine: Engine, tmp_path: Path) -> None:
    module = warmed_up(engine, Plain)
    at_save, snapshot = whole(module), engine.snapshot()
    snapshot.hold()
    engine.forward_backward(batch(), loss_denominator=6, sync=True)
    engine.step(RATE)
    engine.load(write_out(snapshot, tmp_path / "late"))
    assert all(torch.equal(now, then) for now, then in zip(whole(module), at_save, strict=True))


def test_a_copy_lies_where_the_one_before_it_lay(engine: Engine) -> None:
    warmed_up(engine, Plain)
    engine.snapshot().reserve()
    places = []
    for _ in range(2):
        snapshot = engine.snapshot()
        snapshot.hold()
        files = snapshot._files  # type: ignore[attr-defined]  # what is held, which nobody else has to know
        places.append([tensor.data_ptr() for tensors in files.values() for tensor in tensors.values()])
        engine.forward_backward(batch(), loss_denominator=6, sync=True)
        engine.step(RATE)
    assert places[0]
    assert places[0] == places[1]


class Wider(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.more = nn.Linear(2, 2)


def test_state_of_another_model_is_refused(start: Start, tmp_path: Path) -> None:
    first = start(RULES)
    warmed_up(first, Plain)
    files = written(first, tmp_path / "plain")
    other = start(RULES)
    set_up(other, Wider)
    with pytest.raises(InvalidRunError, match=r"more\.bias is absent there and \(2,\) in this run"):
        other.load(files)


def test_steps_that_are_not_finite_are_left_out_within_a_bound(start: Start) -> None:
    engine = start(UpdateSettings("fp32", clip_norm=None, skips=2))
    module = warmed_up(engine, Plain)
    infinite = {**batch(), "images": torch.full((6, 4), torch.inf)}
    before = whole(module)
    for _ in range(2):
        engine.forward_backward(infinite, loss_denominator=6, sync=True)
        assert engine.step(RATE).finite()
    assert all(torch.equal(now, then) for now, then in zip(whole(module), before, strict=True))
    engine.forward_backward(batch(), loss_denominator=6, sync=True)
    engine.step(RATE)
    assert any(not torch.equal(now, then) for now, then in zip(whole(module), before, strict=True))
    for _ in range(2):
        engine.forward_backward(infinite, loss_denominator=6, sync=True)
        engine.step(RATE)
    engine.forward_backward(infinite, loss_denominator=6, sync=True)
    with pytest.raises(DivergedError, match="after 2 that were skipped"):
        engine.step(RATE)


def test_fp16_overflow_lowers_the_scale_and_leaves_the_step_out(start: Start) -> None:
    engine = start(UpdateSettings("fp16", clip_norm=None, skips=0))
    module = warmed_up(engine, Plain)
    before = whole(module)
    large = {**batch(), "images": torch.full((6, 4), 500.0)}
    engine.forward_backward(large, loss_denominator=6, sync=True)  # 500 x 65,536 is more than fp16 can hold
    result = engine.step(RATE)
    assert not torch.isfinite(result.gradient_norm)
    assert result.finite()
    assert all(torch.equal(now, then) for now, then in zip(whole(module), before, strict=True))
    for _ in range(12):
        engine.forward_backward(large, loss_denominator=6, sync=True)
        result = engine.step(1e-6)
    assert torch.isfinite(result.gradient_norm)
    assert any(not torch.equal(now, then) for now, then in zip(whole(module), before, strict=True))


@pytest.mark.parametrize("start", [DDPEngine], indirect=True)
def test_gradients_that_are_added_up_lie_in_the_buckets(engine: Engine) -> None:
    """They would take 4 bytes a parameter more beside them."""
    module = warmed_up(engine, Plain)
    for _ in range(2):
        engine.forward_backward(batch(), loss_denominator=12, sync=False)
        places = gradient_places(module)
        engine.forward_backward(batch(), loss_denominator=12, sync=True)
        assert gradient_places(module) == places
        engine.step(RATE)


def gradient_places(module: nn.Module) -> list[int]:
    return [parameter.grad.data_ptr() for parameter in module.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("start", [DDPEngine], indirect=True)
def test_a_parameter_that_takes_no_part_is_not_moved(engine: Engine) -> None:
    module = warmed_up(engine, Small)
    before = {name: whole_tensor(parameter.detach()) for name, parameter in module.named_parameters()}
    for _ in range(2):
        engine.forward_backward(batch(), loss_denominator=12, sync=False)
        engine.forward_backward(batch(), loss_denominator=12, sync=True)
        engine.step(RATE)
    moved = {name for name, parameter in module.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved == {"norm.weight", "norm.bias", "head.weight", "head.bias"}


def test_ddp_sums_in_buckets_of_the_stated_size(world: TorchWorld) -> None:
    for settings, size in ((None, 25), (DDPSettings(bucket_cap_mb=3), 3)):
        engine = DDPEngine(world, RULES, settings=settings)
        warmed_up(engine, Plain)
        assert engine._ddp.bucket_bytes_cap == size * 2**20


@pytest.fixture
def kernels() -> Iterator[None]:
    """What tests of this process set for all that follow."""
    algorithms, cudnn = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn
    before = (cudnn.benchmark, cudnn.deterministic)
    torch.use_deterministic_algorithms(False)
    yield
    torch.use_deterministic_algorithms(algorithms)
    cudnn.benchmark, cudnn.deterministic = before


ON_DIGITS = {"work.task": "image-classification", "work.model": RESNET, "work.data": {"source": "digits"}}


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("device", "asked", "deterministic", "benchmark"), [
    ("cpu", {}, True, False), ("cuda", {}, False, False), ("cuda", {"deterministic": True}, True, False),
    ("cuda", {"cudnn_benchmark": True}, False, True),
])
def test_kernels_are_what_the_run_asks_for(device: str, asked: dict[str, bool], deterministic: bool, benchmark: bool) -> None:
    torch.backends.cudnn.deterministic = False
    training = RunSpec.model_validate(changed({f"work.{key}": value for key, value in asked.items()} | ON_DIGITS)).work
    assert isinstance(training, Training)
    environment = {"NCCL_ALGO": "Tree"}
    choose_kernels(torch.device(device), training, environment)
    assert environment == {**(ORDERED if deterministic else {}), "NCCL_ALGO": "Tree"}, "the run's own value stays"
    assert torch.are_deterministic_algorithms_enabled() is deterministic
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark) == (deterministic, benchmark)
