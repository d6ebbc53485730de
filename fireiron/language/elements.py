"""Elements that indices name are written, or added to: `sums.at[ids, :].add(x)`, `cache.at[places, :].set(x)`.

The result replaces the array. Several points may add to one element, as many lines have one number; kernels add
atomically, in any order, so that the last bits of sums of floats may differ between runs. Elements that are set have
one point each.
"""

from __future__ import annotations

import attrs

from fireiron.algebra.scalar import Arg
from fireiron.algebra.simplify import simplify
from fireiron.base.contract import checks
from fireiron.base.errors import SpecError
from fireiron.language.levels import RF
from fireiron.language.pointwise import Operand, Value, cast_to, lifted, simplified
from fireiron.language.steps import Program, Ref, Step, dense
from fireiron.language.subscripts import subscripted
from fireiron.language.trace import bare, current, dims_of_value, of_reads, refs_of

ADDED, WRITTEN = "total", "made"  # the names of the steps, and of their results


@attrs.frozen
class At:
    """Hold an array whose elements are named by subscripts next: `sums.at[ids, :]`."""

    array: Value

    def __getitem__(self, subscripts: object) -> Elements:
        return Elements(self.array, _elements(self.array, subscripts))


@attrs.frozen
class Elements:
    """Hold the elements of an array that subscripts name: `sums.at[ids, :]`.

    Args:
        array: the array.
        place: an element at a point.
    """

    array: Value
    place: Ref

    def add(self, value: Operand) -> Value:
        """Return the array with a value added to the elements, as `numpy.add.at` does.

        The result replaces the array: a call takes one array for both, as `out=`.

        Args:
            value: an expression of arrays; its dims are among those of the subscripts.

        Raises:
            SpecError: `added-dims`, `added-fraction`, `bad-operand`.

        Example:
            >>> from fireiron.language.tensor import Matrix, Vector
            >>> from fireiron.language.traced import traced
            >>> def sums_of_lines(ids, x, sums): return sums.at[ids, :].add(x)
            >>> arrays = {"ids": Vector(64, "i32", name="ids"), "x": Matrix(64, 32, name="x")}
            >>> arrays["sums"] = Matrix(10, 32, name="sums")
            >>> print(traced(sums_of_lines, {"ids": "e", "x": "e n", "sums": "v n"}, arrays, {}, "lines"))
            lines(ids[64].i32.GL, x[64, 32].f32.GL, sums[10, 32].f32.GL) over e 64, n 32, total in place of sums
              total[ids[e], n] += x[e, n]
        """
        return _written(self, value, adds=True)

    def set(self, value: Operand) -> Value:
        """Return the array with a value in place of the elements, each of which may have one point alone.

        The result replaces the array: a call takes one array for both, as `out=`.

        Args:
            value: an expression of arrays; its dims are among those of the subscripts.

        Raises:
            SpecError: `added-dims`, `bad-operand`.

        Example:
            >>> from fireiron.language.tensor import Matrix, Vector
            >>> from fireiron.language.traced import traced
            >>> def kept(places, x, cache): return cache.at[places, :].set(x)
            >>> arrays = {"places": Vector(4, "i32", name="places"), "x": Matrix(4, 32, name="x")}
            >>> arrays["cache"] = Matrix(4096, 32, name="cache")
            >>> print(traced(kept, {"places": "e", "x": "e n", "cache": "v n"}, arrays, {}, "kept").steps[0])
            made[places[e], n] = x[e, n]
        """
        return _written(self, value, adds=False)


@checks(locate=True)
def _elements(array: Value, subscripts: object) -> Ref:
    ref = bare(array)
    if ref is None or ref.made is not None or current.get() is None:
        raise SpecError(
            "added-array",
            "elements of an array of the call are written or added to, and this is an expression",
            fix="make the array a parameter of the function: sums.at[ids, :].add(x)",
        )
    place = bare(subscripted(array, subscripts))
    assert place is not None
    return place


@checks(locate=True)
def _written(elements: Elements, value: Operand, adds: bool) -> Value:
    before, place = bare(elements.array), elements.place
    assert before is not None
    value = lifted(value, elements.array)[0]
    if adds and place.dtype.kind == "int" and value.dtype.kind == "float":
        raise SpecError(
            "added-fraction",
            f"{place.name} holds {place.dtype}, and the value is {value.dtype}",
            fix=f'round it: floor(x).cast("{place.dtype}"), or let {place.name} be floats',
        )
    value = simplified(cast_to(value, place.dtype))
    more = [d.name for d in dims_of_value(value) if d not in place.dims]
    if more:
        raise SpecError(
            "added-dims",
            f"the value has the dim {more[0]}, which {place} lacks",
            fix=f'give the sum over it: sum(x, "{more[0]}"), or name the dim in the subscripts',
        )
    name = ADDED if adds else WRITTEN
    out = Ref.of(dense(name, place.shape, place.dtype, RF), place.index)
    body = simplify(of_reads(value.tree))
    step = Step(name, (out,), refs_of(value), body, into=before.name, adds=adds)
    return Value(Arg(1, place.dtype), (attrs.evolve(before, name=name, memory=RF, made=step),))


def check_elements(program: Program) -> None:
    """Raise an error where a step reads an array whose elements a step of the program writes or adds to.

    Raises:
        SpecError: `added-read`.
    """
    for step in (s for s in program.steps if s.into):
        names = {step.outs[0].name, step.into}
        reader = next((s for s in program.steps if any(ref.name in names for ref in s.reads)), None)
        if reader is not None:
            what = f"to which step {step.name} adds" if step.adds else f"elements of which step {step.name} writes"
            raise SpecError(
                "added-read",
                f"step {reader.name} reads {step.outs[0].name}, {what}: it is complete when the kernel ends",
                fix="read it in a program of its own",
            )
