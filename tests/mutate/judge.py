"""Run a kernel with a bug, and say by what it was noticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from fireiron.base.errors import FireironError
from fireiron.jit.interface import Interface
from fireiron.kernel.ir.statements import Kernel
from fireiron.language.programs import Layers
from fireiron.simulate import simulate
from tests.fuzz.judge import LIMIT_S, Slow, integers, limited, results, sizes_of

WEIGHTS = 4  # of a column that are not 0, about
Outcome = Literal["survived", "wrong", "endless", "raised"] | str


class Judge:
    """Hold the inputs of a schedule, and compare what its mutants make of them.

    Args:
        schedule: whose kernel is to get bugs.
        launched: how many blocks of a persistent kernel are launched, None for two clusters.
        inputs: values of some arrays by name, or functions of the integers that are drawn for the others.
    """

    def __init__(self, schedule: Any, launched: int | None = None, inputs: Mapping[str, Any] | None = None) -> None:
        self.schedule = schedule
        self.kernel: Kernel = schedule.lowered()
        interface = Interface.of(self.kernel)
        self.sizes = sizes_of(interface)
        self.numbers = {p.name: 2.0 for p in interface.numbers}
        self.inputs = integers(interface, self.sizes)
        self._thin_weights()
        for name, values in (inputs or {}).items():
            self.inputs[name][...] = values(self.inputs[name]) if callable(values) else values
        self.launched = launched

    def _thin_weights(self) -> None:
        """Let layers have a few weights a column, so that sums of many layers stay exact."""
        spec, rng = self.schedule.program.spec, np.random.default_rng(1)
        for layer in spec.layers if isinstance(spec, Layers) else ():
            weights = self.inputs[layer.weights.name]
            weights[...] = np.where(rng.random(weights.shape) < WEIGHTS / layer.depth, weights, weights.dtype.type(0))

    def outcome(self, kernel: Kernel) -> Outcome:
        """Simulate a kernel on the schedule's inputs: the code of what the simulator found, `wrong`, or `survived`."""
        arrays = {name: array.copy() for name, array in self.inputs.items()}
        try:
            with limited(LIMIT_S), np.errstate(all="ignore"):
                simulate(kernel, arrays, self.sizes, self.numbers, launched=self.launched)
        except FireironError as error:
            return error.code
        except Slow:
            return "endless"
        except Exception:  # the statements make no sense: a variable that nothing sets, an index that is no number
            return "raised"
        _, wrong = results(self.schedule, arrays, self.inputs, self.numbers)
        return "wrong" if wrong else "survived"
