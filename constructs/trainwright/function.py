"""A run that holds a function: its source becomes a script of the run.

Only the function's own text goes along. What it takes from around it would be missing in the pod, so it is refused here, on its
line, and not in the first minute on GPUs.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import copy
import dis
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from keyword import iskeyword
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from pydantic import PrivateAttr

from trainwright.findings import CompileError, Finding, Where
from trainwright.findings.codes import found
from trainwright.reading.document import from_here, shorten
from trainwright.run import Run, ScriptTraining, ScriptWorkload
from trainwright.topology import DDP

FOLDER = "/etc/trainwright-function"
"""Where the script is in the pods."""

_PYPI = ("https://pypi.org/simple",)
"""What the SDK asks if nobody says another one (kubeflow/trainer/constants, DEFAULT_PIP_INDEX_URLS)."""
_ACCELERATOR = re.compile(r"/(mig-|gpu$|tpu$|ascend)", re.IGNORECASE)
_LONGEST_LINE = 100
_OF_A_SCRIPT = frozenset({*vars(builtins), "__file__"}) - {"get_ipython", "display", "_"}
"""Names that any script has. A notebook adds some to the builtins, which no pod has."""
_ALONE = "write a function with `def` at the top of a module, or of a notebook's cell"

_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class FunctionWorkload(ScriptWorkload):
    """A function of yours as the script of a run: ``FunctionWorkload(train, {"lr": 3e-4})``.

    Its source goes into the run's ``files``, with the call behind it. It brings all that it needs, as for the ``CustomTrainer``
    of the Kubeflow SDK: imports inside, values as arguments.
    """

    _brings: dict[str, str] = PrivateAttr(default_factory=dict)

    def __init__(
        self, func: Callable[..., object], func_args: Mapping[str, Any] | None = None, *, python: str = "python",
        packages: Sequence[str] = (), working_dir: str | None = None, protocol: bool = False, resume_from: str | None = None,
        training: ScriptTraining | None = None,
    ) -> None:  # fmt: skip
        """The source of ``func``, called with ``func_args``: plain values of JSON, by the names of its parameters.

        Args:
            python: the interpreter in the image. The arguments after it are those of
                :class:`~trainwright.run.ScriptWorkload`.

        Raises:
            CompileError: TW114 for what the function takes from around it, TW115 for arguments that do not fit.
        """
        source = _source(_plain_function(func))
        if problems := [*_problems(source)]:
            raise CompileError(problems)
        text = _script(source, _arguments(source.func, func_args))
        path = f"{FOLDER}/function-{source.node.name}.py"  # its folder comes first in sys.path, and no module is called so
        stated = {
            "packages": tuple(packages), "working_dir": working_dir, "protocol": protocol, "resume_from": resume_from,
            "training": training,
        }  # fmt: skip
        super().__init__(command=(python, path), **{name: value for name, value in stated.items() if value})
        self._brings = {path: text}

    @property
    def brings(self) -> dict[str, str]:
        return self._brings


def from_custom_trainer(
    func: Callable[..., object], *, func_args: Mapping[str, Any] | None = None, image: str | None = None,
    packages_to_install: Sequence[str] | None = None, pip_index_urls: Sequence[str] = _PYPI, num_nodes: int | None = None,
    resources_per_node: Mapping[str, Any] | None = None, env: Mapping[str, str] | None = None, **run: Any,
) -> Run:  # fmt: skip
    """A run in place of a submission, by the names of the Kubeflow SDK's ``CustomTrainer``, of which ``**vars(trainer)`` has
    all; the others are fields of a run.

    Args:
        packages_to_install: lines with version and hashes, as :class:`~trainwright.run.ScriptWorkload` has them.
        pip_index_urls: the SDK's default alone, since the profile of the cluster names the index.
        num_nodes: 1 if left out, as in the runtimes of Kubeflow Trainer.
        resources_per_node: of one pod: cpu, memory, storage, gpu and extended resources. Requests equal limits.

    Raises:
        CompileError: as :class:`FunctionWorkload`, and TW115 for what a run says in another way.
    """
    if pip_index_urls and tuple(pip_index_urls) != _PYPI:
        fix = "remove pip_index_urls: packages come from package_index of the profile"
        raise _refused(f"pip_index_urls names {', '.join(pip_index_urls)}, and a run does not choose its index", fix, "TW115")
    gpus, resources = _resources(resources_per_node or {})
    stated = {
        "image": image, "env": dict(env or {}), "resources": resources, "topology": DDP(nodes=num_nodes or 1, gpus_per_node=gpus),
        "workload": FunctionWorkload(func, func_args, packages=packages_to_install or ()),
    }  # fmt: skip
    stated = {name: value for name, value in stated.items() if value}
    if twice := next((name for name in stated if name in run), None):
        fix = "write num_nodes and resources_per_node alone, or Run with a FunctionWorkload"
        raise _refused(f"{twice} of the run is what the words of the SDK already say", fix, "TW115")
    return Run.model_validate(stated | run)


def _resources(asked: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """GPUs, and the resources of a run; names as the SDK takes them, in any case where Kubernetes has none of its own."""
    gpus, resources, devices = 0, dict[str, Any](), dict[str, int]()
    for given, amount in asked.items():
        name = given if "/" in given else given.lower()
        if name in ("gpu", "nvidia.com/gpu"):
            gpus = int(amount)
        elif name in ("cpu", "memory"):
            resources[name] = amount
        elif name in ("storage", "ephemeral-storage"):
            resources["ephemeral_storage"] = amount
        elif "/" in name and not _ACCELERATOR.search(name):
            devices[name] = int(amount)
        else:
            fix = "write gpu, and node_pool=NAME of a pool whose gpu.resource is the device"
            raise _refused(f"resources_per_node has {given}, and which device a gpu is, the pool of nodes says", fix, "TW115")
    return gpus, resources | ({"devices": devices} if devices else {})


class _Source(NamedTuple):
    """A function where it is defined."""

    func: Any
    """A FunctionType, which mypy would take for a descriptor here."""
    file: str
    lines: Sequence[str]
    node: _Definition

    def refused(self, at: ast.AST, message: str, fix: str) -> Finding:
        where = Where(self.file, getattr(at, "lineno", None), getattr(at, "col_offset", 0) + 1)
        return found("TW114", where, f"{self.node.name} {message}", fix)


def _plain_function(func: object) -> FunctionType:
    """What is a function and nothing around one."""
    inner = inspect.unwrap(func) if callable(func) else func
    if inspect.ismethod(inner):
        raise _refused(f"{inner.__qualname__} is a method, and its object is not in the pod")
    if not isinstance(inner, FunctionType):
        raise _refused(f"{shorten(repr(func))} is no function, but of type {type(func).__name__}")
    if inner.__name__ == "<lambda>":
        raise _refused("a lambda has no statements, and no text of its own")
    return inner


def _refused(message: str, fix: str = _ALONE, code: str = "TW114") -> CompileError:
    """Of what has no line of its own: on that of the nearest caller outside of this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        frame = frame.f_back
    return CompileError([found(code, Where(from_here(Path(frame.f_code.co_filename)), frame.f_lineno), message, fix)])


def _source(func: FunctionType) -> _Source:
    """The definition, as its file has it now."""
    code = func.__code__
    try:
        lines, _ = inspect.findsource(func)
        tree = ast.parse("".join(lines))
    except (OSError, TypeError, SyntaxError) as error:
        message = f"the source of {func.__name__} cannot be read, as of what exec() or a plain interpreter was given"
        raise _refused(message) from error
    for parent in ast.walk(tree):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, _Definition) and (node.name, _first_line(node)) == (code.co_name, code.co_firstlineno):
                source = _Source(func, from_here(Path(code.co_filename)), lines, node)
                if isinstance(parent, ast.ClassDef):
                    raise CompileError([source.refused(node, f"is defined in class {parent.name}", _ALONE)])
                return source
    message = f"{from_here(Path(code.co_filename))} does not define {func.__name__} any more on line {code.co_firstlineno}"
    raise _refused(message, "import the module again, or run the cell again")


def _first_line(node: _Definition) -> int:
    """As code objects count: a decorator is part of the function."""
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _problems(source: _Source) -> Iterator[Finding]:
    """What would not work in a file of its own."""
    func, node = source.func, source.node
    for decorator in node.decorator_list:
        fix = f"remove it, and do its work inside {node.name}"
        yield source.refused(decorator, f"has the decorator {ast.unparse(decorator)}, which is not part of its source", fix)
    if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
        message = "is a generator: to call it runs none of its statements"
        yield source.refused(node, message, "remove yield, or write a function that goes through it")
    for each in ast.walk(node):
        if isinstance(each, ast.ImportFrom) and each.level:
            message = "imports relative to its package, and a script is in none"
            yield source.refused(each, message, "name the whole package, which the image must have")
    if not node.decorator_list:
        yield from _from_around(source)


def _from_around(source: _Source) -> Iterator[Finding]:
    """Names that only the module, or the function around it, has."""
    func, node = source.func, source.node
    closed = inspect.getclosurevars(func).nonlocals if func.__closure__ else {}
    for name in func.__code__.co_freevars:
        uses = (each for each in ast.walk(node) if getattr(each, "id", "") == name or name in getattr(each, "names", ()))
        yield source.refused(next(uses, node), f"closes over {name}, which only the function around it has",
                             _instead(name, closed.get(name), node.name, func.__module__))  # fmt: skip
    if func.__code__.co_freevars:
        return
    code = compile(ast.Module([_without_annotations(node)], []), source.file, "exec", _annotations(func), dont_inherit=True)
    places: dict[str, ast.AST] = {}
    stored = {node.name, *_OF_A_SCRIPT}
    for one in _codes(code):
        own = {each.argval for each in dis.get_instructions(one) if each.opname == "STORE_NAME"}
        for each in dis.get_instructions(one):
            if each.opname == "STORE_GLOBAL":
                stored.add(each.argval)
            elif "GLOBAL" in each.opname or (each.opname == "LOAD_NAME" and each.argval not in own):
                line, column = (each.positions.lineno, each.positions.col_offset) if each.positions else (node.lineno, 0)
                places.setdefault(each.argval, ast.Name(each.argval, lineno=line or node.lineno, col_offset=column or 0))
    for name in [name for name in places if name not in stored]:
        there = func.__globals__.get(name)
        known = name in func.__globals__
        message = f"uses {name} of its module, which does not go along" if known else f"uses {name}, which nothing defines"
        fix = _instead(name, there, node.name, func.__module__) if known else f"define it inside {node.name}"
        yield source.refused(places[name], message, fix)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _instead(name: str, value: object, function: str, module: str) -> str:
    """What to write, by what the name is."""
    if isinstance(value, ModuleType):
        alias = f" as {name}" if name != value.__name__ else ""
        return f"write `import {value.__name__}{alias}` inside {function}"
    home, own = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if isinstance(home, str) and isinstance(own, str) and home not in (module, "__main__", "builtins"):
        alias = f" as {name}" if name != own else ""
        return f"write `from {home} import {own}{alias}` inside {function}"
    if callable(value):
        return f"define {name} inside {function}, or in a package that the image has"
    return f"make {name} a parameter of {function}, and give its value with func_args"


def _without_annotations(node: _Definition) -> _Definition:
    """The script has them as text."""
    bare = copy.deepcopy(node)
    bare.returns = None
    for each in ast.walk(bare.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    return bare


def _annotations(func: FunctionType) -> int:
    """The flag of the module's own `from __future__ import annotations`, by which its compiler went."""
    return func.__code__.co_flags & __future__.annotations.compiler_flag


_JSON = (str, int, float, bool, type(None))


def _arguments(func: FunctionType, given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What the function is called with.

    Raises:
        CompileError: TW115 for a value that JSON does not have, and where they do not fit the parameters.
    """
    arguments = {} if given is None else given
    if not isinstance(arguments, Mapping) or any(not isinstance(name, str) for name in arguments):
        raise _refused("func_args is no dict of parameters", 'write {"NAME": VALUE}', "TW115")
    for name, value in arguments.items():
        if (wrong := next(_not_plain(value, name), None)) is not None:
            place, one = wrong
            message = f"{place} is {shorten(repr(one))}, which is no plain value of JSON"
            fix = "give text, numbers, true or false, lists and dicts, and make the rest of them inside the function"
            raise _refused(message, fix, "TW115")
    try:
        inspect.signature(func, follow_wrapped=False).bind(**arguments)
    except TypeError as error:
        takes = f"it takes {inspect.signature(func)}"
        raise _refused(f"{func.__name__} cannot be called with these: {error}", takes, "TW115") from error
    return arguments


def _not_plain(value: object, place: str) -> Iterator[tuple[str, object]]:
    """Where something is that would read back as something else, or not at all."""
    if type(value) is dict:
        for key, inner in value.items():
            yield from _not_plain(inner, f"{place}[{key!r}]") if type(key) is str else [(f"a key of {place}", key)]
    elif type(value) is list:
        for number, inner in enumerate(value):
            yield from _not_plain(inner, f"{place}[{number}]")
    elif type(value) not in _JSON or (isinstance(value, float) and not math.isfinite(value)):
        yield place, value


def _script(source: _Source, arguments: Mapping[str, Any]) -> str:
    """The function as its author wrote it, and its call, which processes that it spawns do not repeat."""
    func, node = source.func, source.node
    annotations = [each.annotation for each in ast.walk(node.args) if isinstance(each, ast.arg)] + [node.returns]
    used = {name.id for one in annotations if one for name in ast.walk(one) if isinstance(name, ast.Name)}
    lines = ["from __future__ import annotations"] if _annotations(func) or used - _OF_A_SCRIPT else []
    runs_async = isinstance(node, ast.AsyncFunctionDef)
    lines += ["import asyncio"] if runs_async else []
    named = all(name.isidentifier() and not iskeyword(name) for name in arguments)
    words = [f"{name}={value!r}" for name, value in arguments.items()] if named else [f"**{dict(arguments)!r}"]
    call = f"{node.name}({', '.join(words)})"
    if len(call) > _LONGEST_LINE:
        call = "\n        ".join([f"{node.name}(", *(f"{word}," for word in words)]) + "\n    )"
    start = f"asyncio.run({call})" if runs_async else call
    return "\n".join([
        f'"""The function {node.name} of the run, and its call."""', *([*("", *lines), ""] if lines else [""]),
        *(["", *_dedented(source)]), "", "", 'if __name__ == "__main__":', f"    {start}", "",
    ])  # fmt: skip


def _dedented(source: _Source) -> list[str]:
    """Its lines, without the indentation that all have; what is inside a text of several lines stays as it is."""
    node = source.node
    texts = (each for each in ast.walk(node) if isinstance(each, ast.Constant | ast.JoinedStr))
    kept = {line for each in texts for line in range(each.lineno + 1, (each.end_lineno or 0) + 1)}
    indent = source.lines[node.lineno - 1][: node.col_offset]
    return [
        line.removeprefix("" if number in kept else indent).rstrip("\n")
        for number, line in enumerate(source.lines[node.lineno - 1 : node.end_lineno], start=node.lineno)
    ]
