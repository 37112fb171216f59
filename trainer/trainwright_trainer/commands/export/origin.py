"""What an export keeps of the directory that a run started from: all that training did not change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from trainwright_trainer.checkpoint import CommitRecord
from trainwright_trainer.checkpoint.record import INITIAL_WEIGHTS
from trainwright_trainer.checkpoint.storage import storage_errors
from trainwright_trainer.contract.failures import InvalidRunError, PodError
from trainwright_trainer.contract.spec_file import read_specification
from trainwright_trainer.contract.training import Training
from trainwright_trainer.model.weights import CONFIG_FILE
from trainwright_trainer.observe.log import get_log

_OF_TEXTS = "generation_config.json"
_KEPT = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt",
    "merges.txt", "*.model", "*.tiktoken", "chat_template.jinja", "chat_template.json", "additional_chat_templates/*.jinja",
    "preprocessor_config.json", "processor_config.json",
)
"""Files of a tokenizer, its chat templates and of what prepares images, as ``save_pretrained`` of each writes them."""
_OF_HEAD = ("id2label", "label2id", "problem_type", "pad_token_id")
"""Keys of ``config.json`` that go with a task's head, or that a classifier of texts needs."""


def initial_weights_of(record: CommitRecord, specification: Path) -> Path | None:
    """Where the run started from, as the checkpoint says; one by an older trainer does not, and then its specification may."""
    said = record.metadata.get(INITIAL_WEIGHTS)
    if said is None and specification.is_file():
        try:
            spec = read_specification(specification).spec
        except PodError:
            return None
        if isinstance(spec.work, Training) and spec.identity == record.identity:  # in a pod it may be of any other run
            said = spec.work.initial_weights
    if said is None:
        return None
    path = Path(str(said))
    if path.is_dir():
        return path
    reason = f"{path} is not there, where the run started from: config.json is of the run's model, and its tokenizer is not kept"
    get_log().warning("origin_not_found", reason=reason)
    return None


def save_configuration(module: Any, draft: Path, origin: Path | None) -> None:
    """Write ``config.json``, and what else the origin has.

    Raises :class:`InvalidRunError` where the origin's ``config.json`` cannot be read.
    """
    module.config.architectures = [type(module).__name__]
    module.config.save_pretrained(draft)
    if origin is None:
        return
    names = [path for pattern in _KEPT for path in sorted(origin.glob(pattern))]
    if module.can_generate() and (origin / _OF_TEXTS).is_file():
        names.append(origin / _OF_TEXTS)
    for path in names:
        target = draft / path.relative_to(origin)
        with storage_errors("write", target):
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
    if (origin / CONFIG_FILE).is_file():
        ours = json.loads((draft / CONFIG_FILE).read_text(encoding="utf-8"))
        text = json.dumps(_merged(_read(origin / CONFIG_FILE), ours), indent=2, sort_keys=True) + "\n"
        (draft / CONFIG_FILE).write_text(text, encoding="utf-8")


def _merged(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Theirs, with what training changed: it refuses to start where both describe different functions of the weights."""
    changed: dict[str, Any] = {key: ours[key] for key in ("architectures", "tie_word_embeddings") if key in ours}
    changed["dtype"] = "float32"
    if theirs.get("architectures") != ours.get("architectures"):
        theirs = {key: value for key, value in theirs.items() if key not in _OF_HEAD[:3] and key != "num_labels"}
        changed |= {key: ours[key] for key in _OF_HEAD if ours.get(key) is not None}
    elif len(ours.get("id2label") or ()) != len(theirs.get("id2label") or ours.get("id2label") or ()):
        changed |= {key: ours[key] for key in _OF_HEAD[:2] if key in ours}
        theirs = {key: value for key, value in theirs.items() if key != "num_labels"}
    return {key: value for key, value in theirs.items() if key != "torch_dtype"} | changed


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidRunError(f"{path} cannot be read: {error}") from error
    return content if isinstance(content, dict) else {}
