"""What tests of fused programs share: arrays that fit, and the comparison of every output with its reference."""

from __future__ import annotations

from typing import Any

from fireiron.front.reference import compare, mathematical, references
from fireiron.front.simulation import random_arrays, scaled
from fireiron.jit.interface import Interface
from fireiron.language.specs import written_by


def arrays_of(schedule: Any, seed: int = 0, **sizes: int) -> dict[str, Any]:
    """Make random inputs and marked outputs; weights of layers keep activations in their range."""
    return scaled(schedule.program, random_arrays(Interface.of(schedule.lowered()), sizes, seed))


def held_to_the_reference(schedule: Any, arrays: dict[str, Any], numbers: dict[str, float] | None = None) -> None:
    """Compare every output with NumPy in f64, within the bound that the command line states."""
    expected = references(schedule, arrays, numbers or {})
    for tensor in written_by(schedule.program.steps[0].spec):
        found = compare(tensor.name, mathematical(tensor, arrays[tensor.name]), expected[tensor.name], tensor.dtype)
        assert found.right, str(found)


def simulated(schedule: Any, numbers: dict[str, float] | None = None, seed: int = 0, **sizes: int) -> Any:
    """Run on the simulator, races looked for, and compare; gives the report."""
    from fireiron.simulate import simulate

    arrays = arrays_of(schedule, seed, **sizes)
    before = {name: x.copy() for name, x in arrays.items()}
    report = simulate(schedule.lowered(), arrays, sizes, numbers or {})
    outs = {t.name for t in written_by(schedule.program.steps[0].spec)}
    held_to_the_reference(schedule, {n: arrays[n] if n in outs else x for n, x in before.items()}, numbers)
    return report
