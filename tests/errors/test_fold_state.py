"""fold_by() with a function that returns fewer scalars than the state has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fireiron as fi


@fi.program(x="l m n")
def function(x: Any) -> Any:
    return fi.fold_by(x, "n", (0.0, 1.0), lambda a, b, c, d: a + c)


def wrong() -> Any:
    return function(fi.tensor(4, 64, 64))


def test_fold_state(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "fold-state",
        'fold_by(x, "n", (0.0, 1.0), lambda a, b, c, d: a + c)',
        """\
SpecError[fold-state]: combine gives 1 of the state's 2 scalars
  --> test_fold_state.py:13:15
13 |     return fi.fold_by(x, "n", (0.0, 1.0), lambda a, b, c, d: a + c)
   |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
fix: return 2 expressions of its arguments""",
    )
