"""The program of docs/hugging-face.md trains under the supervisor with the run beside it, saves, and resumes."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.compiler.findings.page import overlay
from tests.docs.test_snippets import Snippet, snippets
from tests.pages import DOCS, blocks
from tests.trainer.commands.program import run

from trainwright_trainer.checkpoint import CheckpointStore
from trainwright_trainer.commands.local import free_port

PAGE = DOCS / "hugging-face.md"
pytestmark = [
    pytest.mark.slow, pytest.mark.timeout(300),
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


def test_it_saves_and_goes_on_where_it_was(tmp_path: Path) -> None:
    [program] = [block.body for block in blocks(PAGE) if block.language == "python"]
    [snippet] = [one for one in snippets(PAGE) if one.block.what.startswith("run")]
    (tmp_path / "finetune.py").write_text(program)
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": " ".join(WORDS[n % 5:])}) + "\n" for n in range(64)))
    (tmp_path / "mine").mkdir()
    write_model(tmp_path / "model")
    processes = {"nodes": 1, "gpus_per_node": 0, "processes_per_node": 2}
    small = overlay(snippet.run, {"topology": processes, "resources": {"memory": "64Gi"}})
    manifests = Snippet(snippet.block, small, snippet.cluster).compiled().manifests
    [spec] = [json.loads(one["data"]["run.json"]) for one in manifests if one["kind"] == "ConfigMap"]
    here = {"/app": str(tmp_path), "/data/qwen2.5-0.5b": str(tmp_path / "model"), "/data": str(tmp_path)}

    def train(steps: int) -> str:
        words = [sys.executable, *snippet.run["workload"]["command"][1:-1], str(steps), "--save-steps", "2"]
        for there, path in here.items():
            words = [word.replace(there, path) if word.startswith(there) else word for word in words]
        spec["work"]["command"], spec["http_port"] = words, free_port()
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
