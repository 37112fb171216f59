"""Random first values: a model's own initialisation, run piece by piece on the host.

``_init_weights`` of ``transformers`` is called for one submodule at a time and mostly writes that submodule's own parameters, but
not always: in GPT-2 the attention rescales the weights of a layer inside it. So the calls are tried on twins without memory
first, to see which parameters each writes. Parameters that a common call writes are then filled together, by the same calls in
the same order, on twins with memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.initialization import TORCH_INIT_FUNCTIONS, guard_torch_init_functions

from trainwright_trainer.contract.failures import InvalidRunError
from trainwright_trainer.rank import random_state

_META = torch.device("meta")


@dataclass(eq=False, slots=True)
class _Weight:
    """One parameter, under the first of its names."""

    name: str
    parameter: nn.Parameter
    twin: nn.Module
    key: str
    """Where it is in its owner's twin."""

    def hold(self, device: torch.device) -> Tensor:
        # DeepSpeed keeps no elements in a parameter that it partitioned, and its shape as `ds_shape`.
        shape = getattr(self.parameter, "ds_shape", self.parameter.shape)
        tensor = torch.empty(tuple(shape), dtype=self.parameter.dtype, device=device)
        self.twin._parameters[self.key] = nn.Parameter(tensor, requires_grad=False)
        return tensor

    @property
    def version(self) -> int:
        return cast("nn.Parameter", self.twin._parameters[self.key])._version


@dataclass(frozen=True, slots=True)
class _Call:
    """Initialisation of one submodule."""

    order: int
    name: str
    run: Callable[[], None]


@dataclass(eq=False, slots=True)
class _Group:
    """Parameters that are filled together, and the calls that do it, in order."""

    weights: list[_Weight] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)


@torch.no_grad()
def fill(module: nn.Module, seed: int, but: frozenset[str], store: Callable[[nn.Parameter, Tensor], None]) -> None:
    """Store a first value for each parameter of ``module`` whose name is not in ``but``.

    Raises:
        InvalidRunError: A parameter is written by no call, so that its first value is only known to ``__init__``.
    """
    weights, calls = _twins(module)
    with torch.random.fork_rng(devices=[]):
        groups = _groups(weights, calls)
        _refuse_unwritten(module, weights, groups, but)
        for group in groups:
            wanted = [weight for weight in group.weights if weight.name not in but]
            if not wanted:
                continue
            values = {weight: weight.hold(torch.device("cpu")) for weight in group.weights}
            for call in group.calls:
                # The host's generator alone: a GPU's belongs to dropout.
                torch.default_generator.manual_seed(random_state.seed_for(seed, f"model {call.name}"))
                call.run()
            for weight in wanted:
                store(weight.parameter, values[weight])
            for weight in group.weights:
                weight.hold(_META)


def _twins(module: nn.Module) -> tuple[list[_Weight], list[_Call]]:
    """A twin of each submodule whose parameters have no memory, with what initialises it; children before their parents."""
    twins: dict[nn.Module, nn.Module] = {}
    weights: dict[nn.Parameter, _Weight] = {}
    calls: list[_Call] = []
    # By first name, as `named_parameters` and our checkpoints have it.
    names = {parameter: name for name, parameter in module.named_parameters()}

    def visit(original: nn.Module, name: str, model: PreTrainedModel | None) -> nn.Module:
        if original in twins:
            return twins[original]
        # Not copy.copy: `fully_shard` makes `__new__` of its classes build something else.
        twin = object.__new__(type(original))
        twins[original] = twin
        twin.__dict__.update(original.__dict__)
        if isinstance(twin, PreTrainedModel):
            model = twin
        prefix = f"{name}." if name else ""
        twin.__dict__["_modules"] = {
            key: child if child is None else visit(child, f"{prefix}{key}", model) for key, child in original._modules.items()
        }
        twin.__dict__["_parameters"] = dict(original._parameters)
        for key, parameter in original._parameters.items():
            if parameter is None:
                continue
            weight = _Weight(names[parameter], parameter, twin, key)
            weight.hold(_META)  # where it is tied to an earlier one, it stays there, and what is written to it is lost
            if weight.name == f"{prefix}{key}":
                weights[parameter] = weight
        run = _initialisation(twin, model)
        if run is not None:
            calls.append(_Call(len(calls), name, run))
        return twin

    visit(module, "", None)
    return list(weights.values()), calls


def _initialisation(twin: nn.Module, model: PreTrainedModel | None) -> Callable[[], None] | None:
    if model is not None:
        return lambda: model._init_weights(twin)  # type: ignore[no-untyped-call]
    reset = getattr(twin, "reset_parameters", None)
    return cast("Callable[[], None] | None", reset) if callable(reset) else None


def _groups(weights: Iterable[_Weight], calls: Iterable[_Call]) -> list[_Group]:
    """Try each call without memory, and join what it writes."""
    weights = list(weights)
    group_of: dict[_Weight, _Group] = {}
    for call, written in _written(weights, calls):
        if not written:
            continue
        joined = _Group()
        for group in dict.fromkeys(group_of[weight] for weight in written if weight in group_of):
            joined.weights += group.weights
            joined.calls += group.calls
        joined.weights += [weight for weight in written if weight not in group_of]
        joined.calls = sorted([*joined.calls, call], key=lambda each: each.order)
        group_of.update(dict.fromkeys(joined.weights, joined))
    return list(dict.fromkeys(group_of.values()))


def _written(weights: list[_Weight], calls: Iterable[_Call]) -> Iterator[tuple[_Call, list[_Weight]]]:
    versions = [weight.version for weight in weights]
    for call in calls:
        with _marking():
            call.run()
        now = [weight.version for weight in weights]
        yield call, [weight for weight, before, after in zip(weights, versions, now, strict=True) if before != after]
        versions = now


@contextmanager
def _marking() -> Iterator[None]:
    """Let every function of ``torch.nn.init`` write to a tensor without memory; some of them leave such a tensor alone."""
    originals = dict(cast("dict[str, Callable[..., Tensor]]", TORCH_INIT_FUNCTIONS))

    def marking(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def mark(tensor: Tensor, *args: Any, **settings: Any) -> Tensor:
            return tensor.zero_() if tensor.is_meta else original(tensor, *args, **settings)

        return mark

    TORCH_INIT_FUNCTIONS.update({name: marking(original) for name, original in originals.items()})
    try:
        with guard_torch_init_functions():  # torch's own modules call these then, too
            yield
    finally:
        TORCH_INIT_FUNCTIONS.update(originals)


def _refuse_unwritten(module: nn.Module, weights: list[_Weight], groups: list[_Group], but: frozenset[str]) -> None:
    written = {weight for group in groups for weight in group.weights}
    for weight in weights:
        if weight not in written and weight.name not in but:
            kind = getattr(cast("Any", module), "config", None)
            named = getattr(kind, "model_type", type(module).__name__)
            raise InvalidRunError(
                f"model_type {named} does not say how {weight.name} is initialised, so it cannot start from random weights here; "
                "name a directory in initial_weights that holds it, or use another model_type"
            )
