"""Runs written in Python: a module that exports RUN, or several as RUNS, executed without cdk8s."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found
from trainwright.findings.locate import NO_DEFAULTS, Defaulted
from trainwright.reading import refused, validate, validate_data
from trainwright.reading.defaults import DefaultsFile
from trainwright.reading.document import Document, read_text, shorten
from trainwright.run import Run
from trainwright.run.workload import with_brought

T = TypeVar("T")

MOST_RUNS = 1000
"""Of one module; a loop without an end would never be done."""


class ModuleRun(NamedTuple):
    """A run that a module exports."""

    run: Run
    defaulted: Defaulted
    """What it has from the defaults."""
    place: str
    """``RUN``, or ``RUNS[0]``."""
    line: int
    """Where the module assigns it."""


def load_python_runs(path: Path, shown: str | None = None, defaults: DefaultsFile | None = None) -> tuple[ModuleRun, ...]:
    """Execute a module and take its RUN and its RUNS: each a :class:`~trainwright.run.Run`, or a dict of plain values and
    models.

    What a run does not state itself is as the defaults say: of a :class:`Run` what its constructor was not given. The module
    leaves no ``__pycache__``, its prints go to stderr, and imports of cdk8s, constructs and jsii fail in it.

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
    loaded: list[ModuleRun] = []
    findings: list[Finding] = []
    for place, line, exported in execute(path, text, file, lambda module: _exports(module, text, file)):
        try:
            loaded.append(ModuleRun(*_read(place, exported, file, line, defaults), place, line))
        except CompileError as error:
            named = place if place == "RUN" else f"{place}{_called(exported)}"
            findings += [_of(finding, named, file) for finding in error.findings]
    if findings:
        raise CompileError(list(dict.fromkeys(findings)))
    return tuple(loaded)


def _read(place: str, exported: object, file: str, line: int, defaults: DefaultsFile | None) -> tuple[Run, Defaulted]:
    """One run, with what it has from the defaults."""
    if isinstance(exported, Run):
        if defaults is None:
            return validate_data(Run, exported, file, {"": (line, 1)}), NO_DEFAULTS
        data, defaulted = defaults.beneath({name: getattr(exported, name) for name in exported.model_fields_set})
        return validate_data(Run, data, file, {"": (line, 1)}, defaulted), defaulted
    if isinstance(exported, Mapping):
        document = Document(file=file, data=_plain(exported, file, line, place), positions={"": (line, 1)})
        document = defaults.merged(document) if defaults else document
        return validate(Run, document), document.defaulted
    raise _not_a_run(file, line, f"{place} is of type {type(exported).__name__}, not a run")


def _called(exported: object) -> str:
    """The name of a run that may be none, for people."""
    name = exported.get("run") if isinstance(exported, Mapping) else getattr(exported, "run", None)
    return f" ({shorten(name)})" if isinstance(name, str) else ""


def _of(finding: Finding, run: str, file: str) -> Finding:
    """What is wrong of one of the runs of a module; of RUN that is clear, and what several have in common is said once."""
    if run == "RUN" or finding.where.file != file or finding.message.startswith("RUNS["):
        return finding
    return finding._replace(message=f"{run}: {finding.message}")


def _assigned(text: str, name: str) -> int:
    """The line on which a module assigns a name."""
    assigned = re.search(rf"^{name}\b", text, re.MULTILINE)
    return text.count("\n", 0, assigned.start()) + 1 if assigned else 1


def _not_a_run(file: str, line: int, message: str) -> CompileError:
    fix = "write `RUN = Run(...)`, with Run from trainwright.run; or several in a list, `RUNS = [...]`"
    return CompileError([found("TW108", Where(file, line, 1), message, fix)])


def _plain(exported: Mapping[object, object], file: str, line: int, place: str) -> dict[str, object]:
    """The dict as JSON would hold it, of models what they state."""
    try:
        data: dict[str, object] = json.loads(json.dumps(with_brought(exported), allow_nan=False, default=_stated))
    except Exception as error:  # the dict's own methods may be the module's
        message = f"{place} holds what JSON cannot: {shorten(str(error))}"
        fix = "use text, finite numbers, lists, dicts and the types of trainwright.run only"
        raise CompileError([found("TW108", Where(file, line, 1), message, fix)]) from error
    return data


def _stated(value: object) -> object:
    """What a model states, as a file would: its kind too, which its class says, and nothing that it has by default."""
    if not isinstance(value, BaseModel):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return _without_defaults(value.model_dump(mode="json", warnings=False), value)


def _without_defaults(written: Any, value: object) -> Any:
    """Of what was written of a value, what it states."""
    if isinstance(value, BaseModel) and isinstance(written, dict):
        kinds = {name for name, field in type(value).model_fields.items() if _is_kind(field)}
        stated = {name: inner for name, inner in written.items() if name in value.model_fields_set | kinds}
        return {name: _without_defaults(inner, getattr(value, name)) for name, inner in stated.items()}
    if isinstance(value, Mapping) and isinstance(written, dict):
        return {key: _without_defaults(inner, of) for (key, inner), of in zip(written.items(), value.values(), strict=True)}
    if isinstance(value, list | tuple) and isinstance(written, list):
        return [_without_defaults(inner, of) for inner, of in zip(written, value, strict=True)]
    return written


def _is_kind(field: FieldInfo) -> bool:
    """Whether the class says it, as DDP says ``kind: ddp``."""
    return get_origin(field.annotation) is Literal and get_args(field.annotation) == (field.default,)


def _exports(module: Mapping[str, object], text: str, file: str) -> list[tuple[str, int, object]]:
    """Place, line and value of RUN, and of each item of RUNS."""
    one, many = module.get("RUN"), module.get("RUNS")
    if one is None and many is None:
        raise _not_a_run(file, 1, "the module exports no RUN")
    exports = [] if one is None else [("RUN", _assigned(text, "RUN"), one)]
    if many is not None:
        line = _assigned(text, "RUNS")
        exports += [(f"RUNS[{index}]", line, run) for index, run in enumerate(_listed(many, file, line))]
    return exports


def _listed(runs: object, file: str, line: int) -> list[object]:
    """What RUNS holds, in order."""
    if isinstance(runs, str | bytes | Mapping | Run) or not isinstance(runs, Iterable):
        raise _not_a_run(file, line, f"RUNS is of type {type(runs).__name__}, not a list of runs")
    listed = list(islice(runs, MOST_RUNS + 1))
    if not listed:
        fix = "remove the module if its runs have ended; or keep them with `state=\"done\"`, which keeps their records"
        raise CompileError([found("TW108", Where(file, line, 1), "RUNS is empty", fix)])
    if len(listed) > MOST_RUNS:
        message = f"RUNS has more than {MOST_RUNS:,} runs"
        raise CompileError([found("TW108", Where(file, line, 1), message, "write several modules, or end the loop")])
    return listed


def execute(path: Path, text: str, file: str, take: Callable[[Mapping[str, object]], T]) -> T:
    """What ``take`` makes of the names in a module that has been executed without cdk8s.

    Raises:
        CompileError: as :func:`load_python_runs`.
    """
    module = ModuleType(f"trainwright_run_{re.sub(r'[^A-Za-z0-9_]', '_', path.stem)}")
    module.__file__ = str(path)
    interrupted: list[int] = []
    try:
        code = compile(text, str(path), "exec", dont_inherit=True)
        with guarded() as interrupted:
            # Dataclasses and pydantic look up a class's module by name while they make it.
            sys.modules[module.__name__] = module
            try:
                exec(code, module.__dict__)  # noqa: S102 - a run in Python is the user's own code
                return take(module.__dict__)  # here, since a generator runs only now
            finally:
                sys.modules.pop(module.__name__, None)
    except CompileError as error:  # of a part of a run that knows the module by its path alone
        own = {str(path), path.absolute().as_posix(), Path(os.path.relpath(path)).as_posix()}
        shown = (one._replace(where=one.where._replace(file=file)) if one.where.file in own else one for one in error.findings)
        raise CompileError([*shown]) from error.__cause__
    except ValidationError as error:
        line = _line(error.__traceback__, path)
        model, data = _validated(error.__traceback__)
        refusal = refused(error, model, data, lambda pointer: Where(file, line, None, pointer))
        if model is Run and re.search(r"^RUNS\b", text, re.MULTILINE):
            raise CompileError([_of(finding, f"RUNS{_called(data)}", file) for finding in refusal.findings]) from error
        raise refusal from error
    except BaseException as error:  # a module may raise anything
        if interrupted:
            raise
        raise CompileError([_failure(error, path, file)]) from error


@contextlib.contextmanager
def guarded() -> Iterator[list[int]]:
    """While code of the project runs: it may not import cdk8s, and its prints go to stderr.

    It may raise anything, so its caller catches anything, and raises it again where Ctrl-C came: then the list is not empty.
    """
    with _without_cdk8s(), contextlib.redirect_stdout(sys.stderr), _interruptible() as interrupted:
        yield interrupted


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
    return name.startswith("cdk8s_") or any(name == each or name.startswith(f"{each}.") for each in _CDK8S)


def _failure(error: BaseException, path: Path, file: str) -> Finding:
    if isinstance(error, SyntaxError) and error.filename == str(path):
        where = Where(file, error.lineno, error.offset)
        return found("TW108", where, f"the file is not valid Python: {shorten(str(error.msg))}", "correct the syntax")
    where = Where(file, _line(error.__traceback__, path) or 1)
    if isinstance(error, SystemExit):
        return found("TW108", where, "the module ends the program", "remove the call that exits: a module only describes runs")
    if isinstance(error, ImportError) and error.name and _is_cdk8s(error.name):
        message = f"a run module may not import {error.name}, directly or by another module"
        return found("TW108", where, message, "import from trainwright.run only, and build charts in an app of your own")
    if isinstance(error, ImportError):
        fix = "install the package; a file beside this one can be imported only from an installed package"
        return found("TW108", where, f"an import fails: {shorten(str(error))}", fix)
    text = "".join(traceback.format_exception_only(error)).strip().replace("\n", "; ")
    return found("TW108", where, f"the module raises {shorten(text)}", "correct this line")


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
