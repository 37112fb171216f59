"""Small tokenizers, trained on the Python library's own text."""

from __future__ import annotations

import os
import sysconfig
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # before the first use: the library warns when a process forks after it

LIBRARY = Path(sysconfig.get_path("stdlib"))
TEXTS = [(LIBRARY / name).read_text() for name in ("abc.py", "bisect.py", "heapq.py", "textwrap.py", "cmd.py")]
END = "<|endoftext|>"


def byte_level(folder: Path, vocabulary: int = 400, special: tuple[str, ...] = (END,)) -> Path:
    """As GPT-2's: byte pairs, one token for the end of a text, nothing added to a sample."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=list(special), initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return _saved(tokenizer, folder)


def word_piece(folder: Path, vocabulary: int = 300) -> Path:
    """As BERT's: pieces of words, [CLS] and [SEP] around a sample and between a pair.

    Its pieces are letters and the most frequent words: the library's trainer breaks ties otherwise in each process.
    """
    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    words = Counter(word for text in TEXTS for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    letters = sorted(set("".join(words)))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    pieces += sorted((word for word in words if len(word) > 1), key=lambda word: (-words[word], word))
    numbered = {piece: number for number, piece in enumerate(pieces[:vocabulary])}
    tokenizer = Tokenizer(models.WordPiece(numbered, unk_token="[UNK]"))  # noqa: S106
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, splitter
    tokenizer.add_special_tokens(pieces[:5])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return _saved(tokenizer, folder)


def _saved(tokenizer: Tokenizer, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
