from __future__ import annotations

import numpy as np
import torch
from tests.trainer.model.recipes import LENGTH, classifier

from trainwright_trainer.data.dataset import IGNORED, Columns
from trainwright_trainer.data.order import PADDING, Samples
from trainwright_trainer.training.assembly import build_task


def test_pairs_of_texts() -> None:
    task = build_task("text-classification")
    attention = np.ones((2, LENGTH), dtype=np.int64)
    attention[1, 10:] = 0
    data = Columns({
        "inputs": np.full((2, LENGTH), 5), "attention_mask": attention, "special_tokens_mask": np.zeros((2, LENGTH), np.bool_),
        "token_types": np.zeros((2, LENGTH), dtype=np.int64), "labels": np.array([2, 1]),
    })
    ids = np.array([1, PADDING])
    batch = task.collate(data, Samples(ids, ids))
    assert batch.keys() == {"input_ids", "attention_mask", "token_type_ids", "labels"}
    assert batch["labels"].tolist() == [1, IGNORED]
    assert task.items(batch) == 1
    model = classifier().build().eval()
    measured = task.measure(model, batch)
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    torch.testing.assert_close(measured.loss, torch.nn.functional.cross_entropy(logits[:1], torch.tensor([1])))
