"""Programs that add to elements that indices name, for tests on the simulator and on the GPU."""

from __future__ import annotations

from typing import Any

import fireiron as fi


@fi.program(ids="e", x="e n", sums="v n")
def of_lines(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[ids, :].add(x * 2)


@fi.program(x="n p r", sums="n h")
def of_windows(x: Any, sums: Any) -> Any:
    return sums.at[:, 2 * fi.index("p") + fi.index("r")].add(x)


@fi.program(ids="i j", x="i j", sums="i v")
def along_lines(ids: Any, x: Any, sums: Any) -> Any:
    return sums.at[:, ids].add(x)
