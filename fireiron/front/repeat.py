"""Repeated products: a call with torch tensors of known shapes and strides only launches the kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import attrs

from fireiron.algebra.dtypes import DType
from fireiron.front.fingerprint import fingerprint
from fireiron.jit.arrays import is_torch
from fireiron.jit.kernel import as_tuple, like
from fireiron.jit.streams import stream_handle, torch_current_stream

if TYPE_CHECKING:
    from fireiron.front.host import HostKernel
    from fireiron.front.several import Several
    from fireiron.jit.kernel import CompiledKernel
    from fireiron.jit.launch import LaunchPlan

    Callee: TypeAlias = CompiledKernel | HostKernel | Several

MOST_LAUNCHES = 4096
NUMBERS = frozenset({bool, float, int})


class Call(NamedTuple):
    """Hold the call of a kernel that computes a product of arrays.

    Args:
        kernel: the compiled kernel.
        inputs: arrays of the product and its operands, or views, as the kernel takes them.
        order: for each input, its position among the product's arrays and then its operands.
        out: array to write, as the kernel takes it; allocated where None.
        numbers: numbers by the kernel's names.
        names: for each number, the operand's name in the call.
        shape: shape of each result, where the kernel's own result has another shape.
    """

    kernel: Callee
    inputs: tuple[Any, ...]
    order: tuple[int, ...]
    out: Any
    numbers: dict[str, Any]
    names: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None

    def shaped(self, made: Any) -> Any:
        """Reshape allocated results to have the call's leading dimensions."""
        if isinstance(made, tuple):
            return tuple(self.shaped(one) for one in cast("tuple[Any, ...]", made))
        return made if self.shape is None or tuple(made.shape) == self.shape else made.reshape(self.shape)


@attrs.frozen(eq=False)
class Launch:
    """Hold a prepared launch; a call adds the addresses, the stream, and the epilog's numbers.

    Args:
        kernel: the compiled kernel.
        plan: launch plan for tensors of these shapes and strides.
        order: for each input of the kernel, its position among the call's arrays.
        numbers: pairs of the kernel's name for a number and the operand's name in the call.
        device: the GPU's ordinal.
        fresh: functions that allocate the results, where the call gives no `out`.
        current_stream: a function that returns a device's current stream.
    """

    kernel: Callee
    plan: LaunchPlan
    order: tuple[int, ...]
    numbers: tuple[tuple[str, str], ...]
    device: int
    fresh: tuple[Callable[[], Any], ...]
    current_stream: Callable[[int], int]

    def __call__(self, arrays: Sequence[Any], out: Any, stream: Any, operands: Mapping[str, Any]) -> Any:
        """Launch, and return the result; without a launch None, where addresses may be misaligned or overlap."""
        addresses = [arrays[i].data_ptr() for i in self.order]
        if len(self.fresh) == 1:
            result = self.fresh[0]() if out is None else out
            addresses.append(result.data_ptr())
        else:
            result = tuple(make() for make in self.fresh) if out is None else out
            addresses += [one.data_ptr() for one in result]
        if self.plan.suspicious(addresses):
            return None
        handle = self.current_stream(self.device) if stream is None else stream_handle(stream)
        values = self.kernel.encoded({mine: operands[name] for mine, name in self.numbers} if self.numbers else {})
        self.plan.run(addresses, values, handle)
        return result


class Launches:
    """Remember launches by their keys: shapes and strides of arrays, options, and fingerprints of functions."""

    def __init__(self) -> None:
        self._known: dict[Any, Launch] = {}
        # Classes of tensors met on a GPU.
        self._tensors: set[type] = set()
        self._grad_enabled: Callable[[], bool] = bool

    def clear(self) -> None:
        """Forget all launches."""
        self._known.clear()

    def find(self, key: object) -> Launch | None:
        """Return the launch of a key, None where there is none."""
        return self._known.get(key)

    def key(
        self,
        arrays: Sequence[Any],
        out: Any,
        layout: str,
        dtype: object,
        functions: Sequence[Callable[..., Any] | None],
        operands: Mapping[str, Any],
    ) -> object:
        """Return the key of a call: calls of equal keys need the same launch. None where there is no safe key.

        Args:
            arrays: arrays of the product, then those of the operands.
            out: as the call has it.
            layout: the call's `layout`.
            dtype: the call's `dtype`.
            functions: the caller's functions: epilog and schedule.
            operands: arrays and numbers by name.
        """
        if dtype is not None and not isinstance(dtype, str | DType):
            return None
        found: list[Any] = [layout, dtype, out is None]
        for array in arrays if out is None else (*arrays, *as_tuple(out)):
            if type(array) not in self._tensors and not self._meet(array):
                return None
            if array.requires_grad and self._grad_enabled():
                return None
            found += (array.shape, array.stride(), array.dtype, array.get_device())
        if operands:
            # Beside sums of integers a number that is a float is another type's parameter.
            whole = not getattr(arrays[0].dtype, "is_floating_point", True)
            found += [
                (name, (type(x) if whole else float) if type(x) in NUMBERS else None) for name, x in operands.items()
            ]
        for function in functions:
            if function is None:
                found.append(None)
            else:
                does = fingerprint(function)
                if does is None:
                    return None
                found.append(does)
        return tuple(found)

    def _meet(self, array: Any) -> bool:
        """Say whether an array is a tensor on a GPU, and remember its class."""
        if not is_torch(array) or not getattr(array, "is_cuda", False):
            return False
        self._grad_enabled = sys.modules["torch"].is_grad_enabled
        self._tensors.add(array.__class__)
        return True

    def keep(self, key: object, arrays: Sequence[Any], call: Call, made: Any, result: Any) -> None:
        """Remember the launch of a call that has just returned, if its arrays are torch tensors.

        Args:
            key: the call's key.
            arrays: arrays of the product, then those of the operands.
            call: the kernel's call.
            made: the result of the kernel.
            result: the result in the product's shape.
        """
        plan = call.kernel.planned((*call.inputs, *as_tuple(made if call.out is None else call.out)))
        views = zip(call.inputs, call.order, strict=True)
        if plan is None or any(view.data_ptr() != arrays[i].data_ptr() for view, i in views):
            return
        if len(self._known) >= MOST_LAUNCHES:
            self._known.clear()
        results = as_tuple(result)
        numbers = tuple(zip(call.numbers, call.names, strict=True))
        fresh, device = tuple(map(like, results)), results[0].get_device()
        self._known[key] = Launch(call.kernel, plan, call.order, numbers, device, fresh, torch_current_stream())


launches = Launches()
