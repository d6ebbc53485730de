"""Run a kernel with a bug, and say by what it was noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
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
ALONE = 6  # of more, whose maxima grow by single keys
Outcome = Literal["survived", "wrong", "endless", "raised"] | str


@attrs.frozen(eq=False)
class Inputs:
    """Hold what one run gets.

    Args:
        sizes: values of symbols by name.
        arrays: by name, as they are ahead of the run.
        launched: how many blocks of a persistent kernel are launched, None for two clusters.
        shuffled: whether blocks run in another order than theirs.
    """

    sizes: dict[str, int]
    arrays: dict[str, Any]
    launched: int | None
    shuffled: bool = False


class Judge:
    """Hold the inputs of a schedule, and compare what its mutants make of them.

    Args:
        schedule: whose kernel is to get bugs.
        launched: how many blocks of a persistent kernel are launched, None for two clusters; of several numbers, each
            but the first is one more run.
        inputs: values of some arrays by name, or functions of the integers that are drawn for the others.
        sizes: other values of symbols than their names say, for a second run.
        shuffled: whether a second run takes the blocks in another order than theirs.
    """

    def __init__(
        self,
        schedule: Any,
        launched: int | tuple[int, ...] | None = None,
        inputs: Mapping[str, Any] | None = None,
        sizes: Mapping[str, int] | None = None,
        shuffled: bool = False,
    ) -> None:
        self.schedule = schedule
        self.kernel: Kernel = schedule.lowered()
        first_launch, *launches = launched if isinstance(launched, tuple) else (launched,)
        interface = Interface.of(self.kernel)
        self.numbers = {p.name: 2.0 for p in interface.numbers}
        named = sizes_of(interface)
        first = self._arrays(interface, named, inputs or {})
        self.runs = [Inputs(named, arrays, first_launch) for arrays in (first, *others(schedule, first, DRAWS, ALONE))]
        self.runs += [Inputs(named, first, blocks) for blocks in launches]
        if sizes:
            own = named | sizes
            self.runs.append(Inputs(own, self._arrays(interface, own, inputs or {}), first_launch))
        if shuffled:
            self.runs.append(attrs.evolve(self.runs[0], shuffled=True))
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
        found = (self.outcome_of(kernel, run) for run in self.runs)
        return next((one for one in found if one != "survived"), "survived")

    def outcome_of(self, kernel: Kernel, run: Inputs) -> Outcome:
        """Simulate a kernel on the inputs of one run."""
        before, sizes = run.arrays, run.sizes
        grid = int(evaluate(self.kernel.grid, sizes)) if run.launched is None else run.launched
        blocks = [int(i) for i in np.random.default_rng(2).permutation(grid)] if run.shuffled else None
        arrays = {name: array.copy() for name, array in before.items()}
        try:
            with limited(LIMIT_S), np.errstate(all="ignore"):
                simulate(kernel, arrays, sizes, self.numbers, blocks, launched=run.launched)
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
