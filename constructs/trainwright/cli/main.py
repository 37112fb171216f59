"""The ``trainwright`` command line: one module a command, and one place where errors become messages."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from trainwright.cli.session import Exit, output, reader_left, say, show
from trainwright.findings import CompileError

COMMANDS = (
    "list", "synth", "check", "diff", "plan", "explain", "roll", "hold", "pause", "resume", "retire", "apply",
    "schema", "rules", "policies", "new", "init", "import", "rehearse", "validate", "crds", "images", "runtimes", "page",
    "status", "logs", "diagnose", "collect",
)
"""In the order of the help."""


def command_line(asked: str | None = None) -> typer.Typer:
    """The program with the command that is asked for, or with all of them, so that the help can list them."""
    app = typer.Typer(
        name="trainwright",
        help="Compile typed descriptions of distributed training runs into reviewed Kubernetes YAML.\n\n"
        "Exit codes: 0 in order; 1 findings, or dist/ is not what the runs compile to; 2 wrong usage; 3 Node, kubectl, disk "
        "or something else around it is missing; 70 a defect of trainwright; 141 the reader of its output went away.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        cls=_Program,
    )
    app.callback()(_options)
    for name in [asked] if asked in COMMANDS else COMMANDS:
        module = f"{name}_" if iskeyword(name) else name
        app.command(name=name)(import_module(f"trainwright.cli.{module}").command)
    return app


class _Program(typer.core.TyperGroup):
    """Typer's group, with what its libraries say of a wrong value in plain words, and an end of its own for a broken pipe."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # pydantic's
            raise
        except BrokenPipeError:  # Typer would end with 1, as for a finding
            reader_left()


def _print_version(asked: bool) -> None:
    if asked:
        output(f"trainwright {version('trainwright')}")
        raise typer.Exit


VersionOption = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")]


def _options(version: VersionOption = False) -> None:
    """What may stand before a command."""


def main() -> None:
    """Run the command line; whatever goes wrong ends as one message and a documented exit code."""
    # pydantic would look for plugins in the metadata of every installed package
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows a question mark
    try:
        command_line(*sys.argv[1:2])()
    except CompileError as error:
        show(error.findings)
        sys.exit(Exit.FINDINGS)
    except BrokenPipeError:
        reader_left()
    except OSError as error:
        say(f"trainwright: {error.filename}: {error.strerror}" if error.filename and error.strerror else f"trainwright: {error}")
        sys.exit(Exit.ENVIRONMENT)
    except UnicodeError as error:
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
