"""``trainwright-trainer tokenize``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from trainwright_trainer.commands.options import refusals


class Width(Enum):
    """Of one token id in a file."""

    UINT16 = "uint16"
    UINT32 = "uint32"


def tokenize(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            show_default=False,
            help="Text files (a document each), files of JSON lines (a document a line), data sets that `datasets` saved, or "
            "folders of text files and JSON lines. In the order given.",
        ),
    ],
    output: Annotated[Path, typer.Option(show_default=False, help="File of tokens to write, such as /data/train/000.bin.")],
    tokenizer: Annotated[
        str, typer.Option(show_default=False, help="A tokenizer.json, the folder that holds it, or `bytes`: one token a byte.")
    ],
    column: Annotated[str, typer.Option(help="Key of the text in JSON lines and data sets.")] = "text",
    split: Annotated[str, typer.Option(help="Split of the data sets.")] = "train",
    end_of_text: Annotated[
        str | None,
        typer.Option(show_default=False, help="Token after each document. Default: the first of the usual ones."),
    ] = None,
    dtype: Annotated[
        Width | None, typer.Option(show_default=False, help="Width of a token. Default: uint16 if the tokenizer allows it.")
    ] = None,
) -> None:
    """Write text as a file of token ids, which data source `tokens` reads, and a small JSON file beside it.

    The file appears when it is whole; one that is there is left alone. Run it once for each file of a large data set. Exit codes:
    10 it cannot be done as asked, 12 an input is missing or is no text, 203 a volume failed or is full.
    """
    with refusals():
        from trainwright_trainer.commands.tokenize import run
        from trainwright_trainer.commands.tokenize.documents import Source

        source = Source(inputs, column, split)
        record = run.tokenize(run.Request(source, output, tokenizer, end_of_text, None if dtype is None else dtype.value))
    size = f"{record.tokens:,} tokens of {record.documents:,} documents"
    typer.echo(f"ok: {output}: {size}, {record.dtype}, vocabulary {record.vocabulary:,}")
