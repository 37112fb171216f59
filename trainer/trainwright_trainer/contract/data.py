"""Where samples come from: two sources that need no download, and the forms in which people keep their own data.

Each answers ``train_samples``, the samples of one epoch where they are known beforehand, and sources of text
``sequence_length``, the tokens of one sample.
"""

from typing import Annotated, Literal

from pydantic import Field

from trainwright_trainer.contract.base import AbsolutePath, Contract, Count, EntryName, Fraction

DIGITS_SAMPLES = 1797
DIGITS_IMAGE_SIZE = 8
DIGITS_CLASSES = 10
BYTE_VOCABULARY = 256
UINT16_TOKENS = 2**16
"""Token ids that two bytes can tell apart."""

ColumnName = Annotated[str, Field(min_length=1, max_length=256)]


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
    """Tokens of one sample."""
    tokenizer: Literal["bytes", "bpe"] = "bytes"
    """One token a byte, or byte pairs learnt from the same text."""
    vocabulary: Annotated[int, Field(ge=BYTE_VOCABULARY, le=65536)] = BYTE_VOCABULARY
    """Tokens; 256 for ``bytes``, and the size that a ``bpe`` tokenizer is trained to."""
    files: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Use only the first so many files in name order."""
    held_out: Fraction = 0.05
    """Share of the samples kept for evaluation."""

    @property
    def train_samples(self) -> None:
        """Only the machine that trains can tell."""


class TokenFiles(Contract):
    """Text that is tokenized already: files of bare little-endian token ids, mapped into memory and cut into sequences."""

    source: Literal["tokens"]
    path: AbsolutePath
    """A ``.bin`` file, or a directory whose ``.bin`` files are read in name order."""
    sequence_length: Count
    """Tokens of one sample."""
    dtype: Literal["uint16", "uint32"] = "uint16"
    """Width of one token id in the files."""
    vocabulary: Count | None = None
    """Tokens of the tokenizer that made the files, where the run wants it checked against the model."""
    samples: Count | None = None
    """Sequences in all files, where known: gives the plan a number of steps, and the trainer refuses files that hold another."""
    held_out: Fraction = 0.05
    """Share of the samples kept for evaluation."""

    @property
    def train_samples(self) -> int | None:
        return None if self.samples is None else self.samples - round(self.samples * self.held_out)


class ImageFolder(Contract):
    """Image files in one folder for each class, as ImageNet is kept: ``<path>/<train>/<class>/<image>``."""

    source: Literal["image-folder"]
    path: AbsolutePath
    """Directory with the two folders below."""
    train_folder: EntryName = "train"
    """Images to learn from."""
    evaluation_folder: EntryName = "val"
    """Images to evaluate on."""
    image_size: Count
    """Pixels a side, after resizing and cropping."""
    channels: Literal[1, 3] = 3
    """Colours: 1 for grey."""
    classes: Count
    """Folders of classes in each of the two."""
    samples: Count | None = None
    """Images in ``train_folder``, where known: gives the plan a number of steps, and the trainer refuses another number."""

    @property
    def train_samples(self) -> int | None:
        return self.samples


class HFDataset(Contract):
    """A data set of text as ``datasets.save_to_disk`` wrote it, tokenized while it is read."""

    source: Literal["hf-dataset"]
    path: AbsolutePath
    """Directory of a ``DatasetDict``."""
    train_split: EntryName = "train"
    """Samples to learn from."""
    evaluation_split: EntryName = "validation"
    """Samples to evaluate on."""
    text_columns: Annotated[tuple[ColumnName, ...], Field(min_length=1, max_length=2)] = ("text",)
    """One column of text, or two that are read as a pair."""
    label_column: ColumnName | None = None
    """Column of class numbers (text-classification)."""
    classes: Count | None = None
    """Classes in it (text-classification)."""
    tokenizer: AbsolutePath
    """Directory with ``tokenizer.json``."""
    vocabulary: Count | None = None
    """Tokens of the tokenizer, where the run wants it checked against the model."""
    max_length: Count
    """Tokens to which each sample is cut."""
    samples: Count | None = None
    """Rows of ``train_split``, where known: gives the plan a number of steps, and the trainer refuses another number."""

    @property
    def train_samples(self) -> int | None:
        return self.samples

    @property
    def sequence_length(self) -> int:
        return self.max_length


class Table(Contract):
    """Rows of features and a label, for boosting."""

    source: Literal["table"]
    format: Literal["csv", "parquet", "libsvm"]
    """Of the files."""
    path: AbsolutePath
    """A file, or a directory whose files are dealt out to the workers in name order."""
    evaluation_path: AbsolutePath | None = None
    """Rows to evaluate on; without it the metrics are of the training rows."""
    label: ColumnName | None = None
    """Column of the label (csv and parquet); libsvm puts it first in each row."""


Data = Annotated[Digits | PythonSource | TokenFiles | ImageFolder | HFDataset, Field(discriminator="source")]
"""What our trainer's tasks read."""
