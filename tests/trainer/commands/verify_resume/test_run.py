"""Losses at another size are compared wherever they mean something."""

from __future__ import annotations

from typing import Any

import pytest
from tests.trainer.contract.specifications import LLAMA, RESNET, changed

from trainwright_trainer.commands.verify_resume.run import DROPS, STATISTICS, incomparable
from trainwright_trainer.contract import RunSpec, Training

DIGITS = {"work.task": "image-classification", "work.data": {"source": "digits"}}
VIT = {
    "architecture": "vit", "image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 10,
}
SMALL = {"n_layer": 1, "n_embd": 32, "n_head": 2}
STILL = SMALL | {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "summary_first_dropout": 0.0}



def clip(**vision: Any) -> dict[str, Any]:
    """A model whose configuration has parts."""
    part = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    sees = part | {"image_size": 8, "patch_size": 4, "num_channels": 1} | vision
    config = {"num_labels": 10, "text_config": part, "vision_config": sees}
    return DIGITS | {"work.model": {"architecture": "transformers", "model_type": "clip", "config": config}}


def gpt2(config: dict[str, Any]) -> dict[str, Any]:
    return {"work.model": {"architecture": "transformers", "model_type": "gpt2", "config": config}}


@pytest.mark.parametrize(("changes", "same_micro", "reason"), [
    ({"work.model": LLAMA}, False, None),
    (DIGITS | {"work.model": VIT}, False, None),
    (DIGITS | {"work.model": VIT | {"dropout": 0.1}}, True, DROPS),
    (DIGITS | {"work.model": RESNET}, True, None),
    (DIGITS | {"work.model": RESNET}, False, STATISTICS),
    (gpt2(SMALL), True, DROPS),
    (gpt2(STILL), False, None),
    (gpt2(STILL | {"attn_pdrop": 0.1}), True, DROPS),
    (clip(), False, None),
    (clip(attention_dropout=0.1), True, DROPS),
], ids=[
    "llama", "vit", "vit with dropout", "resnet", "resnet, other micro", "gpt2", "gpt2 without", "gpt2, attention alone",
    "clip", "clip, attention of a part",
])
def test_what_makes_them_differ_is_known(changes: dict[str, Any], same_micro: bool, reason: str | None) -> None:
    work = RunSpec.model_validate(changed(changes)).work
    assert isinstance(work, Training)
    assert incomparable(work, same_micro=same_micro) == reason
