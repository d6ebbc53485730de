"""Import graphs of torch: operators of AOTAutograd's graph become nodes; operators without a node are run by torch.

Sizes are numbers: a function called with other shapes has another graph.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fireiron.algebra.dtypes import f32
from fireiron.base.errors import FireironError
from fireiron.front.torch_ops import as_numpy
from fireiron.graph.composites import Ops
from fireiron.graph.nodes import BUNDLE, Builder, Data, Graph
from fireiron.graph.torch_nodes import (
    Stays,
    has_padded_lines,
    is_pure,
    is_tensor,
    name_of,
    order_in_memory,
    strides_with_gaps,
    takes_as_traced,
    torch_kind,
)
from fireiron.graph.torch_operators import KNOWN, VIEWS, WRAPPING
from fireiron.graph.torch_views import base_of, input_of, seen_by

torch: Any = import_module("torch")

MOST_KNOWN = 1 << 20  # most bytes of a tensor that a graph holds


class Importer:
    """Import torch's graph as a `Graph`.

    Args:
        module: the traced graph; `meta["val"]` of a node describes its result.
        fixed: positions of inputs that seldom change, such as weights.
        windows: whether kernels of this package compute convolutions and pooling of 16-bit floats.
        examples: arguments of a call, which may lie otherwise than traced, as results of our forward pass do; empty
            where none are known.
    """

    def __init__(
        self, module: Any, fixed: Collection[int] = (), windows: bool = False, examples: Sequence[Any] = ()
    ) -> None:
        self.module = module
        self.examples = examples
        self.fixed = fixed
        self.windows = windows
        self.given = 0
        self.builder = Builder()
        self.ops = Ops(self.builder)
        self.env: dict[Any, Any] = {}
        self.left: dict[str, int] = {}
        self.computed: dict[Any, Any] = {}
        self.in_place: set[Any] = set()  # calls whose result is an input of which lines are written

    def graph(self, name: str) -> tuple[Graph, list[Any], list[int]]:
        """Import the graph; return it with, for each result, its position among the outputs, or its value.

        For a result that is an input, or a view of an input, the value is a function of the inputs. The last list has a
        number for each output: outputs with equal numbers are views of one tensor in torch's graph, and may share
        memory.
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
        own = [is_tensor(result) and result not in self.in_place and input_of(result) is None for result in results]
        for result, mine in zip(results, own, strict=True):
            if result in self.in_place:
                places.append(None)
                continue
            value = self._value(result)
            if any(own) and is_tensor(result) and not mine:  # no kernel copies what the caller has
                inputs = [n for n in self.module.graph.nodes if n.op == "placeholder"]
                places.append(seen_by(result, inputs, self.env))
            elif is_tensor(result):
                places.append((len(outputs),))
                outputs.append(value)
                together.append(base_of(result))
            else:
                places.append(value)
        return self.builder.graph(name, outputs), places, [together.index(base) for base in together]

    def _placeholder(self, node: Any) -> Any:
        value, place = node.meta["val"], self.given
        self.given += 1
        if not isinstance(value, torch.Tensor):
            return value
        # What our forward pass gave may lie otherwise than torch's: its axes in another order, and padded lines.
        lies = self.examples[place] if place < len(self.examples) else value
        same = isinstance(lies, torch.Tensor) and lies.shape == value.shape
        turned = same and (lies.is_contiguous() or order_in_memory(lies) is not None)
        padded = same and has_padded_lines(lies) and not has_padded_lines(value)
        lies = lies if turned or padded else value
        kind, order = torch_kind(value.dtype), order_in_memory(lies)
        strides = strides_with_gaps(lies) if order is None and not lies.is_contiguous() else None
        return self.builder.input(node.name, tuple(value.shape), kind, place in self.fixed, order, strides, padded)

    def _known_tensor(self, node: Any) -> int:
        """Add a tensor that torch's graph holds as a constant."""
        found = getattr(self.module, node.target)
        if not isinstance(found, torch.Tensor) or found.numel() * found.element_size() > MOST_KNOWN:
            raise Stays(f"a large tensor that the graph holds, {node.target}")
        node.meta["val"] = node.meta.get("val", found)
        self.computed[node] = found.detach().cpu()
        return self._array(self.computed[node])

    def _array(self, tensor: Any) -> int:
        """Add the elements of a tensor, or one number where all elements are equal."""
        kind = torch_kind(tensor.dtype)
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor._is_zerotensor() else tensor  # has no memory
        array = as_numpy(tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor)
        first = array.reshape(-1)[:1]
        if array.size and array.tobytes() == first.tobytes() * array.size:
            return self.ops.broadcast(self.builder.constant(first[0].item(), kind), shape=tuple(tensor.shape))
        return self.builder.array(Data.of(array, kind))

    def _of_numbers(self, node: Any, value: Any) -> int | None:
        """Compute a call that reads no input of the graph, such as a mask; None for others and for large results.

        Views of known tensors remain views.
        """
        tensors = [n for n in node.all_input_nodes if is_tensor(n)]
        small = isinstance(value, torch.Tensor) and 0 < value.numel() * value.element_size() <= MOST_KNOWN
        if not small or not is_pure(node.target) or any(n not in self.computed for n in tensors):
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
        return None if tensors and KNOWN.get(name_of(node)) in VIEWS else self._array(found)

    def _value(self, x: Any) -> Any:
        """Return the value of an argument: the number of a node, or a Python value."""
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
        name = name_of(node)
        if (found := self._of_numbers(node, value)) is not None:
            return found
        known = KNOWN.get(name)
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
        if name in WRAPPING and getattr(node.meta["val"], "dtype", None) in (torch.int8, torch.uint8):
            return False
        return not kinds & {torch.float64, torch.complex64, torch.int16}

    def _checked(self, made: Any, value: Any) -> Any:
        """Convert a result to torch's type for it; refuse one of another shape."""
        if isinstance(value, list | tuple):
            if not isinstance(made, tuple):
                raise Stays("several results")
            each = zip(made, value, strict=False)
            return tuple(None if m is None else self._checked(m, v) for m, v in each)
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
        """Keep a call of torch's operator as a node."""
        target, tensors = node.target, [n for n in node.all_input_nodes if is_tensor(n)]
        types = [n.meta["val"].dtype for n in tensors]
        dense = tuple(takes_as_traced(target) and n.meta["val"].is_contiguous() for n in tensors)
        others = {n: self.env[n] for n in node.all_input_nodes if not is_tensor(n)}
        if any(isinstance(self.env[n], tuple) for n in tensors):
            raise Stays(f"{name} of a list")

        def run(*given: Any) -> Any:
            known = any(isinstance(x, np.ndarray) for x in given)  # a call that depends on no input of the graph
            given = tuple(map(torch.as_tensor, given)) if known else given
            given = tuple(x.contiguous() if whole else x for x, whole in zip(given, dense, strict=True))
            seen = {
                n: x.to(kind) if x.dtype != kind else x for n, x, kind in zip(tensors, given, types, strict=True)
            } | others
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: seen[n])
            made = target(*args, **kwargs)
            return as_numpy(made) if known and isinstance(made, torch.Tensor) else made

        sizes = tuple(others.values())
        return self.by_torch(name, tuple(self.env[n] for n in tensors), run, value, is_pure(target), sizes)

    def by_torch(
        self, name: str, inputs: tuple[int, ...], call: Callable[..., Any], value: Any, pure: bool = False,
        sizes: tuple[Any, ...] = (),
    ) -> int:  # fmt: skip
        """Add a call that torch runs.

        Args:
            name: of the operator.
            inputs: the nodes of the call's arguments.
            call: is given their tensors.
            value: describes the result, as `meta["val"]` does.
            pure: whether equal arguments give equal results.
            sizes: numbers that the call depends on beside its arguments.
        """
        self.left[name] = self.left.get(name, 0) + 1
        return self._left(name, inputs, call, value, pure, sizes)

    def _left(
        self, name: str, inputs: tuple[int, ...], call: Callable[..., Any], value: Any, pure: bool = False,
        sizes: tuple[Any, ...] = (),
    ) -> int:  # fmt: skip
        one = isinstance(value, torch.Tensor)
        shape = tuple(value.shape) if one else (1,)
        kind = torch_kind(value.dtype) if one else f32
        several: dict[str, Any] = {"pure": True} if pure and one else {} if one else {BUNDLE: True}
        order = order_in_memory(value) if one else None
        several |= ({} if order is None else {"order": order}) | ({"sizes": sizes} if sizes else {})
        return self.builder.add("foreign", *inputs, label=name, call=call, shape=shape, dtype=kind, **several)

    def constant(self, value: float | int, like: int) -> int:
        """Add a number that is combined with an array; beside integers, a number with a fraction becomes f32."""
        kind = self.ops.dtype(like)
        return self.builder.constant(value, f32 if isinstance(value, float) and kind.kind == "int" else kind)


def imported(
    module: Any, name: str = "graph", fixed: Collection[int] = (), windows: bool = False, examples: Sequence[Any] = ()
) -> tuple[Graph, list[Any], list[int], Mapping[str, int]]:
    """Import what torch traced.

    Args:
        module: torch's graph; `meta["val"]` of a node describes its result.
        name: name of the graph.
        fixed: positions of inputs that seldom change, such as weights.
        windows: whether kernels of this package compute convolutions and pooling of 16-bit floats.
        examples: as `Importer` takes them.

    Returns:
        Four values: the graph; for each result its position among the outputs, or its value; for each output a number,
        equal for outputs that may share memory; and by operator, the number of calls that torch runs.

    Raises:
        Stays: where the graph has an operation without a node.
    """
    importer = Importer(module, fixed, windows, examples)
    graph, places, together = importer.graph(name)
    return graph, places, together, importer.left
