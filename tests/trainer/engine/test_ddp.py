"""The DDP engine in this process, as a world of one. Worlds of several are in ``training/test_conformance.py``."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta

import pytest
import torch
from torch import Tensor, nn
from transformers.modeling_outputs import ImageClassifierOutput

from trainwright_trainer.contract.training import SGD
from trainwright_trainer.engine.ddp import DDPEngine
from trainwright_trainer.failures import InvalidRunError
from trainwright_trainer.optim.build import build_optimizer
from trainwright_trainer.place import Place
from trainwright_trainer.task.build import build_task

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


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[DDPEngine]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", str(port)), ("GLOO_SOCKET_IFNAME", "lo")):
        monkeypatch.setenv(name, value)
    built = DDPEngine(Place(0, 1, 0, 0), torch.device("cpu"), "fp32", clip_norm=0.5, timeout=timedelta(seconds=60))
    yield built
    built.close()


def set_up(engine: DDPEngine, module: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    sgd = SGD(kind="sgd", momentum=0)
    engine.setup(lambda: module, lambda built: build_optimizer(sgd, built, RATE), build_task("image-classification"))
    return module


def warmed_up(engine: DDPEngine, module: nn.Module) -> nn.Module:
    set_up(engine, module)
    engine.warm_up(batch())
    return module


def test_warm_up_changes_nothing(engine: DDPEngine) -> None:
    module = set_up(engine, Small())
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    random = torch.get_rng_state()
    engine.warm_up(batch())
    assert torch.equal(torch.get_rng_state(), random)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert all(parameter.grad is None for parameter in module.parameters())


def test_parameter_without_gradient_is_no_obstacle(engine: DDPEngine) -> None:
    warmed_up(engine, Small())
    losses = []
    for _ in range(3):
        engine.forward_backward(batch(), loss_denominator=6, sync=True)
        losses.append(float(engine.step(RATE).loss))
    assert len(set(losses)) == 3


def test_clipping(engine: DDPEngine) -> None:
    module = warmed_up(engine, Plain())
    before = [parameter.detach().clone() for parameter in module.parameters()]
    engine.forward_backward(batch(), loss_denominator=6, sync=True)
    result = engine.step(RATE)
    assert float(result.gradient_norm) > 0.5
    assert result.finite()
    moved = torch.cat([(now.detach() - then).flatten() for now, then in zip(module.parameters(), before, strict=True)])
    assert float(moved.norm()) == pytest.approx(0.5 * RATE, rel=1e-3)


def test_non_finite_is_reported(engine: DDPEngine) -> None:
    warmed_up(engine, Plain())
    engine.forward_backward({**batch(), "images": torch.full((6, 4), torch.inf)}, loss_denominator=6, sync=True)
    assert not engine.step(RATE).finite()


def test_evaluation_leaves_training_mode_behind_and_comes_back(engine: DDPEngine) -> None:
    module = warmed_up(engine, Small())
    assert torch.equal(engine.evaluate(batch()), engine.evaluate(batch()))  # no dropout
    assert not module.training
    engine.forward_backward(batch(), loss_denominator=6, sync=True)
    assert module.training


def test_state_of_another_model_is_refused(engine: DDPEngine) -> None:
    warmed_up(engine, Plain())
    files = {name: {key: tensor.clone() for key, tensor in tensors.items()} for name, tensors in engine.state().items()}
    engine.load(lambda file: files[file])
    files["model.safetensors"].pop("head.bias")
    with pytest.raises(InvalidRunError, match=r"head\.bias is absent there and \(3,\) in this run"):
        engine.load(lambda file: files[file])
