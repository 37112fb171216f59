"""DDP of torch: how long the backward passes of a rank wait for the others, by which slow ranks are found.

    from trainwright_trainer.adapters.ddp import watch

    watch(model)  # once, before the first step

What is counted goes from this rank's last gradient to the end of the pass, by the clock of what computes: on a GPU the host goes
on and the stream waits. The callbacks for transformers and Lightning call it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any
from weakref import WeakSet

import torch
from torch.autograd.graph import register_multi_grad_hook

from trainwright_trainer.run.hand import hand

_WATCHED: WeakSet[torch.nn.Module] = WeakSet()
_MOST_PAIRS = 10_000
"""Of events that nobody asked for yet: a script that says no steps must not fill the memory."""


def watch(model: torch.nn.Module) -> None:
    """From now on. Passes without communication wait for nobody; FSDP's wait elsewhere, and are not seen."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if hand().link is None or hand().world.size == 1 or not trained or model in _WATCHED:
        return
    _WATCHED.add(model)
    waits = _Waits(on_gpu=trained[0].is_cuda)
    hand().clocks.append(waits.seconds)
    # Autograd makes such calls at the end of a pass, in the order in which they were asked for, and lets them ask for more. DDP
    # asks after the last gradient, for what waits until all buckets are summed (Reducer::mark_variable_ready).
    at_the_end = torch.autograd.Variable._execution_engine.queue_callback
    register_multi_grad_hook(trained, lambda gradients: at_the_end(lambda: at_the_end(partial(waits.end, waits.now()))))


class _Waits:
    def __init__(self, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._pairs: list[tuple[Any, Any]] = []

    def now(self) -> Any:
        if not self._on_gpu:
            return time.monotonic()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def end(self, began: Any) -> None:
        """The wait that began then is over."""
        if len(self._pairs) < _MOST_PAIRS:
            self._pairs.append((began, self.now()))

    def seconds(self) -> float:
        """Of the waits that are over, since the last call; a GPU is not waited for."""
        over = [pair for pair in self._pairs if not self._on_gpu or pair[1].query()]
        self._pairs = self._pairs[len(over):]
        return float(sum(began.elapsed_time(ended) / 1000 if self._on_gpu else ended - began for began, ended in over))
