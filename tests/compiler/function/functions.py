"""Functions that a run may hold, and some that it may not. Line numbers are in the tests by what the lines say."""

from __future__ import annotations

import functools
import math
import os.path as paths
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections import OrderedDict

RATE = 0.1
LEFT: list[int]


def helper() -> int:
    return 1


def wrapped(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def inner(*args: Any) -> Any:
        return func(*args)

    return inner


def whole(lr: float, *, out: str, names: list[str] | None = None) -> OrderedDict[str, Any]:
    """All that one function may have inside,
  with a text that stands further left."""
    import json
    from math import exp as e

    total: UnknownType = 0  # type: ignore[name-defined]  # noqa: F821 - nothing evaluates it
    square = lambda number: number * number  # noqa: E731
    numbers = (square(number) for number in range(3))  # type: ignore[no-untyped-call]

    class Box:
        size = 2
        doubled = size * 2

        def again(self, depth: int) -> int:
            return self.again(depth - 1) if depth else self.doubled

    def count() -> Iterator[int]:
        nonlocal total
        for number in numbers:
            total += number
            yield total

    text = f"""
  {lr}
	tab
"""
    global LEFT
    LEFT = [*count()]
    try:
        assert __name__ == "__main__", __file__
    except ValueError as error:
        print(error)
    with open(out, "w") as file:
        json.dump({"lr": lr, "names": names, "left": LEFT, "box": Box().again(2), "text": text, "e": e(0)}, file)
    return whole if total < 0 else None  # type: ignore[return-value]


async def asynchronous(out: str) -> None:
    import asyncio

    await asyncio.sleep(0)
    with open(out, "w") as file:
        file.write("async")


def keywords(**options: Any) -> None:
    with open(options["out-file"], "w") as file:
        file.write(str(options))


def nested() -> Callable[..., Any]:
    if RATE:
        def inside(out: str, number: int = 7) -> None:
            text = """
    kept as it is
  here too
"""
            with open(out, "w") as file:
                file.write(f"{number}{text}")
    return inside


def uses_an_import() -> None:
    print(math.pi)


def uses_another_name_of_one() -> None:
    print(paths.join("a", "b"))


def uses_a_value(lr: float = RATE) -> None:
    print(lr)


def uses_a_function() -> None:
    for _ in range(3):
        [helper() for _ in range(2)]


def uses_a_class(base: object = Iterator) -> None:
    print(base)


def uses_nothing_known() -> None:
    print(nowhere)  # type: ignore[name-defined]  # noqa: F821


def imports_relatively() -> None:
    from . import other  # type: ignore[attr-defined]

    print(other)


def closing() -> Callable[..., Any]:
    steps = 3

    def closes() -> None:
        print(steps)

    return closes


@wrapped
def decorated() -> None: ...


def generates() -> Iterator[int]:
    yield 1


class Trainer:
    def train(self) -> None: ...

    @staticmethod
    def static() -> None: ...
