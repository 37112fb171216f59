"""A function that a run holds, from its source to what its script does."""

from __future__ import annotations

import functools
import json
import linecache
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compiler.function import functions
from tests.compiler.function.functions import Trainer, closing, nested

from trainwright.findings import CompileError
from trainwright.function import FOLDER, FunctionWorkload

HERE = "tests/compiler/function/functions.py"
LINES = Path(functions.__file__).read_text(encoding="utf-8").splitlines()


def script(func: Any, arguments: dict[str, Any] | None = None) -> str:
    (text,) = FunctionWorkload(func, arguments).brings.values()
    return text


def run(text: str, folder: Path) -> None:
    """The script alone, where nothing of this repository can be imported."""
    path = folder / "script.py"
    path.write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-I", str(path)], cwd=folder, check=True)


def test_a_function_does_in_its_script_what_it_does_here(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run(script(functions.whole, {"lr": 3e-4, "out": str(out), "names": ["a", "é\n"]}), tmp_path)
    said = json.loads(out.read_text(encoding="utf-8"))
    text = "\n  0.0003\n\ttab\n"
    assert said == {"lr": 3e-4, "names": ["a", "é\n"], "left": [0, 1, 5], "box": 4, "text": text, "e": 1.0}


def test_a_coroutine_is_awaited(tmp_path: Path) -> None:
    run(script(functions.asynchronous, {"out": str(tmp_path / "out")}), tmp_path)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "async"


def test_a_keyword_may_be_no_name(tmp_path: Path) -> None:
    run(script(functions.keywords, {"out-file": str(tmp_path / "out"), "class": None}), tmp_path)
    assert "'class': None" in (tmp_path / "out").read_text(encoding="utf-8")


def test_a_function_in_a_function_loses_its_indentation_and_its_texts_nothing(tmp_path: Path) -> None:
    text = script(nested(), {"out": str(tmp_path / "out")})
    assert "\ndef inside(out: str, number: int = 7) -> None:\n    text = \"\"\"\n    kept" in text
    run(text, tmp_path)
    assert (tmp_path / "out").read_text(encoding="utf-8") == "7\n    kept as it is\n  here too\n"


def test_the_script_reads_as_its_author_wrote_it() -> None:
    text = script(functions.asynchronous, {"out": "/checkpoints/" + "x" * 100})
    assert text.startswith('"""The function asynchronous of the run, and its call."""\n\n'
                           "from __future__ import annotations\nimport asyncio\n\n\nasync def asynchronous(")  # fmt: skip
    call = f"    asyncio.run(asynchronous(\n        out={'/checkpoints/' + 'x' * 100!r},\n    ))\n"
    assert text.endswith(f'\n\n\nif __name__ == "__main__":\n{call}')


def test_a_cell_of_a_notebook_has_a_source() -> None:
    cell = "def train(lr):\n    print(lr)\n"
    linecache.cache["/tmp/ipykernel_1/2.py"] = (len(cell), None, cell.splitlines(True), "/tmp/ipykernel_1/2.py")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(cell, "/tmp/ipykernel_1/2.py", "exec"), namespace)  # noqa: S102
    assert "def train(lr):\n    print(lr)\n\n\nif" in script(namespace["train"], {"lr": 1})


@pytest.mark.parametrize(("func", "line", "message", "fix"), [
    (functions.uses_an_import, "print(math.pi)", "uses math of its module", "write `import math` inside uses_an_import"),
    (functions.uses_another_name_of_one, 'print(paths.join("a", "b"))', "uses paths", "`import posixpath as paths` inside"),
    (functions.uses_a_value, "def uses_a_value(lr: float = RATE) -> None:", "uses RATE", "make RATE a parameter"),
    (functions.uses_a_function, "[helper() for _ in range(2)]", "uses helper of its module", "define helper inside"),
    (functions.uses_a_class, "def uses_a_class(base: object = Iterator) -> None:", "uses Iterator",
     "write `from collections.abc import Iterator` inside"),
    (functions.uses_nothing_known, "print(nowhere)  # type: ignore[name-defined]  # noqa: F821",
     "uses nowhere, which nothing defines", "define it inside"),
    (functions.imports_relatively, "from . import other  # type: ignore[attr-defined]", "imports relative", "the whole package"),
    (closing(), "print(steps)", "closes over steps", "make steps a parameter of closes"),
    (functions.decorated, "@wrapped", "has the decorator wrapped", "remove it"),
    (functions.generates, "def generates() -> Iterator[int]:", "is a generator", "remove yield"),
    (Trainer.train, "def train(self) -> None: ...", "is defined in class Trainer", "at the top of a module"),
    (Trainer.static, "def static() -> None: ...", "is defined in class Trainer", "at the top of a module"),
])  # fmt: skip
def test_what_a_function_takes_from_around_it_is_refused_on_its_line(func: Any, line: str, message: str, fix: str) -> None:
    with pytest.raises(CompileError) as error:
        FunctionWorkload(func)
    (finding,) = error.value.findings
    assert (finding.code, finding.where.file) == ("TW114", HERE)
    assert LINES[(finding.where.line or 0) - 1].strip() == line
    assert message in finding.message
    assert fix in finding.fix


@pytest.mark.parametrize(("func", "message"), [
    (Trainer().train, "Trainer.train is a method"), (lambda: None, "a lambda"), (print, "is no function"),
    (functools.partial(functions.helper), "is no function"), (Trainer, "of type type"), (3, "3 is no function"),
])  # fmt: skip
def test_what_is_no_function_is_refused_on_the_line_of_the_call(func: Any, message: str) -> None:
    with pytest.raises(CompileError, match=re.escape(message)) as error:
        FunctionWorkload(func)
    assert (error.value.findings[0].where.file or "").endswith("test_function.py")


def test_what_was_typed_nowhere_is_refused() -> None:
    namespace: dict[str, Any] = {}
    exec("def train():\n    pass\n", namespace)  # noqa: S102
    with pytest.raises(CompileError, match="the source of train cannot be read"):
        FunctionWorkload(namespace["train"])


@pytest.mark.parametrize(("arguments", "message"), [
    ({"out": Path("/x")}, "out is PosixPath"), ({"out": ("a",)}, "out is ('a',)"), ({"out": float("inf")}, "out is inf"),
    ({"out": [{"a": {1}}]}, "out[0]['a'] is {1}"), ({"out": {1: 2}}, "a key of out is 1"),
    ({}, "missing a required argument: 'out'"),
    ({"out": "x", "lr": 1}, "unexpected keyword argument 'lr'"), ({"out": functions.helper}, "out is <function"),
    ([("out", 1)], "func_args is no dict"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(CompileError) as error:
        FunctionWorkload(nested(), arguments)
    (finding,) = error.value.findings
    assert finding.code == "TW115"
    assert message in finding.message


def test_its_folder_hides_no_module() -> None:
    (path,) = FunctionWorkload(functions.helper).brings
    assert path == f"{FOLDER}/function-helper.py"
    assert not Path(path).stem.isidentifier()
