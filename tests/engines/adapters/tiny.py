"""A chat model of a few thousand parameters with its tokenizer, what it is fine-tuned on, and series to forecast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

UNKNOWN = "<unk>"
WORDS = ["<pad>", "<eos>", UNKNOWN, "user", "assistant", ":", *(f"w{number}" for number in range(58))]
TEMPLATE = "{% for message in messages %}{{ message['role'] }} : {{ message['content'] }} <eos> {% endfor %}"


def write_model(folder: Path) -> None:
    """As ``save_pretrained`` writes it."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed

    set_seed(1)
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token=UNKNOWN))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=words, pad_token=WORDS[0], eos_token=WORDS[1], unk_token=UNKNOWN,
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    LlamaForCausalLM(LlamaConfig(
        vocab_size=len(WORDS), max_position_embeddings=64, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, bos_token_id=None, pad_token_id=0, eos_token_id=1,
    )).save_pretrained(folder)


def write_conversations(path: Path, number: int = 256) -> None:
    """A line each, in the form that TRL reads."""
    _write_lines(path, [{"messages": [_turn("user", one), _turn("assistant", one + 1)]} for one in range(number)])


def write_preferences(path: Path, number: int = 256) -> None:
    """A line each, in the form that TRL reads: of two answers to a prompt, the one that is liked better."""
    _write_lines(path, [
        {"prompt": [_turn("user", one)], "chosen": [_turn("assistant", one + 1)], "rejected": [_turn("assistant", one + 5)]}
        for one in range(number)
    ])


def _turn(role: str, seed: int) -> dict[str, str]:
    return {"role": role, "content": " ".join(f"w{(seed * 7 + position * 3) % 58}" for position in range(6))}


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_series(path: Path) -> None:
    """Hourly values of four things, each with its own day."""
    hours = np.arange(400)
    np.save(path, np.stack([np.sin(hours * 2 * np.pi / 24 + phase) for phase in range(4)]).astype(np.float32))


def write_texts(path: Path, number: int = 256) -> None:
    """A line each."""
    _write_lines(path, [{"text": _turn("user", one)["content"]} for one in range(number)])
