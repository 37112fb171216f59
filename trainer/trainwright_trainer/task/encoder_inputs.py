"""What an encoder of text reads, under the names that ``transformers`` gives its arguments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from trainwright_trainer.data.dataset import Array

_ARGUMENTS = {"attention_mask": "attention_mask", "token_types": "token_type_ids"}


def encoder_inputs(columns: Mapping[str, Array], tokens: Array) -> dict[str, Tensor]:
    """``input_ids`` from ``tokens`` ``(n, length)``, and of the data's other columns those that a model takes. All int64."""
    others = {argument: columns[name] for name, argument in _ARGUMENTS.items() if name in columns}
    return {name: torch.from_numpy(column.astype(np.int64)) for name, column in {"input_ids": tokens, **others}.items()}
