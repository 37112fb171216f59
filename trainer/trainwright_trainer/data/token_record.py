"""The small JSON file beside a file of tokens: how it was made, so that it is not read in another way."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainwright_trainer.contract.failures import DataError
from trainwright_trainer.data.reading import reading


class TokenRecord(BaseModel):
    """What ``trainwright-trainer tokenize`` knows of the file that it wrote."""

    model_config = ConfigDict(frozen=True)

    format: Literal["trainwright tokens v1"] = "trainwright tokens v1"
    dtype: Literal["uint16", "uint32"]
    """Width of one token id, little-endian."""
    tokens: int = Field(ge=1)
    """In the file, ends of documents included."""
    documents: int = Field(ge=1)
    vocabulary: int = Field(ge=1)
    """Tokens of the tokenizer; every id is below it."""
    tokenizer: str = Field(min_length=1)
    """``bytes``, or the digest of the ``tokenizer.json``."""
    end_of_text: int = Field(ge=0)
    """Token after each document."""


def record_path(tokens: Path) -> Path:
    """``text.bin`` has its record in ``text.bin.json``."""
    return tokens.with_name(f"{tokens.name}.json")


def read_record(tokens: Path) -> TokenRecord | None:
    """The record of a file of tokens; None where another program wrote the file.

    Raises:
        DataError: There is something else in its place.
    """
    path = record_path(tokens)
    if not path.exists():
        return None
    with reading(path):
        text = path.read_bytes()
    try:
        return TokenRecord.model_validate_json(text)
    except ValidationError as error:
        where = ".".join(str(key) for key in error.errors()[0]["loc"]) or "the file"
        raise DataError(
            f"{path} does not say how {tokens.name} was tokenized ({where}: {error.errors()[0]['msg']}); "
            "write both again with `trainwright-trainer tokenize`, or remove it"
        ) from None
