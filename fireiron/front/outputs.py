"""Checks of a MatMul's ops, and of the tensors that they read and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fireiron.algebra.addends import without_addends
from fireiron.algebra.dtypes import DType, i8, u8
from fireiron.algebra.expr import Index, ceil_div, simplest
from fireiron.algebra.scalar import Arg, Cast
from fireiron.base.errors import DecompositionError, SpecError
from fireiron.base.text import count
from fireiron.language.decompositions import Decomposition, Done, Load
from fireiron.language.levels import SH
from fireiron.language.ops import Beside, Rows, Save
from fireiron.language.pointwise import Op, Value, accumulator, expression, simplified, substituted
from fireiron.language.residual import Operand, Residual
from fireiron.language.specs import MatMul, broadcasts
from fireiron.language.tensor import Tensor

_FOLDS = {"add": "sum", "max": "max"}


def given(tensor: Tensor, spec: MatMul) -> Tensor:
    """Transpose a tensor of a swapped product to the caller's orientation, or back."""
    return tensor.transposed if spec.swapped else tensor


def check_operands(spec: MatMul, saved: Sequence[tuple[Value, Beside]], last: Value) -> None:
    """Refuse operands of an epilog that do not broadcast over C, and results that overlap other arrays.

    Raises:
        SpecError: `shape-mismatch`, `same-name`, `epilog-overlap`, `packed-result`.
    """
    c = given(spec.C, spec)
    inputs = {t.name: t for t in (given(spec.A, spec), given(spec.B, spec), c)}
    for value in (*(value for value, _ in saved), last):
        for tensor in value.tensors:
            broadcasts(tensor, c)
            _named(tensor, "an op reads")
            if inputs.setdefault(tensor.name, tensor) != tensor:
                raise _same_name(tensor, inputs[tensor.name])
    for _, stored in saved:
        tensor = stored.tensor
        _named(tensor, "save() writes")
        if tensor.name in inputs:
            op = "save" if isinstance(stored, Save) else f"row_{_FOLDS[stored.op]}"
            what = "the result itself" if tensor.name == c.name else "written or read too"
            raise SpecError(
                "epilog-overlap",
                f"{op}({tensor.name}) writes a tensor that is {what}: {inputs[tensor.name]}",
                fix="store to another tensor, with another name",
            )
        inputs[tensor.name] = tensor
        if isinstance(stored, Rows):
            _rows(tensor, c)
        elif tensor.shape != c.shape:
            raise SpecError(
                "shape-mismatch", f"save({tensor}) stores values of the shape of {c}", fix="give both the same shape"
            )
        if tensor.dtype.packed:
            raise SpecError(
                "packed-result",
                f"{tensor} is written, and {tensor.dtype.pack} elements of {tensor.dtype} share a byte",
                fix="write i8, and let the reader pack it",
            )


def whole(spec: MatMul, saved: Sequence[tuple[Value, Beside]], last: Value) -> tuple[Tensor, ...]:
    """List the tensors that ops read with one element for each element of C."""
    shape = given(spec.C, spec).shape[-2:]
    found = (t for value in (*(value for value, _ in saved), last) for t in value.tensors)
    return tuple(dict.fromkeys(t for t in found if t.shape[-2:] == shape))


def ahead(wanted: Tensor | Sequence[Tensor], found: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Refuse to load tensors early that ops do not read, or that are broadcast, which a thread would hold many times.

    Args:
        wanted: the tensors to load early.
        found: the tensors that ops read.

    Raises:
        DecompositionError: `epilog-early`.
    """
    tensors = (wanted,) if isinstance(wanted, Tensor) else tuple(wanted)
    for tensor in tensors:
        if tensor not in found:
            names = ", ".join(t.name for t in found)
            raise DecompositionError(
                "epilog-early",
                f"{tensor} is no operand of C's shape that an op of this epilog reads",
                fix=f"early=({names},)" if names else "drop early=: vectors and scalars are read where ops use them",
            )
    return tuple(dict.fromkeys(tensors))


def copied(wanted: Mapping[Tensor, object], slots: int, early: Sequence[Tensor], found: Sequence[Tensor]) -> None:
    """Refuse copies of tensors that are not of C's shape or that are loaded early too, and rings without a slot.

    Args:
        wanted: the tensors to copy, each with the strategy that loads it.
        slots: number of tiles of each tensor in shared memory.
        early: tensors that threads load to registers.
        found: the tensors of C's shape that ops read.

    Raises:
        DecompositionError: `epilog-load`.
    """
    for tensor in wanted:
        if tensor not in found:
            names = ", ".join(f"{t.name}: tma()" for t in found)
            raise DecompositionError(
                "epilog-load",
                f"{tensor} is no operand of C's shape that an op of this epilog reads",
                fix=f"load={{{names}}}" if names else "drop load=: vectors and scalars are read where ops use them",
            )
        if tensor in early:
            raise DecompositionError(
                "epilog-load",
                f"{tensor.name} is loaded twice: to registers by early=, to shared memory by load=",
                fix="drop one of them",
            )
    if slots < 1 or (slots > 1 and not wanted):
        raise DecompositionError(
            "epilog-load",
            f"slots={slots} is no number of tiles: a copied tile takes one slot or more"
            if wanted
            else f"slots={slots} counts copied tiles in shared memory, and load= names no tensor",
            fix="slots=1, or more for short loops over K" if wanted else "drop slots=, or give load={tensor: tma()}",
        )


def behind_exchange(store: Sequence[Decomposition], kind: DType, saved: bool, early: bool, load: bool) -> None:
    """Refuse ops behind an exchange where there is none, where it rounds the sums, or where no registers follow it.

    Args:
        store: the links of the store.
        kind: the accumulator's element type.
        saved: whether ops store other results between them.
        early, load: whether tensors are loaded before the ops.

    Raises:
        DecompositionError: `epilog-behind`.
    """
    exchange = next((x for x in store if isinstance(x, Load) and x.memory == SH), None)
    if exchange is None:
        raise DecompositionError(
            "epilog-behind",
            "behind=True computes ops behind the exchange in shared memory, and the store has none",
            fix=f'store=through_shared(dtype="{kind}"), or drop behind=',
        )
    if exchange.dtype not in (None, kind):
        raise DecompositionError(
            "epilog-behind",
            f"the store's buffer holds {exchange.dtype}, to which sums in {kind} would be rounded before the ops",
            fix=f'through_shared(..., dtype="{kind}")',
        )
    if any(isinstance(x, Done) and x.atom is not None for x in store):
        raise DecompositionError(
            "epilog-behind",
            "behind=True computes ops in registers, which no part of the store reads",
            fix="through_shared(..., vector()), or drop behind=",
        )
    if saved or early or load:
        what = "save() and folds of rows" if saved else "early=" if early else "load="
        raise DecompositionError("epilog-behind", f"behind=True does not go with {what}", fix="drop one of them")


def begins_with(value: Value, outputs: Sequence[object], init: float) -> None:
    """Refuse addends as first values of sums.

    The first op must be an addition, the sums alone must not be stored, and `init` must be 0.

    Raises:
        DecompositionError: `epilog-addends`.
    """
    if without_addends(value.tree)[1] is None:
        raise DecompositionError(
            "epilog-addends",
            "addends= starts sums from what the first op adds, and the first op adds nothing",
            fix="drop addends=, or let add(...) be the first op",
        )
    if outputs or init:
        what = "outputs beside C" if outputs else f"init={init:g}"
        raise DecompositionError("epilog-addends", f"addends= does not go with {what}", fix="drop one of them")


def _rows(tensor: Tensor, c: Tensor) -> None:
    if len(tensor.shape) != len(c.shape) or tensor.shape[:-1] != c.shape[:-1]:
        raise SpecError(
            "shape-mismatch",
            f"{tensor} does not hold a value for each row of {c}",
            fix="Vector(M, name=..., along=ColMajor), or Matrix(M, tiles, name=...) for several tiles of columns",
        )


def check_rows(stored: Rows, residual: Residual, spec: MatMul) -> None:
    """Refuse to fold rows whose parts lie in several blocks.

    Raises:
        DecompositionError: `epilog-rows`.
    """
    across = "M" if spec.swapped else "N"
    tile, whole = residual.extents[across], given(spec.C, spec).shape[-1]
    tiles = simplest(ceil_div(whole, tile)) if tile is not None else None
    if tiles != stored.tensor.shape[-1]:
        raise DecompositionError(
            "epilog-rows",
            f"{stored.tensor} has {_values(stored.tensor.shape[-1])} for rows of {whole}, a block holds {tile} of them",
            fix=f"give it {tiles} columns, one for each block, or tile so that a block holds the whole row",
        )


def _values(number: Index) -> str:
    return count(number, "value") if isinstance(number, int) else f"{number} values"


def _named(tensor: Tensor, what: str) -> None:
    if not tensor.name:
        raise SpecError("same-name", f"{what} a tensor without a name", fix="name it: Matrix(..., name='X')")


def _same_name(tensor: Tensor, other: Tensor) -> SpecError:
    return SpecError(
        "same-name", f"two operands are named {tensor.name}: {other} and {tensor}", fix="name each differently"
    )


def prologue(ops: Sequence[Op], operand: Operand, spec: MatMul) -> Value:
    """Make the expression of a prolog, applied to each element of an operand after earlier prologs.

    Elements that share a byte are given to the ops as i8 or u8.

    Raises:
        SpecError: as the ops do; `same-name`, `packed-result`. DecompositionError: `prolog-shape`.
    """
    raw = operand.dtype
    first = Value(Arg(0, raw)) if not raw.packed else Value(Cast(Arg(0, raw), _whole(raw)))
    if operand.ops is not None:
        value = simplified(substituted(expression(tuple(ops), accumulator(operand.ops.dtype)), operand.ops))
    else:
        value = simplified(expression(tuple(ops), first))
    whole = given(operand.tensor, spec)
    known = {t.name: t for t in (given(spec.A, spec), given(spec.B, spec), given(spec.C, spec))}
    for tensor in value.tensors:
        _named(tensor, "an op reads")
        if known.setdefault(tensor.name, tensor) != tensor or tensor.name == spec.C.name:
            raise _same_name(tensor, known[tensor.name])
        _repeats(tensor, whole)
    if value.dtype.packed:
        raise SpecError(
            "packed-result", f"a prolog gives {value.dtype}, of which {value.dtype.pack} share a byte", fix="cast to i8"
        )
    return value


def _whole(dtype: DType) -> DType:
    return i8 if dtype.signed else u8


def _repeats(tensor: Tensor, whole: Tensor) -> None:
    """Refuse a tensor that does not broadcast over an operand; a value of a matrix may serve a group of neighbours."""
    skipped = len(whole.shape) - len(tensor.shape)
    for i, extent in enumerate(tensor.shape):
        full = whole.shape[i + skipped] if i + skipped >= 0 else 0
        matrix = i >= len(tensor.shape) - 2
        grouped = matrix and isinstance(extent, int) and isinstance(full, int) and full % extent == 0
        if extent not in (1, full) and not grouped:
            raise DecompositionError(
                "prolog-shape",
                f"{tensor} does not repeat over {whole}: {extent} values for {full}",
                fix="extents must be equal, or divide the operand's: one value for each group of neighbours",
            )
