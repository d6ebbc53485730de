"""fold_by() with two scalars and a function that takes only one state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import fold_by, program, tensor


def wrong() -> Any:
    def both(a: Any, b: Any) -> Any:
        return a + b, a

    return program(x="m n")(lambda x: fold_by(x, "n", (0.0, 0.0), both))(tensor(8, 64))


def test_fold_by_arguments(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "function-arguments",
        'fold_by(x, "n", (0.0, 0.0), both)',
        """\
SpecError[function-arguments]: combine of fold_by both cannot be called with 4 values: wrong.<locals>.both() takes 2 positional arguments but 4 were given
  --> test_fold_by_arguments.py:15:39
15 |     return program(x="m n")(lambda x: fold_by(x, "n", (0.0, 0.0), both))(tensor(8, 64))
   |                                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: give a function of 4 arguments""",  # noqa: E501
    )
