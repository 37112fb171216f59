"""Data sets that need no download."""

from typing import Annotated, Literal

from pydantic import Field

from trainwright_trainer.contract.base import Contract, Count, Fraction

DIGITS_SAMPLES = 1797
DIGITS_IMAGE_SIZE = 8
DIGITS_CLASSES = 10
BYTE_VOCABULARY = 256


class Digits(Contract):
    """The 1,797 grey 8 x 8 images of handwritten digits that scikit-learn ships (UCI ML hand-written digits)."""

    source: Literal["digits"]
    held_out: Fraction = 0.2
    """Share of the samples kept for evaluation, chosen by a fixed permutation."""

    @property
    def train_samples(self) -> int:
        return DIGITS_SAMPLES - round(DIGITS_SAMPLES * self.held_out)


class PythonSource(Contract):
    """The Python standard library's own source text on the machine that trains, cut into sequences of tokens."""

    source: Literal["python-stdlib"]
    sequence_length: Count = 128
    tokenizer: Literal["bytes", "bpe"] = "bytes"
    vocabulary: Annotated[int, Field(ge=BYTE_VOCABULARY, le=65536)] = BYTE_VOCABULARY
    """Tokens; 256 for ``bytes``, and the size that a ``bpe`` tokenizer is trained to."""
    files: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Use only the first so many files in name order."""
    held_out: Fraction = 0.05


Data = Annotated[Digits | PythonSource, Field(discriminator="source")]
