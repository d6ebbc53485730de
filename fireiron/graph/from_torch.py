"""Graphs of torch: a graph that AOTAutograd gives to a backend becomes nodes; torch runs operators without a node.

Sizes are numbers: a graph is imported for each set of shapes that its function is called with.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import Any

import attrs

from fireiron.algebra.dtypes import DType, f32
from fireiron.base.errors import FireironError
from fireiron.front.torch_ops import as_numpy
from fireiron.graph.composites import Ops
from fireiron.graph.nodes import BUNDLE, Builder, Data, Graph
from fireiron.graph.operations import Shape
from fireiron.graph.torch_windows import own_operator
from fireiron.graph.trace import kind_of
from fireiron.graph.views import View, dense, order_of

torch: Any = import_module("torch")

SPREAD = 16  # how many times a tensor's elements its span may be
MOST_KNOWN = 1 << 20  # most bytes of a tensor that a graph holds


class Stays(Exception):
    """Say that an operator is left to torch."""


class Importer:
    """Turn torch's graph into a `Graph`.

    Args:
        module: what torch traced; `meta["val"]` of its nodes describes their results.
        fixed: places of inputs that seldom change.
        windows: whether convolutions and pooling are calls of this package's operators.
    """

    def __init__(self, module: Any, fixed: Collection[int] = (), windows: bool = False) -> None:
        self.module = module
        self.fixed = fixed
        self.windows = windows
        self.given = 0
        self.builder = Builder()
        self.ops = Ops(self.builder)
        self.env: dict[Any, Any] = {}
        self.left: dict[str, int] = {}
        self.computed: dict[Any, Any] = {}

    def graph(self, name: str) -> tuple[Graph, list[Any], list[int]]:
        """Import the graph; return it and, for each result, its place among the outputs, or its value.

        A result that is an input, or a view of one, is a function of the inputs. The last list has a number for each
        output: those of one number see one tensor of torch's, and may share memory.
        """
        results: list[Any] = []
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.env[node] = self._placeholder(node)
            elif node.op == "get_attr":
                self.env[node] = self._known_tensor(node)
            elif node.op == "output":
                results = list(node.args[0])
            else:
                self.env[node] = self._call(node)
        outputs: list[int] = []
        places: list[Any] = []
        together: list[Any] = []
        own = [is_tensor(result) and _input_of(result) is None for result in results]
        for result, mine in zip(results, own, strict=True):
            value = self._value(result)
            if any(own) and is_tensor(result) and not mine:  # no kernel copies what the caller has
                inputs = [n for n in self.module.graph.nodes if n.op == "placeholder"]
                places.append(_seen_by(result, inputs, self.env))
            elif is_tensor(result):
                places.append((len(outputs),))
                outputs.append(value)
                together.append(_base_of(result))
            else:
                places.append(value)
        return self.builder.graph(name, outputs), places, [together.index(base) for base in together]

    def _placeholder(self, node: Any) -> Any:
        value, place = node.meta["val"], self.given
        self.given += 1
        if not isinstance(value, torch.Tensor):
            return value
        kind, order = torch_kind(value.dtype), _order_of(value)
        strides = _apart(value) if order is None and not value.is_contiguous() else None
        return self.builder.input(node.name, tuple(value.shape), kind, place in self.fixed, order, strides)

    def _known_tensor(self, node: Any) -> int:
        """Add a tensor that the graph itself holds."""
        found = getattr(self.module, node.target)
        if not isinstance(found, torch.Tensor) or found.numel() * found.element_size() > MOST_KNOWN:
            raise Stays(f"a large tensor that the graph holds, {node.target}")
        node.meta["val"] = node.meta.get("val", found)
        self.computed[node] = found.detach().cpu()
        return self._array(self.computed[node])

    def _array(self, tensor: Any) -> int:
        """Add the elements of a tensor: one number where all are equal."""
        kind = torch_kind(tensor.dtype)
        array = as_numpy(tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor)
        first = array.reshape(-1)[:1]
        if array.size and array.tobytes() == first.tobytes() * array.size:
            return self.ops.broadcast(self.builder.constant(first[0].item(), kind), shape=tuple(tensor.shape))
        return self.builder.array(Data.of(array, kind))

    def _of_numbers(self, node: Any, value: Any) -> int | None:
        """Compute a call that reads no input of the graph, as a mask of places; None for others, and for large results.

        Views of known tensors remain views.
        """
        tensors = [n for n in node.all_input_nodes if is_tensor(n)]
        small = isinstance(value, torch.Tensor) and 0 < value.numel() * value.element_size() <= MOST_KNOWN
        if not small or not _is_pure(node.target) or any(n not in self.computed for n in tensors):
            return None
        args, named = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self.computed.get(n, self.env[n]))
        named = {k: torch.device("cpu") if isinstance(v, torch.device) else v for k, v in named.items()}
        try:
            found = node.target(*args, **named)
        except Exception:
            return None
        if not isinstance(found, torch.Tensor) or (found.shape, found.dtype) != (value.shape, value.dtype):
            return None
        self.computed[node] = found
        return None if tensors and _KNOWN.get(_name_of(node)) in _VIEWS else self._array(found)

    def _value(self, x: Any) -> Any:
        """Give the value of an argument: the number of a node, or a Python value."""
        if isinstance(x, torch.fx.Node):
            return self.env[x]
        if isinstance(x, list | tuple):
            return tuple(self._value(one) for one in x)
        return x

    def _call(self, node: Any) -> Any:
        if node.target is operator.getitem:
            return self._item(node)
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor | list | tuple):
            if all(not is_tensor(a) for a in node.all_input_nodes):  # arithmetic of sizes
                return value
            raise Stays(f"{node.target} gives no tensor")
        name = _name_of(node)
        if (found := self._of_numbers(node, value)) is not None:
            return found
        known = _KNOWN.get(name)
        if known is not None and self._ours(node, name):
            try:
                made = known(
                    self, node, *map(self._value, node.args), **{k: self._value(v) for k, v in node.kwargs.items()}
                )
                return self._checked(made, value)
            except (Stays, FireironError):
                pass
        return self._foreign(node, name, value)

    def _ours(self, node: Any, name: str) -> bool:
        """Say whether kernels support the types of a call's inputs and results."""
        values = [n.meta.get("val") for n in (node, *node.all_input_nodes)]
        kinds = {v.dtype for v in values if isinstance(v, torch.Tensor)}
        if name in _OF_ANY_TYPE or _KNOWN[name] in _VIEWS:
            kinds.discard(torch.int64)
        return not kinds & {torch.int64, torch.float64, torch.complex64, torch.int16}

    def _checked(self, made: Any, value: Any) -> Any:
        """Convert a result to the type that torch expects; refuse a result of another shape."""
        if isinstance(value, list | tuple):
            if not isinstance(made, tuple):
                raise Stays("several results")
            return tuple(None if m is None else self._checked(m, v) for m, v in zip(made, value, strict=False))
        shape, kind = tuple(value.shape), torch_kind(value.dtype)
        if self.ops.shape(made) != shape:
            raise Stays(f"shapes {self.ops.shape(made)} and {shape}")
        return self.ops.like(made, kind)

    def _item(self, node: Any) -> Any:
        source, place = node.args
        made = self.env[source]
        if isinstance(made, tuple):
            if made[place] is None:
                raise Stays("a result that is not computed")
            return made[place]
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            return value
        return self._left("item", (made,), lambda x: x[place], value)

    def _foreign(self, node: Any, name: str, value: Any) -> Any:
        """Keep a call of torch's operator, or call this package's in its place."""
        target, tensors = node.target, [n for n in node.all_input_nodes if is_tensor(n)]
        types = [n.meta["val"].dtype for n in tensors]
        others = {n: self.env[n] for n in node.all_input_nodes if not is_tensor(n)}
        if any(isinstance(self.env[n], tuple) for n in tensors):
            raise Stays(f"{name} of a list")
        ours = own_operator(node, name) if self.windows else None
        if ours is not None:
            name, value = ours.label, node.meta["val"][0] if ours.first else value
        else:
            self.left[name] = self.left.get(name, 0) + 1

        def run(*given: Any) -> Any:
            seen = {
                n: x.to(kind) if x.dtype != kind else x for n, x, kind in zip(tensors, given, types, strict=True)
            } | others
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: seen[n])
            return (target if ours is None else ours.call)(*args, **kwargs)

        sizes = tuple(others.values())
        made = self._left(name, tuple(self.env[n] for n in tensors), run, value, _is_pure(target), sizes)
        return (made, None) if ours is not None and ours.first else made

    def _left(
        self, name: str, inputs: tuple[int, ...], call: Callable[..., Any], value: Any, pure: bool = False,
        sizes: tuple[Any, ...] = (),
    ) -> int:  # fmt: skip
        one = isinstance(value, torch.Tensor)
        shape = tuple(value.shape) if one else (1,)
        kind = torch_kind(value.dtype) if one else f32
        several: dict[str, Any] = {"pure": True} if pure and one else {} if one else {BUNDLE: True}
        order = _order_of(value) if one else None
        several |= ({} if order is None else {"order": order}) | ({"sizes": sizes} if sizes else {})
        return self.builder.add("foreign", *inputs, label=name, call=call, shape=shape, dtype=kind, **several)

    def constant(self, value: float | int, like: int) -> int:
        """Add a number that is combined with an array: beside integers, a number with a fraction is f32."""
        kind = self.ops.dtype(like)
        return self.builder.constant(value, f32 if isinstance(value, float) and kind.kind == "int" else kind)


def _order_of(tensor: Any) -> tuple[int, ...] | None:
    """Give the axes of a tensor in the order of its memory; None where that is the shape's, or elements lie apart."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    order = order_of(View(0, 0, shape, strides))
    if order is None:
        return None
    plain = dense(shape, order)
    return order if all(n == 1 or s == t for n, s, t in zip(shape, strides, plain, strict=True)) else None


def _apart(tensor: Any) -> tuple[int, ...] | None:
    """Give the strides of a tensor with gaps, as a part of a wider one has; None where elements overlap or lie afar."""
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    least = 1
    for step, extent in sorted((s, n) for n, s in zip(shape, strides, strict=True) if n != 1):
        if step < least or (least == 1 and step != 1):
            return None
        least = step * extent
    return (
        tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
        if least <= SPREAD * tensor.numel()
        else None
    )


def _base_of(node: Any) -> Any:
    """Find the node whose elements a view shows, or the node itself."""
    while node.op == "call_function" and len(node.all_input_nodes) == 1:
        source = node.args[0]
        part = node.target is operator.getitem and _name_of(source).startswith("split")
        name = _name_of(source if part else node)
        if not part and _KNOWN.get(name) not in _VIEWS and name not in ("alias", "detach"):
            break
        node = source.args[0] if part else source
    return node


def _input_of(node: Any) -> Any:
    """Find the input that a node is, or that it views; None for results of operations."""
    base = _base_of(node)
    return base if base.op == "placeholder" else None


@attrs.frozen
class Seen:
    """View an input of a graph as one of its results does.

    Args:
        place: of the input.
        steps: torch's views, and what they take beside the tensor.
        sized: whether they take sizes that depend on the inputs' shapes.
    """

    place: int
    steps: tuple[tuple[Any, Sequence[Any], Mapping[str, Any]], ...]
    sized: bool

    def __call__(self, given: Sequence[Any]) -> Any:
        """View one of the inputs of a call."""
        found = given[self.place]
        for target, args, named in self.steps:
            found = target(found, *args, **named)
        return found


def _seen_by(node: Any, inputs: Sequence[Any], known: Mapping[Any, Any]) -> Seen:
    """Give the view of one of a graph's inputs that a node is."""
    base, chain, sized = _input_of(node), list[Any](), False
    while node is not base:
        args, named = torch.fx.node.map_arg((node.args[1:], node.kwargs), lambda n: known[n])
        sized |= len(node.all_input_nodes) > 1
        chain.append((node.target, args, named))
        node = node.args[0]
    return Seen(inputs.index(base), tuple(reversed(chain)), sized)


def _name_of(node: Any) -> str:
    """Name the operator of a call."""
    return str(getattr(node.target, "overloadpacket", node.target)).removeprefix("aten.")


def _is_pure(target: Any) -> bool:
    """Say whether an operator gives the same result in each call, and changes nothing else."""
    schema = getattr(target, "_schema", None)
    return schema is not None and not schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def is_tensor(x: Any) -> bool:
    """Say whether a node of torch's graph gives a tensor, or several."""
    return isinstance(x, torch.fx.Node) and isinstance(x.meta.get("val"), torch.Tensor | list | tuple)


def torch_kind(dtype: Any) -> DType:
    """Find the element type that stands for one of torch's.

    Raises:
        Stays: where there is none.
    """
    try:
        return kind_of(dtype)
    except FireironError:
        raise Stays(f"elements of {dtype}") from None


Known = Callable[..., Any]
_KNOWN: dict[str, Known] = {}
_OF_ANY_TYPE = ("embedding", "split", "split_with_sizes")  # and views, which compute nothing


def _known(*names: str) -> Callable[[Known], Known]:
    def note(function: Known) -> Known:
        for name in names:
            _KNOWN[name] = function
        return function

    return note


def _unary(op: str) -> Known:
    return lambda i, node, x: getattr(i.ops, op)(_wide(i, x))


def _wide(i: Importer, x: int) -> int:
    """Compute functions of integers in f32."""
    return i.ops.cast(x, dtype=f32) if i.ops.dtype(x).kind == "int" else x


def _plain(op: str) -> Known:
    return lambda i, node, x, **_: getattr(i.ops, op)(x)


def _pair(i: Importer, node: Any, x: Any, y: Any) -> tuple[int, int]:
    tensors = [is_tensor(a) for a in node.args[:2]]
    if not any(tensors):
        raise Stays("no tensor")
    return (
        x if tensors[0] else i.constant(x, y),
        y if len(tensors) > 1 and tensors[1] else i.constant(y, x),
    )


def _binary(op: str) -> Known:
    def call(i: Importer, node: Any, x: Any, y: Any) -> int:
        return getattr(i.ops, op)(*_pair(i, node, x, y))

    return call


def _turned(op: str) -> Known:
    def call(i: Importer, node: Any, x: Any, y: Any) -> int:
        return getattr(i.ops, op)(*reversed(_pair(i, node, x, y)))

    return call


for _name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "erf", "floor", "ceil"):
    _KNOWN[_name] = _unary(_name)
for _name in ("neg", "abs", "relu", "silu", "sigmoid"):
    _KNOWN[_name] = _plain(_name)
for _name, _op in (
    ("mul", "mul"),
    ("maximum", "maximum"),
    ("minimum", "minimum"),
    ("lt", "lt"),
    ("le", "le"),
    ("eq", "eq"),
):
    _KNOWN[_name] = _binary(_op)
_KNOWN["gt"], _KNOWN["ge"] = _turned("lt"), _turned("le")


@_known("add")
def _add(i: Importer, node: Any, x: Any, y: Any, alpha: float = 1) -> int:
    a, b = _pair(i, node, x, y)
    return i.ops.add(a, b if alpha == 1 else i.ops.mul(b, i.constant(alpha, b)))


@_known("sub")
def _sub(i: Importer, node: Any, x: Any, y: Any, alpha: float = 1) -> int:
    a, b = _pair(i, node, x, y)
    return i.ops.sub(a, b if alpha == 1 else i.ops.mul(b, i.constant(alpha, b)))


@_known("rsub")
def _rsub(i: Importer, node: Any, x: Any, y: Any, alpha: float = 1) -> int:
    a, b = _pair(i, node, x, y)
    return i.ops.sub(b, a if alpha == 1 else i.ops.mul(a, i.constant(alpha, a)))


@_known("div")
def _div(i: Importer, node: Any, x: Any, y: Any, rounding_mode: str | None = None) -> int:
    if rounding_mode is not None:
        raise Stays("a quotient that is rounded")
    a, b = _pair(i, node, x, y)
    return i.ops.div(_wide(i, a), _wide(i, b))


@_known("prims.fma")
def _fma(i: Importer, node: Any, x: int, y: int, z: int) -> int:
    return i.ops.add(i.ops.mul(x, y), z)


@_known("copy")
def _written(i: Importer, node: Any, over: int, x: int, *_: Any) -> int:
    if node.args[0].meta["val"].device != node.args[1].meta["val"].device:
        raise Stays("another device")
    made = i.ops.like(x, i.ops.dtype(over))
    return made if i.ops.shape(made) == i.ops.shape(over) else i.ops.broadcast(made, shape=i.ops.shape(over))


@_known("pow")
def _pow(i: Importer, node: Any, x: Any, y: Any) -> int:
    a, b = _pair(i, node, x, y)
    return i.ops.pow(a, b)


@_known("reciprocal")
def _reciprocal(i: Importer, node: Any, x: int) -> int:
    return i.ops.div(i.constant(1.0, x), x)


@_known("ne")
def _ne(i: Importer, node: Any, x: Any, y: Any) -> int:
    return i.ops.eq(i.ops.eq(*_pair(i, node, x, y)), 0.0)


@_known("logical_not", "bitwise_not")
def _not(i: Importer, node: Any, x: int) -> int:
    if node.args[0].meta["val"].dtype != torch.bool:
        raise Stays("bits")
    return i.ops.eq(x, 0.0)


@_known("logical_and", "bitwise_and")
def _and(i: Importer, node: Any, x: int, y: int) -> int:
    if any(n.meta["val"].dtype != torch.bool for n in node.all_input_nodes):
        raise Stays("bits")
    return i.ops.mul(x, y)


@_known("where")
def _where(i: Importer, node: Any, condition: int, x: Any, y: Any) -> int:
    a, b = (v if is_tensor(n) else None for v, n in zip((x, y), node.args[1:], strict=True))
    like = a if a is not None else b
    if like is None:
        raise Stays("numbers alone")
    return i.ops.select(
        condition, x if a is not None else i.constant(x, like), y if b is not None else i.constant(y, like)
    )


@_known("masked_fill")
def _masked_fill(i: Importer, node: Any, x: int, mask: int, value: Any) -> int:
    filled = value if is_tensor(node.args[2]) else i.constant(value, x)
    return i.ops.select(mask, filled, x)


@_known("clamp", "clamp_min", "clamp_max", "hardtanh")
def _clamp(i: Importer, node: Any, x: int, low: Any = None, high: Any = None, **named: Any) -> int:
    if "clamp_max" in str(node.target):
        low, high = None, low
    low, high = named.get("min", low), named.get("max", high)
    if any(is_tensor(a) for a in node.args[1:]):
        raise Stays("bounds that are tensors")
    x = x if low is None else i.ops.maximum(x, i.constant(low, x))
    return x if high is None else i.ops.minimum(x, i.constant(high, x))


@_known("gelu")
def _gelu(i: Importer, node: Any, x: int, approximate: str = "none") -> int:
    return i.ops.gelu(x, approximate=approximate)


@_known("_to_copy", "prims.convert_element_type", "clone", "alias", "detach", "contiguous", "lift_fresh_copy")
def _copied(i: Importer, node: Any, x: int, *_: Any, **named: Any) -> int:
    value = node.meta["val"]
    if value.device != node.args[0].meta["val"].device:
        raise Stays("another device")
    kind = torch_kind(value.dtype)
    if value.dtype == torch.bool and node.args[0].meta["val"].dtype != torch.bool:
        return i.ops.eq(i.ops.eq(x, 0.0), 0.0)
    return i.ops.like(x, kind)


@_known("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze")
def _reshape(i: Importer, node: Any, x: int, *_: Any) -> int:
    return i.ops.reshape(x, shape=tuple(node.meta["val"].shape))


@_known("expand")
def _expand(i: Importer, node: Any, x: int, *_: Any, **__: Any) -> int:
    return i.ops.broadcast(x, shape=tuple(node.meta["val"].shape))


@_known("permute")
def _permute(i: Importer, node: Any, x: int, axes: Sequence[int]) -> int:
    rank = len(i.ops.shape(x))
    return i.ops.transpose(x, axes=tuple(a % rank for a in axes))


@_known("t")
def _t(i: Importer, node: Any, x: int) -> int:
    return i.ops.transpose(x, axes=tuple(reversed(range(len(i.ops.shape(x))))))


@_known("transpose")
def _transpose(i: Importer, node: Any, x: int, one: int, other: int) -> int:
    axes = list(range(len(i.ops.shape(x))))
    axes[one], axes[other] = axes[other], axes[one]
    return i.ops.transpose(x, axes=tuple(axes))


def _cut(i: Importer, x: int, axis: int, start: int, stop: int, step: int = 1) -> int:
    shape: Shape = i.ops.shape(x)
    axis %= len(shape)
    bounds = slice(start, stop, step).indices(shape[axis])
    if not len(range(*bounds)):
        raise Stays("nothing is left")
    at = [bounds if a == axis else (0, n, 1) for a, n in enumerate(shape)]
    if all((a, b, c) == (0, n, 1) for (a, b, c), n in zip(at, shape, strict=True)):
        return x
    starts, stops, steps = zip(*at, strict=True)
    return i.ops.slice(x, starts=starts, stops=stops, steps=steps)


@_known("slice")
def _slice(
    i: Importer, node: Any, x: int, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> int:
    return _cut(i, x, dim, start or 0, 1 << 62 if end is None else end, step)


@_known("select")
def _select(i: Importer, node: Any, x: int, dim: int, index: int) -> int:
    size = i.ops.shape(x)[dim]
    at = index % size
    return i.ops.reshape(_cut(i, x, dim, at, at + 1), shape=tuple(node.meta["val"].shape))


_VIEWS = (_reshape, _expand, _permute, _slice, _select, _t, _transpose)


@_known("split", "split_with_sizes")
def _split(i: Importer, node: Any, x: int, sizes: Any, dim: int = 0) -> tuple[int, ...]:
    extent = i.ops.shape(x)[dim]
    parts = sizes if isinstance(sizes, tuple) else [min(sizes, extent - a) for a in range(0, extent, sizes)]
    made: list[int] = []
    at = 0
    for size in parts:
        made.append(_cut(i, x, dim, at, at + size))
        at += size
    return tuple(made)


@_known("cat")
def _cat(i: Importer, node: Any, arrays: tuple[int, ...], dim: int = 0) -> int:
    # torch accepts an empty 1-D array beside arrays of any rank.
    full = [x for x, n in zip(arrays, node.args[0], strict=True) if n.meta["val"].numel()]
    if not full:
        raise Stays("no elements")
    return full[0] if len(full) == 1 else i.ops.concatenate(*full, axis=dim % len(i.ops.shape(full[0])))


def _fold(op: str) -> Known:
    def call(
        i: Importer, node: Any, x: int, axes: Any = None, keepdim: bool = False, dtype: Any = None, **_: Any
    ) -> int:
        rank = len(i.ops.shape(x))
        given = range(rank) if axes is None or axes == () else (axes,) if isinstance(axes, int) else axes
        wide = i.ops.wide(_wide(i, x) if dtype is not None or op == "mean" else x)
        return getattr(i.ops, op)(wide, axes=tuple(sorted(a % rank for a in given)), keepdims=keepdim)

    return call


for _name, _op in (("sum", "sum"), ("mean", "mean"), ("amax", "max"), ("amin", "min")):
    _KNOWN[_name] = _fold(_op)


@_known("var")
def _var(i: Importer, node: Any, x: int, axes: Any = None, correction: float | None = 1, keepdim: bool = False) -> int:
    rank = len(i.ops.shape(x))
    given = range(rank) if axes is None else (axes,) if isinstance(axes, int) else axes
    found = tuple(sorted(a % rank for a in given))
    return i.ops.variance(
        i.ops.wide(x), axes=found, keepdims=keepdim, correction=1 if correction is None else correction
    )


@_known("var_mean")
def _var_mean(
    i: Importer, node: Any, x: int, axes: Any = None, correction: float | None = 1, keepdim: bool = False
) -> Any:
    mean = _fold("mean")(i, node, x, axes, keepdim)
    return _var(i, node, x, axes, correction, keepdim), mean


@_known("mm", "bmm", "matmul")
def _matmul(i: Importer, node: Any, a: int, b: int) -> int:
    return i.ops.matmul(a, b)


@_known("addmm", "baddbmm")
def _addmm(i: Importer, node: Any, c: int, a: int, b: int, beta: float = 1, alpha: float = 1) -> int:
    product = i.ops.matmul(a, b)
    product = product if alpha == 1 else i.ops.mul(product, i.constant(alpha, product))
    return i.ops.add(product, c if beta == 1 else i.ops.mul(c, i.constant(beta, c)))


@_known("_softmax", "softmax", "_safe_softmax")
def _softmax(i: Importer, node: Any, x: int, dim: int, *_: Any) -> int:
    return i.ops.softmax(x, axis=dim % len(i.ops.shape(x)))


@_known("_log_softmax")
def _log_softmax(i: Importer, node: Any, x: int, dim: int, *_: Any) -> int:
    return i.ops.log_softmax(x, axis=dim % len(i.ops.shape(x)))


@_known("native_layer_norm")
def _layer_norm(i: Importer, node: Any, x: int, shape: Sequence[int], gain: Any, bias: Any, eps: float) -> Any:
    o, rank = i.ops, len(i.ops.shape(x))
    axes = tuple(range(rank - len(shape), rank))
    wide = o.wide(x)
    number = math.prod(shape)
    mean = o.mul(o.sum(wide, axes=axes, keepdims=True), 1.0 / number)
    away = o.sub(wide, mean)
    deviation = o.rsqrt(o.add(o.mul(o.sum(o.mul(away, away), axes=axes, keepdims=True), 1.0 / number), float(eps)))
    y = o.mul(away, deviation)
    y = y if gain is None else o.mul(y, gain)
    y = y if bias is None else o.add(y, bias)
    return o.like(y, o.dtype(x)), mean, deviation


@_known("_native_batch_norm_legit_no_training")
def _batch_norm(
    i: Importer, node: Any, x: int, gain: Any, bias: Any, mean: int, variance: int, momentum: float, eps: float
) -> Any:
    o = i.ops
    lead = (o.shape(x)[1], *(1,) * (len(o.shape(x)) - 2))
    scale = o.rsqrt(o.add(o.wide(variance), float(eps)))
    scale = scale if gain is None else o.mul(scale, o.wide(gain))
    shift = o.neg(o.mul(o.wide(mean), scale))
    shift = shift if bias is None else o.add(shift, o.wide(bias))
    y = o.add(o.mul(o.wide(x), o.reshape(scale, shape=lead)), o.reshape(shift, shape=lead))
    return o.like(y, o.dtype(x)), None, None


@_known("convolution")
def _patches(
    i: Importer, node: Any, x: int, filters: int, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, *rest: Any,
) -> int:  # fmt: skip
    """Write a convolution whose patches do not overlap as a product."""
    o = i.ops
    (batch, channels, *image), (out, per, *sizes) = o.shape(x), o.shape(filters)
    apart = tuple(stride) == tuple(sizes) and max(sizes) > 1 and not any(padding) and not transposed and per == channels
    if not apart or any(n % size for n, size in zip(image, sizes, strict=True)):
        raise Stays("a convolution")
    rank, count = len(image), [n // size for n, size in zip(image, sizes, strict=True)]
    cut = [n for pair in zip(count, sizes, strict=True) for n in pair]
    parted = o.reshape(x, shape=(batch, channels, *cut))
    places, pixels = range(2, 2 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    rows = o.transpose(parted, axes=(0, *places, 1, *pixels))
    rows = o.reshape(rows, shape=(batch, math.prod(count), channels * math.prod(sizes)))
    columns = o.transpose(o.reshape(filters, shape=(out, channels * math.prod(sizes))), axes=(1, 0))
    y = o.matmul(rows, columns)
    y = y if bias is None else o.add(y, bias)
    return o.reshape(o.transpose(y, axes=(0, 2, 1)), shape=(batch, out, *count))


@_known("full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "new_full", "new_zeros", "new_ones")
def _filled(i: Importer, node: Any, *given: Any, fill_value: Any = None, **_: Any) -> int:
    """Repeat a number: what reads it reads the number."""
    value, name = node.meta["val"], _name_of(node)
    number = {"zeros": 0, "ones": 1}.get(name.removeprefix("new_").removesuffix("_like"), fill_value)
    number = given[-1] if number is None else number
    if not isinstance(number, int | float | bool):
        raise Stays("a number that is not known")
    made = i.builder.constant(number, torch_kind(value.dtype))
    return i.ops.broadcast(made, shape=tuple(value.shape)) if value.shape else made


@_known("embedding")
def _embedding(i: Importer, node: Any, table: int, ids: int, *_: Any, **__: Any) -> int:
    return i.ops.gather(table, ids)


@_known("fireiron.kept_attention")
def _kept_attention(
    i: Importer, node: Any, q: int, k: int, v: int, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool
) -> tuple[int, int]:
    if dropout:
        raise Stays("dropout")
    scale = 1 / math.sqrt(i.ops.shape(q)[-1]) if scale is None else float(scale)
    return _attended(i, q, k, v, mask, scale, bool(causal))


def _attended(i: Importer, q: int, k: int, v: int, mask: int | None, scale: float, causal: bool) -> tuple[int, int]:
    """Add attention and the logarithm of each row's sum.

    Heads of queries that share one head of keys and values lie along an axis of their own.
    """
    o = i.ops
    shape, keys, values = o.shape(q), o.shape(k), o.shape(v)
    given = () if mask is None else (mask,)
    how: dict[str, Any] = {"scale": scale, "causal": causal}
    if shape[:-2] == keys[:-2] == values[:-2]:
        return o.attention(q, k, v, *given, **how), o.attention_sums(q, k, *given, **how)
    heads = keys[1] if len(shape) == len(keys) == 4 else 0
    if not heads or shape[0] != keys[0] or keys[:-1] != values[:-1] or shape[1] % heads:
        raise Stays(f"queries {shape}, keys {keys} and values {values}")
    group = shape[1] // heads
    parted = o.reshape(q, shape=(shape[0], heads, group, *shape[2:]))
    pairs = [o.reshape(x, shape=(s[0], heads, 1, *s[2:])) for x, s in ((k, keys), (v, values))]
    masks = [o.reshape(x, shape=_mask_of_groups(o.shape(x), heads, group)) for x in given]
    made, sums = o.attention(parted, *pairs, *masks, **how), o.attention_sums(parted, pairs[0], *masks, **how)
    return o.reshape(made, shape=(*shape[:-1], values[-1])), o.reshape(sums, shape=shape[:-1])


def _mask_of_groups(shape: Shape, heads: int, group: int) -> Shape:
    if len(shape) < 3:
        return shape
    return (*shape[:-3], *((1, 1) if shape[-3] == 1 else (heads, group)), *shape[-2:])


@_known(
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable", "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math_for_mps",
)  # fmt: skip
def _attention(i: Importer, node: Any, q: int, k: int, v: int, *rest: Any, **named: Any) -> Any:
    target = node.target
    known = dict(zip([a.name for a in target._schema.arguments][3:], rest, strict=False)) | named
    used = {n.args[1] for n in node.users if n.target is operator.getitem}
    several = isinstance(node.meta["val"], list | tuple)
    if known.get("dropout_p", 0.0) or known.get("return_debug_mask") or (several and used - {0}):
        raise Stays("what the gradient of torch's attention needs")
    mask = known.get("attn_mask")
    mask = known.get("attn_bias") if mask is None else mask
    scale = known.get("scale")
    scale = 1 / math.sqrt(i.ops.shape(q)[-1]) if scale is None else scale
    made, _ = _attended(i, q, k, v, mask, float(scale), bool(known.get("is_causal")))
    return (made, *[None] * (len(node.meta["val"]) - 1)) if several else made


def imported(
    module: Any, name: str = "graph", fixed: Collection[int] = (), windows: bool = False
) -> tuple[Graph, list[Any], list[int], Mapping[str, int]]:
    """Import what torch traced.

    Args:
        module: torch's graph, whose nodes describe their results.
        name: of the graph.
        fixed: places of inputs that seldom change.
        windows: whether convolutions and pooling are calls of this package's operators.

    Returns:
        The graph; the place of each result; a number for each output, equal for those that may share memory; how many
        calls of each operator torch runs.

    Raises:
        Stays: where the graph has an operation without a node.
    """
    importer = Importer(module, fixed, windows)
    graph, places, together = importer.graph(name)
    return graph, places, together, importer.left
