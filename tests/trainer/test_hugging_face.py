"""The run qwen-texts, which docs/hugging-face.md shows, trains as it is in dist/ under the supervisor, saves, and resumes."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.recipes import recipe
from tests.trainer.commands.program import run

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.commands.local import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed; `make test` installs it"),
]  # fmt: skip
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]


def write_model(folder: Path) -> None:
    """A model of a few thousand parameters, and its tokenizer."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<unk>", "<pad>", *dict.fromkeys(WORDS)]
    unknown, padding = words[:2]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token=unknown))
    tokenizer.pre_tokenizer = Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=unknown, pad_token=padding)  # type: ignore[no-untyped-call]
    fast.save_pretrained(folder)
    configuration = LlamaConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2,
    )  # fmt: skip
    LlamaForCausalLM(configuration).save_pretrained(folder)


@pytest.mark.rehearsal
def test_it_saves_and_goes_on_where_it_was(tmp_path: Path) -> None:
    found = recipe("qwen-texts", tmp_path)
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": " ".join(WORDS[n % 5:])}) + "\n" for n in range(64)))
    (tmp_path / "mine").mkdir()
    write_model(tmp_path / "model")
    spec = found.specification
    spec["world"] |= {"nodes": 1, "processes_per_node": 2, "device": "cpu"}
    here = {"model": str(tmp_path / "model"), "texts": str(tmp_path / "texts.jsonl"), "save_steps": 2}

    def train(steps: int) -> str:
        spec["work"] |= {"command": [sys.executable, str(found.program)], "config": found.config | here | {"steps": steps}}
        spec["http_port"] = free_port()
        (tmp_path / "run.json").write_text(json.dumps(spec))
        (tmp_path / "mine" / "COMPLETE").unlink(missing_ok=True)
        return "".join(run(tmp_path, "train", "--spec", "run.json", "--directory", "mine"))

    train(2)
    (tmp_path / "mine" / "trainer" / "checkpoint-3").mkdir()  # cut off before its last file
    train(4)
    store = CheckpointStore(tmp_path / "mine")
    newest, before = store.records()
    assert (newest.step, before.step) == (4, 2)
    assert not store.verify(newest)
    state = json.loads(store.path(newest, "trainer_state.json").read_text())
    assert state["global_step"] == 4
    assert state["train_batch_size"] == 2
    assert (tmp_path / "mine" / "final" / "config.json").is_file()
