"""The ``trainwright`` command line: one module a command, and one place where errors become messages."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from io import TextIOWrapper
from pathlib import Path

import typer

from trainwright.cli import check, explain, init, plan, rehearse, roll, rules, schema, synth, validate
from trainwright.cli.exit import Exit
from trainwright.cli.session import say, show
from trainwright.findings import CompileError

app = typer.Typer(
    name="trainwright",
    help="Compile typed descriptions of distributed training runs into reviewed Kubernetes YAML.\n\n"
    "Exit codes: 0 in order; 1 findings, or dist/ is not what the runs compile to; 2 wrong usage; 3 Node, disk or another part "
    "of the environment is missing; 70 a defect of trainwright.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for module in (synth, check, plan, explain, roll, schema, rules, init, rehearse, validate):
    app.command(name=module.__name__.rpartition(".")[2])(module.command)


def main() -> None:
    """Run the command line; whatever goes wrong ends as one message and a documented exit code."""
    # pydantic would look for plugins in the metadata of every installed package
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows a question mark
    try:
        app()
    except CompileError as error:
        show(error.findings)
        sys.exit(Exit.FINDINGS)
    except (OSError, UnicodeError) as error:
        say(f"trainwright: {error}")
        sys.exit(Exit.ENVIRONMENT)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        say(f"trainwright: internal error, {type(error).__name__}: {error}\nPlease report it with {_keep_traceback()}")
        sys.exit(Exit.INTERNAL)


def _keep_traceback() -> Path:
    with tempfile.NamedTemporaryFile("w", prefix="trainwright-", suffix=".txt", delete=False) as file:
        traceback.print_exc(file=file)
    return Path(file.name)
