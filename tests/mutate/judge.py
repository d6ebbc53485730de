"""Run a kernel with a bug, and say by what it was noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from fireiron.algebra.expr import evaluate
from fireiron.base.errors import FireironError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Kernel
from fireiron.language.programs import Layers
from fireiron.simulate import simulate
from fireiron.verify.bounded import Bounded
from fireiron.verify.reference import references
from tests.fuzz.judge import Slow, against, integers, limited, others, sizes_of

LIMIT_S = 10  # of the processor, for one run: none takes 1 without a bug
WEIGHTS = 4  # of a column that are not 0, about
DRAWS = 16  # of other numbers, where exponentials follow from them
Outcome = Literal["survived", "wrong", "endless", "raised"] | str


class Judge:
    """Hold the inputs of a schedule, and compare what its mutants make of them.

    Args:
        schedule: whose kernel is to get bugs.
        launched: how many blocks of a persistent kernel are launched, None for two clusters.
        inputs: values of some arrays by name, or functions of the integers that are drawn for the others.
        sizes: other values of symbols than their names say, for a second run.
        shuffled: whether a second run takes the blocks in another order than theirs.
    """

    def __init__(
        self,
        schedule: Any,
        launched: int | None = None,
        inputs: Mapping[str, Any] | None = None,
        sizes: Mapping[str, int] | None = None,
        shuffled: bool = False,
    ) -> None:
        self.schedule = schedule
        self.kernel: Kernel = schedule.lowered()
        self.launched = launched
        interface = Interface.of(self.kernel)
        self.numbers = {p.name: 2.0 for p in interface.numbers}
        named = sizes_of(interface)
        first = self._arrays(interface, named, inputs or {})
        self.runs = [(named, arrays, False) for arrays in (first, *others(schedule, first, DRAWS))]
        if sizes:
            self.runs.append((named | sizes, self._arrays(interface, named | sizes, inputs or {}), False))
        if shuffled:
            self.runs.append((*self.runs[0][:2], True))
        self._expected: dict[int, Mapping[str, Bounded]] = {}

    def _arrays(self, interface: Interface, sizes: dict[str, int], inputs: Mapping[str, Any]) -> dict[str, Any]:
        arrays = integers(self.schedule, interface, sizes)
        self._thin_weights(arrays)
        for name, values in inputs.items():
            arrays[name][...] = values(arrays[name]) if callable(values) else values
        return arrays

    def _thin_weights(self, arrays: dict[str, Any]) -> None:
        """Let layers have a few weights a column, so that sums of many layers stay exact."""
        spec, rng = self.schedule.program.spec, np.random.default_rng(1)
        for layer in spec.layers if isinstance(spec, Layers) else ():
            weights = arrays[layer.weights.name]
            weights[...] = np.where(rng.random(weights.shape) < WEIGHTS / layer.depth, weights, weights.dtype.type(0))

    def outcome(self, kernel: Kernel) -> Outcome:
        """Simulate a kernel on the schedule's inputs: the code of what the simulator found, `wrong`, or `survived`."""
        found = (self._outcome(kernel, *run) for run in self.runs)
        return next((one for one in found if one != "survived"), "survived")

    def _outcome(self, kernel: Kernel, sizes: dict[str, int], before: dict[str, Any], shuffled: bool) -> Outcome:
        grid = int(evaluate(self.kernel.grid, sizes)) if self.launched is None else self.launched
        blocks = [int(i) for i in np.random.default_rng(2).permutation(grid)] if shuffled else None
        arrays = {name: array.copy() for name, array in before.items()}
        try:
            with limited(LIMIT_S), np.errstate(all="ignore"):
                simulate(kernel, arrays, sizes, self.numbers, blocks, launched=self.launched)
        except FireironError as error:
            return error.code
        except Slow:
            return "endless"
        except Exception:  # the statements make no sense: a variable that nothing sets, an index that is no number
            return "raised"
        if id(before) not in self._expected:  # one of `runs`, which live as long
            self._expected[id(before)] = references(self.schedule, before, self.numbers)
        _, wrong = against(self.schedule, arrays, self._expected[id(before)])
        return "wrong" if wrong else "survived"
