"""Where samples come from: two sources that need no download, and the forms in which people keep their own data.

Each answers ``train_samples``, the samples of one epoch where they are known beforehand, and sources of text
``sequence_length``, the tokens of one sample.
"""

from typing import Annotated, Literal

from pydantic import Field

from trainwright_trainer.contract.base import AbsolutePath, Contract, Count, EntryName, Fraction, ListOf

DIGITS_SAMPLES = 1797
DIGITS_IMAGE_SIZE = 8
DIGITS_CLASSES = 10
BYTE_VOCABULARY = 256
UINT16_TOKENS = 2**16
"""Token ids that two bytes can tell apart."""

ColumnName = Annotated[str, Field(min_length=1, max_length=256)]


class Digits(Contract):
    """The 1,797 grey 8 x 8 images of handwritten digits that scikit-learn ships (UCI ML hand-written digits)."""

    source: Literal["digits"] = "digits"
    held_out: Fraction = 0.2
    """Share of the samples kept for evaluation, chosen by a fixed permutation."""

    @property
    def train_samples(self) -> int:
        return DIGITS_SAMPLES - round(DIGITS_SAMPLES * self.held_out)


class PythonSource(Contract):
    """The Python standard library's own source text on the machine that trains, cut into sequences of tokens."""

    source: Literal["python-stdlib"] = "python-stdlib"
    sequence_length: Count = 128
    """Tokens of one sample."""
    tokenizer: Literal["bytes", "bpe"] = "bytes"
    """One token per byte, or byte pairs learned from the same text."""
    vocabulary: Annotated[int, Field(ge=BYTE_VOCABULARY, le=65536)] = BYTE_VOCABULARY
    """Number of tokens: 256 for ``bytes``, or the size to which a ``bpe`` tokenizer is trained."""
    files: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Use only this many files, the first in name order."""
    held_out: Fraction = 0.05
    """Share of the samples kept for evaluation."""

    @property
    def train_samples(self) -> None:
        """Only the machine that trains can tell."""


class TokenFiles(Contract):
    """Text that is already tokenized: files of plain little-endian token ids, memory-mapped and cut into sequences."""

    source: Literal["tokens"] = "tokens"
    path: AbsolutePath
    """A ``.bin`` file, or a directory whose ``.bin`` files are read in name order."""
    sequence_length: Count
    """Tokens of one sample."""
    dtype: Literal["uint16", "uint32"] = "uint16"
    """Width of one token id in the files."""
    vocabulary: Count | None = None
    """Number of tokens of the tokenizer that made the files; set it to have it checked against the model."""
    samples: Count | None = None
    """Number of sequences in all files, if known: gives the plan a number of steps, and the trainer refuses any other number."""
    held_out: Fraction = 0.05
    """Share of the samples kept for evaluation."""

    @property
    def train_samples(self) -> int | None:
        return None if self.samples is None else self.samples - round(self.samples * self.held_out)


class ImageFolder(Contract):
    """Image files in one folder per class, as in ImageNet: ``<path>/<train>/<class>/<image>``."""

    source: Literal["image-folder"] = "image-folder"
    path: AbsolutePath
    """Directory with the two folders below."""
    train_folder: EntryName = "train"
    """Images to learn from."""
    evaluation_folder: EntryName = "val"
    """Images to evaluate on."""
    image_size: Count
    """Pixels per side, after resizing and cropping."""
    channels: Literal[1, 3] = 3
    """Colours: 1 for grey."""
    classes: Count
    """Number of class folders in each of the two."""
    samples: Count | None = None
    """Number of images in ``train_folder``, if known: gives the plan a number of steps, and the trainer refuses any other
    number.
    """

    @property
    def train_samples(self) -> int | None:
        return self.samples


class HFDataset(Contract):
    """A data set of text as ``datasets.save_to_disk`` wrote it, tokenized while it is read."""

    source: Literal["hf-dataset"] = "hf-dataset"
    path: AbsolutePath
    """Directory of a ``DatasetDict``."""
    train_split: EntryName = "train"
    """Samples to learn from."""
    evaluation_split: EntryName = "validation"
    """Samples to evaluate on."""
    text_columns: Annotated[ListOf[ColumnName], Field(min_length=1, max_length=2)] = ("text",)
    """One column of text, or two that are read as a pair."""
    label_column: ColumnName | None = None
    """Column of class numbers (text-classification)."""
    classes: Count | None = None
    """Classes in it (text-classification)."""
    tokenizer: AbsolutePath
    """Directory with ``tokenizer.json``."""
    vocabulary: Count | None = None
    """Number of tokens of the tokenizer; set it to have it checked against the model."""
    max_length: Count
    """Tokens to which each sample is cut."""
    samples: Count | None = None
    """Number of rows of ``train_split``, if known: gives the plan a number of steps, and the trainer refuses any other number."""

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
    """A file, or a directory whose files are assigned to the workers in name order."""
    evaluation_path: AbsolutePath | None = None
    """Rows to evaluate on; without it, the metrics are computed on the training rows."""
    label: ColumnName | None = None
    """Column of the label (csv and parquet); libsvm puts it first in each row."""


Data = Annotated[Digits | PythonSource | TokenFiles | ImageFolder | HFDataset, Field(discriminator="source")]
"""What our trainer's tasks read."""
