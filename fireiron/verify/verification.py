"""Verify a schedule's kernel: run it on data made for it, and compare its outputs with the reference.

There are two kinds of data. From small whole numbers all right kernels compute the same bits, so that one wrong term is
noticed for all types and K. From random numbers results are rounded, and are compared within error bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import attrs
import numpy as np

from fireiron.jit.interface import Interface, NumberParameter
from fireiron.language.as_steps import steps_of
from fireiron.language.tensor import Tensor
from fireiron.verify.bounded import Array, Bounded
from fireiron.verify.comparison import Comparison, Word, compare
from fireiron.verify.exact_data import SCALAR, exact_arrays
from fireiron.verify.random_data import random_arrays, scaled
from fireiron.verify.reference import Meaning, Whole, mathematical, references

Kind = Literal["exact", "random"]
KINDS: tuple[Kind, ...] = ("exact", "random")
Numbers: TypeAlias = Mapping[str, float]
Launch: TypeAlias = "Callable[[Data], None]"

NUMBER = 1.5  # of scalars that are not given: every float type holds it
# A NaN that no operation makes, by bytes of the element: what still holds it was not written.
MARKS = {8: 0x7FF5_5555_5555_5555, 4: 0x7FE5_5555, 2: 0x7FD5, 1: 0x55}


@attrs.frozen(eq=False)
class Data:
    """Hold what one run of a kernel reads, and where it writes.

    Args:
        kind: `exact` for small whole numbers, `random` for random numbers.
        interface: the kernel's interface.
        sizes: symbols by name.
        numbers: scalars by name.
        arrays: the arrays by name; outputs are filled with a mark.
        before: the outputs' contents before the run.
    """

    kind: Kind
    interface: Interface
    sizes: Mapping[str, int]
    numbers: dict[str, float | int]
    arrays: dict[str, Array]
    before: dict[str, Array]

    @property
    def inputs(self) -> list[Array]:
        """List the arrays that a call takes by position."""
        return [self.arrays[p.name] for p in self.interface.inputs]

    @property
    def outs(self) -> tuple[Array, ...]:
        """List the arrays that a call writes."""
        return tuple(self.arrays[p.name] for p in self.interface.outputs)

    @property
    def out(self) -> Array | tuple[Array, ...]:
        """Give what a call takes as `out`."""
        return self.outs[0] if len(self.outs) == 1 else self.outs


@attrs.frozen
class Verdict:
    """Hold the comparisons of a kernel's runs.

    Args:
        exact: comparison of the run on whole numbers, None without such a run.
        random: comparison of the run on random numbers.
    """

    exact: Comparison | None
    random: Comparison | None

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """List the comparisons, the exact run's first."""
        return tuple(x for x in (self.exact, self.random) if x is not None)

    @property
    def word(self) -> Word:
        """Name what is proved: the strongest word of a run, but `wrong` where one run is wrong."""
        words = [x.word for x in self.comparisons]
        order: tuple[Word, ...] = ("wrong", "right", "within bounds", "not verified")
        return next(word for word in order if word in words)

    @property
    def passed(self) -> bool:
        """Say whether nothing is wrong, and something was verified."""
        return self.word in ("right", "within bounds")

    @property
    def decisive(self) -> Comparison:
        """Return the comparison from which `word` follows."""
        return next(x for x in self.comparisons if x.word == self.word)

    def __str__(self) -> str:
        words = [] if self.exact is None else [f"on whole numbers {self.exact}"]
        return "; ".join(words if self.random is None else [*words, f"on random numbers {self.random}"])


def make(
    kind: Kind,
    schedule: Whole,
    interface: Interface,
    sizes: Mapping[str, int],
    numbers: Numbers | None = None,
    seed: int = 0,
    given: Mapping[str, Array] | None = None,
) -> Data:
    """Make the data of a run.

    Args:
        kind: `exact` or `random`, see `Data`.
        schedule: the schedule.
        interface: the interface of the schedule's kernel.
        sizes: symbols by name.
        numbers: scalars by name; a scalar that is not given has its default, or a value that fits the kind of data.
        seed: seed of the drawn numbers.
        given: arrays that are used as they are. Example: offsets of groups.
    """
    if kind == "exact":
        arrays = exact_arrays(Meaning.of(schedule), interface, sizes, seed)
    else:
        arrays = scaled(schedule.program, random_arrays(interface, sizes, seed))
    for pointer in interface.outputs:
        if pointer.role == "output" and pointer.name not in (given or {}):
            bits = arrays[pointer.name].view(f"u{arrays[pointer.name].itemsize}")
            bits[...] = MARKS[bits.itemsize]
    arrays |= {name: array.copy() for name, array in (given or {}).items()}
    scalars = {p.name: _default(p, kind) for p in interface.numbers} | dict(numbers or {})
    before = {pointer.name: arrays[pointer.name].copy() for pointer in interface.outputs}
    return Data(kind, interface, sizes, scalars, arrays, before)


def expected(schedule: Whole, data: Data) -> dict[str, Bounded]:
    """Compute the outputs that a run must write, by name; the run may come before or after."""
    arrays = {**data.arrays, **data.before}
    return references(schedule, arrays, {**data.sizes, **data.numbers}, drawn=True)


def held(schedule: Whole, data: Data, wanted: Mapping[str, Bounded], partial: bool = False) -> Comparison:
    """Compare a run's outputs; return the comparison of the first wrong output, else the comparison that proves least.

    Args:
        schedule: the schedule.
        data: arrays of the run.
        wanted: result of `expected`.
        partial: whether only elements that the run wrote are compared.
    """
    found: list[Comparison] = []
    spec = steps_of(schedule.program.spec, schedule.links)
    for tensor in spec.outputs:
        name = spec.memory_of(tensor).name
        result = data.arrays[name]
        written = mathematical(tensor, _differs(result, data.before[name])) if partial else None
        found.append(compare(tensor.name, mathematical(tensor, result), wanted[tensor.name], tensor.dtype, written))
    order: tuple[Word, ...] = ("wrong", "not verified", "within bounds", "right")
    return min(found, key=lambda x: order.index(x.word))


def verify(
    schedule: Whole,
    launch: Launch,
    sizes: Mapping[str, int] | None = None,
    numbers: Numbers | None = None,
    *,
    arch: str | int | None = None,
    seed: int = 0,
    given: Mapping[str, Array] | None = None,
    kinds: tuple[Kind, ...] = KINDS,
) -> Verdict:
    """Run a kernel on data of each kind, and compare all outputs with the reference.

    Args:
        schedule: the schedule.
        launch: a function that runs the kernel on the data, and writes the outputs to the data's arrays.
        sizes: symbols by name.
        numbers: scalars by name.
        arch: the target.
        seed: seed of the drawn numbers.
        given: arrays that are used as they are.
        kinds: kinds of data to run on.

    Example:
        >>> import fireiron as fi
        >>> from fireiron.schedules import simt
        >>> schedule = simt.sgemm(fi.matmul(64, 64, 32))
        >>> str(verify(schedule, lambda data: schedule.simulate(*data.inputs, out=data.out), kinds=("exact",)))
        'on whole numbers C: all 4096 elements right, each bit'
    """
    interface, found = Interface.of(schedule.lowered(arch)), dict[Kind, Comparison]()
    for kind in kinds:
        data = make(kind, schedule, interface, sizes or {}, numbers, seed, given)
        wanted = expected(schedule, data)
        launch(data)
        found[kind] = held(schedule, data, wanted)
    return Verdict(found.get("exact"), found.get("random"))


def outputs(schedule: Whole) -> tuple[Tensor, ...]:
    """List the tensors that a schedule writes: the spec's outputs, then those that its epilog stores beside them."""
    return steps_of(schedule.program.spec, schedule.links).outputs


def _default(parameter: NumberParameter, kind: Kind) -> float | int:
    from fireiron.algebra.dtypes import dtype

    if parameter.default is not None:
        return parameter.default
    return NUMBER if kind == "random" and dtype(parameter.dtype).kind == "float" else SCALAR


def _differs(array: Array, before: Array) -> Array:
    """Say which elements changed in at least one bit."""
    kind = f"u{array.itemsize}"
    return np.asarray(array.view(kind) != before.view(kind))
