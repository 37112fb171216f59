"""First values of parameters: complete, the model's own, and the same however the parameters are kept."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainer.model.recipes import RECIPES, Recipe, llama
from tests.trainer.model.sharded_process import run_sharded
from torch import Tensor, nn

from trainwright_trainer.commands.local import free_port
from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.model.initialise import initialise, materialise, skeleton

CPU = torch.device("cpu")
ALL = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def started(recipe: Recipe, seed: int = 1) -> nn.Module:
    module = skeleton(recipe.build)
    materialise(module, CPU)
    for parameter in module.parameters():
        nn.init.constant_(parameter, float("nan"))
    initialise(module, seed=seed)
    return module


@ALL
def test_a_skeleton_is_the_module_without_weights(recipe: Recipe) -> None:
    plain, module = recipe.build(), skeleton(recipe.build)
    assert all(parameter.is_meta for parameter in module.parameters())
    shapes = [[(name, parameter.shape) for name, parameter in each.named_parameters()] for each in (plain, module)]
    assert shapes[0] == shapes[1]
    for (name, ours), (_, theirs) in zip(module.named_buffers(), plain.named_buffers(), strict=True):
        assert torch.equal(ours, theirs), name


@ALL
def test_every_parameter_starts_as_its_model_wants(recipe: Recipe) -> None:
    torch.manual_seed(0)
    plain, module = recipe.build().requires_grad_(False), started(recipe).requires_grad_(False)
    for name, ours in module.named_parameters():
        theirs = plain.get_parameter(name)
        assert torch.isfinite(ours).all(), name
        if theirs.numel() < 500 or theirs.std() == 0:  # constants, and too few numbers to compare
            continue
        assert float(ours.std()) == pytest.approx(float(theirs.std()), rel=0.15), name
        assert float(ours.mean()) == pytest.approx(float(theirs.mean()), abs=0.2 * float(theirs.std())), name
    for (name, ours_buffer), (_, theirs_buffer) in zip(module.named_buffers(), plain.named_buffers(), strict=True):
        assert torch.equal(ours_buffer, theirs_buffer), name


@ALL
def test_values_follow_from_the_seed(recipe: Recipe) -> None:
    random = torch.get_rng_state()
    first, again, other = started(recipe), started(recipe), started(recipe, seed=2)
    assert torch.equal(torch.get_rng_state(), random)
    pairs = list(zip(first.parameters(), again.parameters(), other.parameters(), strict=True))
    assert all(torch.equal(one, two) for one, two, _ in pairs)
    assert any(not torch.equal(one, three) for one, _, three in pairs)


def test_a_layer_that_its_parent_rescales() -> None:
    module = started(RECIPES["gpt2"])
    inner, outer = (module.get_parameter(f"transformer.h.0.mlp.{name}.weight") for name in ("c_fc", "c_proj"))
    assert float(inner.detach().std()) == pytest.approx(0.02, rel=0.1)
    assert float(outer.detach().std()) == pytest.approx(0.02 / 2, rel=0.1)  # by the root of twice the two layers


@pytest.mark.parametrize("name", ["llama, tied", "bert, masked-lm", "gpt2"])
def test_tied_weights_stay_tied_and_are_stored_once(name: str) -> None:
    module: Any = skeleton(RECIPES[name].build)
    materialise(module, CPU)
    stored: list[nn.Parameter] = []
    initialise(module, seed=1, store=lambda parameter, value: stored.append(parameter))
    assert len(stored) == len({id(parameter) for parameter in stored}) == len(list(module.parameters()))
    assert module.get_output_embeddings().weight is module.get_input_embeddings().weight


def test_a_padding_row_stays_zero_where_the_head_shares_it() -> None:
    module: Any = started(RECIPES["bert, masked-lm"])
    assert not module.get_input_embeddings().weight[0].any()


class Silent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((3,), 0.1))


def test_a_value_that_only_the_constructor_knows() -> None:
    module = skeleton(lambda: nn.Sequential(nn.Linear(2, 2), Silent()))
    materialise(module, CPU)
    with pytest.raises(InvalidRunError, match=r"does not say how 1\.scale is initialised"):
        initialise(module, seed=1)


SHARDED = ("llama", "llama, tied", "gpt2", "resnet")


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes hold together of each of these models, after `fully_shard`."""
    folder = tmp_path_factory.mktemp("sharded")
    context, port = multiprocessing.get_context("spawn"), free_port()
    ranks = [context.Process(target=run_sharded, args=(SHARDED, rank, 2, port, folder)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    assert [rank.exitcode for rank in ranks] == [0, 0]
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARDED)
def test_shards_hold_the_same_values(name: str, sharded: Path) -> None:
    """What one process has."""
    plain = started(RECIPES[name])
    for number in range(2):
        whole: dict[str, Tensor] = torch.load(sharded / f"{name}-{number}.pt")
        assert whole.keys() == plain.state_dict().keys()
        for key, value in plain.state_dict().items():
            assert torch.equal(whole[key], value), key


MEMORY = """
import torch
from tests.trainer.model.recipes import llama
from trainwright_trainer.model.initialise import initialise, skeleton
from trainwright_trainer.training.witness import resident_peak
recipe = llama(vocab_size=4096, hidden_size=512, intermediate_size=4096, num_hidden_layers=12, num_attention_heads=8)
initialise(skeleton(llama().build), seed=1, store=lambda parameter, value: None)
before = resident_peak()
module = skeleton(recipe.build)
initialise(module, seed=1, store=lambda parameter, value: None)
grown = resident_peak() - before
sizes = [4 * parameter.numel() for parameter in module.parameters()]
print(grown, max(sizes), sum(sizes))
"""


@pytest.mark.slow
def test_the_host_holds_one_submodule_at_a_time() -> None:
    # glibc raises the size from which it returns memory at once after the first large block, and what it then keeps is not held
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**20)}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
        env=environment,
    )
    grown, largest, all_of_them = map(int, done.stdout.split())
    assert all_of_them > 300 * 2**20
    assert grown < 4 * largest + 40 * 2**20


def test_a_width_of_a_head_reaches_the_skeleton() -> None:
    assert skeleton(llama(vocab_size=300).build).get_parameter("lm_head.weight").shape == (300, 32)
