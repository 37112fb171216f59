"""The Python standard library's own sources, as sequences of tokens."""

from __future__ import annotations

import hashlib
import os
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainwright_trainer.contract.data import PythonSource
from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.dataset import Columns, Dataset

_SKIPPED_FOLDERS = frozenset({
    "__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "ensurepip", "lib-dynload",
})
_FILE_END = b"\0"
"""Separates files; no Python source contains it."""

Tokens = npt.NDArray[np.uint16]


def load(data: PythonSource) -> Dataset:
    """Columns ``inputs`` and ``targets``, uint16 ``(n, sequence_length)``: targets are the inputs' next tokens.

    Whole files are held out, those whose content has the lowest digests, so that a held-out text was never seen.

    Raises:
        DataError: The sources are not on this machine, or too short for one sequence in each split.
    """
    found = list(_texts(_source_files(Path(sysconfig.get_path("stdlib")), data.files)))
    by_digest = sorted(found, key=lambda text: hashlib.sha256(text).digest())
    held_out_files = set(by_digest[:max(1, round(len(found) * data.held_out))])
    train = [text for text in found if text not in held_out_files]
    held_out = [text for text in found if text in held_out_files]
    if not train:
        raise DataError(f"{len(found)} files of source are too few to hold some out; raise data.files")
    encode = _encoder(data, train)
    digest = hashlib.sha256(f"python-stdlib v1:{data.sequence_length}:{data.tokenizer}:{data.vocabulary}".encode())
    parts = (("training", train), ("held-out", held_out))
    splits = [_sequences(name, encode(texts), data.sequence_length) for name, texts in parts]
    for split in splits:
        digest.update(len(split).to_bytes(8, "little"))
        digest.update(split.columns["inputs"].tobytes())
        digest.update(split.columns["targets"].tobytes())
    return Dataset(splits[0], splits[1], digest.hexdigest(), data.vocabulary)


def _source_files(root: Path, limit: int | None) -> list[Path]:
    """Python files in the order of their relative names, without tests, packages installed beside, and generated files."""
    found: dict[str, Path] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("config-")]
        for name in files:
            path = Path(folder, name)
            # _sysconfigdata holds paths of the build machine; links (Debian's sitecustomize.py) point out of the library.
            if name.endswith(".py") and not name.startswith("_sysconfigdata") and not path.is_symlink():
                found[path.relative_to(root).as_posix()] = path
    if not found:
        raise DataError(f"no Python sources under {root}: this Python keeps its standard library elsewhere, or in a zip file")
    return [found[name] for name in sorted(found)][:limit]


def _texts(files: Iterable[Path]) -> Iterable[bytes]:
    for path in files:
        try:
            text = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        if text.strip():
            yield text.replace(_FILE_END, b"")


def _encoder(data: PythonSource, train: list[bytes]) -> Callable[[list[bytes]], Tokens]:
    if data.tokenizer == "bytes":
        return lambda texts: np.frombuffer(_FILE_END.join([*texts, b""]), dtype=np.uint8).astype(np.uint16)
    return _byte_pair_encoder(data.vocabulary, train)


def _byte_pair_encoder(vocabulary: int, train: list[bytes]) -> Callable[[list[bytes]], Tokens]:
    """A byte-level BPE with ``vocabulary`` tokens, trained on the training files alone."""
    # The library warns and changes its thread pool when a process forks after its first use; one thread also keeps the
    # order of merges away from scheduling.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False,
    )
    tokenizer.train_from_iterator((text.decode("utf-8", "replace") for text in train), trainer)
    if tokenizer.get_vocab_size() > vocabulary:
        raise DataError(f"the tokenizer has {tokenizer.get_vocab_size()} tokens instead of at most {vocabulary}")

    def encode(texts: list[bytes]) -> Tokens:
        ends = [text.decode("utf-8", "replace") + _FILE_END.decode() for text in texts]
        return np.concatenate([np.asarray(encoding.ids, dtype=np.uint16) for encoding in tokenizer.encode_batch(ends)])

    return encode


def _sequences(name: str, tokens: Tokens, length: int) -> Columns:
    """Cut a stream into sequences whose targets are shifted by one; what does not fill a sequence at the end is left out."""
    count = (len(tokens) - 1) // length
    if count < 1:
        raise DataError(f"the {name} text has {len(tokens)} tokens, too few for one sequence of {length}; raise data.files")
    return Columns({
        "inputs": tokens[:count * length].reshape(count, length),
        "targets": tokens[1:count * length + 1].reshape(count, length),
    })
