"""Runs written in Python: a module that exports RUN, executed without cdk8s."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, ModuleType, TracebackType

from pydantic import BaseModel, ValidationError

from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import NOTHING, Taken
from trainwright.reading import refused, validate, validate_data
from trainwright.reading.defaults import DefaultsFile
from trainwright.reading.document import Document, read_text, shorten
from trainwright.run import Run


def load_python_run(path: Path, shown: str | None = None, defaults: DefaultsFile | None = None) -> tuple[Run, Taken]:
    """Execute a module and take its RUN: a :class:`~trainwright.run.Run`, or a dict of plain values that describes one.

    What the run does not state itself is as the defaults say, and returned beside it: of a :class:`Run` what its constructor was
    not given.

    The module leaves no ``__pycache__``, its prints go to stderr, and imports of cdk8s, constructs and jsii fail in it.

    Args:
        path: the module.
        shown: the name that findings give it; default: the path.
        defaults: what the project's runs have in common.

    Raises:
        CompileError: TW101 where it cannot be read, TW108 where it fails or exports no run, and TW105 to TW107 for what a model
            refuses, on the line of the module that made it.
    """
    file = shown or str(path)
    text = read_text(path, shown)
    exported = _execute(path, text, file)
    assigned = re.search(r"^RUN\b", text, re.MULTILINE)
    line = text.count("\n", 0, assigned.start()) + 1 if assigned else 1
    if isinstance(exported, Run):
        if defaults is None:
            return validate_data(Run, exported, file, {"": (line, 1)}), NOTHING
        data, taken = defaults.beneath({name: getattr(exported, name) for name in exported.model_fields_set})
        return validate_data(Run, data, file, {"": (line, 1)}, taken), taken
    if isinstance(exported, Mapping):
        document = Document(file=file, data=_plain(exported, file, line), positions={"": (line, 1)})
        document = defaults.merged(document) if defaults else document
        return validate(Run, document), document.taken
    message = "the module exports no RUN" if exported is None else f"RUN is of type {type(exported).__name__}, not a run"
    raise CompileError([found("TW108", Where(file, line, 1), message, "write `RUN = Run(...)`, with Run from trainwright.run")])


def _plain(exported: Mapping[object, object], file: str, line: int) -> dict[str, object]:
    """The dict as JSON would hold it."""
    try:
        data: dict[str, object] = json.loads(json.dumps(dict(exported), allow_nan=False))
    except Exception as error:  # the dict's own methods may be the module's
        message, fix = f"RUN holds what JSON cannot: {shorten(str(error))}", "use text, finite numbers, lists and dicts only"
        raise CompileError([found("TW108", Where(file, line, 1), message, fix)]) from error
    return data


def _execute(path: Path, text: str, file: str) -> object:
    """RUN of the executed module, or None."""
    module = ModuleType(f"trainwright_run_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}")
    module.__file__ = str(path)
    interrupted: list[int] = []
    try:
        code = compile(text, str(path), "exec", dont_inherit=True)
        with _without_cdk8s(), contextlib.redirect_stdout(sys.stderr), _interruptible() as interrupted:
            # Dataclasses and pydantic look up a class's module by name while they make it.
            sys.modules[module.__name__] = module
            try:
                exec(code, module.__dict__)  # noqa: S102 - a run in Python is the user's own code
            finally:
                sys.modules.pop(module.__name__, None)
    except CompileError:
        raise
    except ValidationError as error:
        line = _line(error.__traceback__, path)
        model, data = _validated(error.__traceback__)
        raise refused(error, model, data, lambda pointer: Where(file, line, None, pointer)) from error
    except BaseException as error:  # a module may raise anything
        if interrupted:
            raise
        raise CompileError([_failure(error, path, file)]) from error
    return module.__dict__.get("RUN")


@contextlib.contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Tells Ctrl-C from a KeyboardInterrupt that the module raises itself: the list is empty until the signal comes."""
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        usual(number, frame)

    usual = signal.default_int_handler
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is not usual:
        yield came
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, usual)


_CDK8S = ("cdk8s", "constructs", "jsii", "trainwright.cdk8s")


@contextlib.contextmanager
def _without_cdk8s() -> Iterator[None]:
    """None in ``sys.modules`` makes an import fail, also of a module that this process has loaded for itself."""
    hidden = {name: module for name, module in sys.modules.items() if _is_cdk8s(name)}
    for name in hidden:
        del sys.modules[name]
    for name in _CDK8S:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _is_cdk8s(name)]:
            del sys.modules[name]
        sys.modules.update(hidden)


def _is_cdk8s(name: str) -> bool:
    top = name.partition(".")[0]
    return top in _CDK8S or top.startswith("cdk8s_") or name == "trainwright.cdk8s" or name.startswith("trainwright.cdk8s.")


def _failure(error: BaseException, path: Path, file: str) -> Finding:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        where = Where(file, error.lineno, error.offset)
        return found("TW108", where, f"it is not Python: {shorten(str(error.msg))}", "correct the syntax")
    where = Where(file, _line(error.__traceback__, path) or 1)
    if isinstance(error, SystemExit):
        return found("TW108", where, "the module ends the program", "remove the call that exits; a run module only describes")
    if isinstance(error, ImportError) and error.name and _is_cdk8s(error.name):
        message = f"a run module may not import {error.name}, directly or by another module"
        return found("TW108", where, message, "use trainwright.run only, and build charts in the app")
    if isinstance(error, ImportError):
        fix = "install the package; a file next to this one can be imported only from a package"
        return found("TW108", where, shorten(str(error)), fix)
    text = "".join(traceback.format_exception_only(error)).strip().replace("\n", "; ")
    return found("TW108", where, f"the module fails: {shorten(text)}", "correct this line")


def _line(trace: TracebackType | None, path: Path) -> int | None:
    """The innermost line of the module itself."""
    lines = [line for frame, line in traceback.walk_tb(trace) if frame.f_code.co_filename == str(path)]
    return lines[-1] if lines else None


def _validated(trace: TracebackType | None) -> tuple[type[BaseModel] | None, object]:
    """The model whose constructor failed and its arguments, as pydantic's own frame holds them."""
    for frame, _ in traceback.walk_tb(trace):
        if frame.f_code is BaseModel.__init__.__code__:
            return type(frame.f_locals["self"]), frame.f_locals["data"]
    return None, None
