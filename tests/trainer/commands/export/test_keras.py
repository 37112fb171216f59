"""What engine tensorflow wrote becomes a model of transformers that computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.engines.tensorflow.keras_weights import LOGITS, MODELS, SHAPES, images_of, of_keras

from trainwright_trainer.checkpoint import CheckpointStore, CommitRecord, array_file
from trainwright_trainer.checkpoint.record import TRAINED, Trained
from trainwright_trainer.commands.export.run import Request, export
from trainwright_trainer.contract.failures import InvalidRunError


def commit(folder: Path, name: str, metadata: dict[str, Any]) -> None:
    store = CheckpointStore(folder)
    draft = store.begin(3, "a")
    arrays = {path: np.ascontiguousarray(of_keras(path, shape)) for path, shape in SHAPES[name].items()}
    store.commit(CommitRecord(
        identity="run-1", attempt="a", step=3, samples_consumed=3, world_size=2, metadata=metadata,
        files=(draft.write("model.safetensors", array_file.encode(arrays)),),
    ))


def trained(name: str) -> dict[str, Any]:
    data = {"source": "image-folder", "path": "/data", "image_size": 8, "classes": 10}
    described = {"task": "image-classification", "model": MODELS[name].model_dump(mode="json"), "data": data}
    return {TRAINED: Trained.model_validate(described).model_dump(mode="json")}


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_model_of_keras(name: str, tmp_path: Path) -> None:
    commit(tmp_path / "run", name, trained(name))
    done = export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))
    assert done.architecture in ("ViTForImageClassification", "ResNetForImageClassification")
    model, report = getattr(transformers, done.architecture).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    with torch.no_grad():
        logits = model.eval()(torch.from_numpy(images_of(MODELS[name]))).logits
    np.testing.assert_allclose(logits.numpy(), LOGITS[name], rtol=2e-4, atol=2e-4)


def test_another_model_is_refused(tmp_path: Path) -> None:
    commit(tmp_path / "run", "basic", trained("bottleneck"))
    with pytest.raises(InvalidRunError, match=r"step 3 is not of the specification's model: "):
        export(Request(str(tmp_path / "run"), tmp_path / "out", Path("/none")))
