"""Repeat calls of torch's operators: a call like an earlier one allocates its results and launches, and does no more.

The first call of its kind runs as usual, while its launches are recorded. It is kept if the kernels read and write
nothing but the call's tensors, its results, and memory of their own. Calls that torch's dispatcher must make (traced,
transformed, watched or differentiated calls), and tensors that are not on a GPU, always run as usual. Only code that
has torch imports this file.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, ParamSpec, TypeAlias, TypeVar

import attrs

from fireiron.front.torch_ops import dispatched
from fireiron.jit.arrays import span
from fireiron.jit.kernel import as_tuple
from fireiron.jit.streams import torch_current_stream

torch: Any = import_module("torch")
_levels: Any = import_module("torch.autograd.forward_ad")

P = ParamSpec("P")
R = TypeVar("R")
Place: TypeAlias = tuple[int, int]
"""The number of a tensor (inputs first, then the tensors that a call makes), and bytes from its first element."""

MOST_CALLS = 4096
ALIGNMENT = 16  # bytes: tensors that begin elsewhere may be copied
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_OPTIONS = (type(None), bool, int, float, str, torch.dtype)
_is_compiling: Callable[[], bool] = torch.compiler.is_compiling
_is_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
_modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
_transforms: Callable[[], Any] = torch._C._functorch.peek_interpreter_stack
_empty: Callable[..., Any] = torch.empty_strided
_here = threading.local()


class _Record:
    """Hold the launches and copies of a call while it runs, with the arrays that they read and those that they write.

    A copy has the function that makes it in the kernel's place.
    """

    def __init__(self) -> None:
        self.launches: list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = []
        self.sound = True


@attrs.frozen
class _Launch:
    """Hold a launch or a copy of a kept call.

    Args:
        run: launches, as a `LaunchPlan` does; for a copy, returns the copy of a tensor.
        places: where each array of the kernel lies; None if the arrays are the call's tensors in order. For a copy, the
            place of its source and its own.
        numbers: numbers of the kernel; None for a copy.
    """

    run: Callable[..., Any]
    places: tuple[Place, ...] | None
    numbers: Sequence[float | int] | None


@attrs.frozen
class _Call:
    """Hold a call whose arguments were checked before.

    Args:
        masks: for each input, bits of its address that must be 0.
        mask: all bits of `masks`.
        made: shape, strides and element type of each tensor that the call makes, None for copies; the results come
            first.
        results: number of results.
        single: whether the call returns one tensor, not a tuple.
        device: where tensors are made.
        number: the device's number.
        stream: gives the handle of a device's current stream.
        launches: the launches, in order.
    """

    masks: tuple[int, ...]
    mask: int
    made: tuple[tuple[tuple[int, ...], tuple[int, ...], Any] | None, ...]
    results: int
    single: bool
    device: Any
    number: int
    stream: Callable[[int], int]
    launches: tuple[_Launch, ...]

    def __call__(self, tensors: Sequence[Any]) -> Any:
        """Make the results and launch; return None where an address lacks the kernels' alignment."""
        addresses = [x.data_ptr() for x in tensors]
        for address in addresses:
            if address & self.mask and any(a & m for a, m in zip(addresses, self.masks, strict=True)):
                return None
        made: list[Any] = []
        for one in self.made:
            if one is None:
                made.append(None)
                addresses.append(0)
                continue
            shape, strides, kind = one
            x = _empty(shape, strides, dtype=kind, device=self.device)
            made.append(x)
            addresses.append(x.data_ptr())
        stream = self.stream(self.number)
        for launch in self.launches:
            places = launch.places
            if launch.numbers is None:
                assert places is not None
                (source, _), (target, _) = places
                inputs = len(tensors)
                x = launch.run(tensors[source] if source < inputs else made[source - inputs])
                made[target - inputs], addresses[target] = x, x.data_ptr()
                continue
            at = addresses if places is None else [addresses[i] + offset for i, offset in places]
            launch.run(at, launch.numbers, stream)
        return made[0] if self.single else tuple(made[: self.results])


def repeats(function: Callable[P, R]) -> Callable[P, R]:
    """Let an operator repeat its calls: calls with equal options, and tensors that lie as those of an earlier call.

    A call inside a call that is recorded is a part of it.

    Args:
        function: the operator. It starts kernels by `launched`, computes nothing else on tensors, and reads no
            contents of tensors, unless it calls `unrepeatable`.
    """
    calls: dict[tuple[Any, ...], _Call | None] = {}

    @functools.wraps(function)
    def repeated(*args: P.args, **options: P.kwargs) -> R:
        if _is_compiling() or getattr(_here, "record", None) is not None:
            return function(*args, **options)
        key: list[Any] = []
        tensors: list[Any] = []
        for x in (*args, *options, *options.values()) if options else args:
            if type(x) in _PLAIN:
                tensors.append(x)
                key += (x.shape, x.stride(), x.dtype, x.device)  # pyright: ignore
            else:
                key.append(tuple(x) if type(x) is list else x)  # pyright: ignore
        if len(tensors) > 1 and len(ids := [*map(id, tensors)]) != len(set(ids)):
            key += [ids.index(n) for n in ids]  # one tensor stands for several arguments
        known = tuple(key)
        try:
            call = calls.get(known)
        except TypeError:  # an option that has no hash
            return function(*args, **options)
        if call is not None:
            if not (_modes() or _levels._current_level >= 0 or _transforms() is not None or _learns(tensors)):
                result: Any = call(tensors)
                if result is not None:
                    return result
        elif known not in calls and not dispatched(*tensors) and tensors:
            return _recorded(function, args, options, calls, known, tensors)
        return function(*args, **options)

    return repeated


def launched(kernel: Any, *given: Any, out: Any = None) -> Any:
    """Run a kernel on tensors, and record the launch where the call is to be kept."""
    made = kernel(*given) if out is None else kernel(*given, out=out)
    record = getattr(_here, "record", None)
    if record is not None:
        record.launches.append((kernel, given, as_tuple(made)))
    return made


def copied(copy: Callable[[Any], Any], x: Any) -> Any:
    """Copy a tensor, and record the copy where the call is to be kept.

    Args:
        copy: a function of the tensor alone. It may return the tensor itself, or a view.
        x: the tensor.
    """
    made = copy(x)
    record = getattr(_here, "record", None)
    if record is not None and made.data_ptr() != x.data_ptr():
        record.launches.append((copy, (x,), (made,)))
    return made


def unrepeatable() -> None:
    """Do not keep the call that runs: it depends on more than its options and on how its tensors lie."""
    record = getattr(_here, "record", None)
    if record is not None:
        record.sound = False


def _learns(tensors: Sequence[Any]) -> bool:
    if _is_grad_enabled():
        for x in tensors:
            if x.requires_grad:
                return True
    return False


def _recorded(
    function: Callable[..., Any], args: Any, options: Any, calls: dict[tuple[Any, ...], _Call | None],
    key: tuple[Any, ...], tensors: Sequence[Any],
) -> Any:  # fmt: skip
    """Run a call, and keep it for calls like it."""
    if not all(isinstance(x, (*_OPTIONS, tuple, torch.device)) for x in key):
        return function(*args, **options)
    before, record = getattr(_here, "record", None), _Record()
    _here.record = record
    try:
        result = function(*args, **options)
    finally:
        _here.record = before
    if len(calls) >= MOST_CALLS:
        calls.clear()
    several = {id(x): x for x in tensors}.values()  # a tensor that stands for several arguments, once
    distinct = len({x.data_ptr() for x in several}) == len(several)  # else a later call may have distinct tensors
    call = _call(record, tensors, result) if distinct else None
    if call is not None or (distinct and not any(x.data_ptr() % ALIGNMENT for x in several)):
        calls[key] = call
    return result


def _call(record: _Record, tensors: Sequence[Any], result: Any) -> _Call | None:
    """Turn a record into a call to keep; None where launches and tensors do not say all that the call did."""
    results = as_tuple(result)
    device, inputs = tensors[0].device, len(tensors)
    bases, masks = [*tensors, *results], [0] * inputs
    fine = record.sound and record.launches and all(type(x) in _PLAIN and x.numel() for x in bases)
    if not fine or any(x.device != device for x in bases):
        return None
    if any(_at(x, tensors) is not None for x in results):
        return None
    written = [0] * len(bases)
    steps: list[_Launch] = []
    copies: set[int] = set()
    for kernel, given, outs in record.launches:
        places: list[Place] = []
        if not hasattr(kernel, "interface"):
            found = _copy(given[0], outs[0], bases, inputs + len(results), copies)
            if found is None:
                return None
            written += [0] * (len(bases) - len(written))
            written[found[1]] += _nbytes(outs[0])
            steps.append(_Launch(kernel, ((found[0], 0), (found[1], 0)), None))
            continue
        pointers = (*kernel.interface.inputs, *kernel.interface.outputs)
        for number, (x, pointer) in enumerate(zip((*given, *outs), pointers, strict=True)):
            place = _at(x, bases)
            if place is None:
                if number < len(given):
                    return None  # a tensor that is none of the call's, and that no kernel wrote
                bases.append(x)
                written.append(0)
                place = len(bases) - 1, 0
            base, offset = place
            if base < inputs:
                masks[base] |= pointer.align - 1
                if number >= len(given) or bases[base].data_ptr() % pointer.align:
                    return None
            elif number >= len(given):
                written[base] += x.numel() * x.element_size()
            places.append((base, offset))
        plan = kernel.planned([*given, *outs])
        if plan is None or plan.binding.device != tensors[0].get_device():
            return None
        plain = len(record.launches) == 1 and places == [(i, 0) for i in range(len(bases))]
        steps.append(_Launch(plan.run, None if plain else tuple(places), kernel.encoded({})))
    if any(n != x.numel() * x.element_size() for x, n in zip(results, written[inputs:], strict=False)):
        return None
    made = tuple(
        None if number in copies else (tuple(x.shape), tuple(x.stride()), x.dtype)
        for number, x in enumerate(bases[inputs:], inputs)
    )
    mask = 0
    for one in masks:
        mask |= one
    single = not isinstance(result, tuple)
    where = tensors[0].get_device()
    return _Call(tuple(masks), mask, made, len(results), single, device, where, torch_current_stream(), tuple(steps))


def _copy(x: Any, made: Any, bases: list[Any], known: int, copies: set[int]) -> tuple[int, int] | None:
    """Find the numbers of a copied tensor and of its copy; None where a later call cannot copy alike.

    Args:
        x, made: the tensor and its copy.
        bases: the call's tensors; the copy is added where it is no result.
        known: number of inputs and results.
        copies: numbers of copies, to which the copy's is added.
    """
    place = _at(x, bases)
    if place is None or place[1]:
        return None
    source = place[0]
    if not _same(x, bases[source]):
        if source < known or source in copies or _nbytes(x) != _nbytes(bases[source]):
            return None
        bases[source] = x  # the kernel wrote it with other dims
    target = _at(made, bases)
    if target is None:
        bases.append(made)
        target = len(bases) - 1, 0
    elif target[0] in copies or not _same(made, bases[target[0]]):
        return None
    copies.add(target[0])
    return source, target[0]


def _same(x: Any, y: Any) -> bool:
    return x.data_ptr() == y.data_ptr() and x.shape == y.shape and x.stride() == y.stride() and x.dtype == y.dtype


def _at(x: Any, bases: Sequence[Any]) -> Place | None:
    """Find the tensor whose memory holds another tensor, and how many bytes lie before it.

    A tensor that begins at the same address comes first; None where there are several others.
    """
    begin = x.data_ptr()
    end = begin + _nbytes(x)
    firsts = [base.data_ptr() for base in bases]
    if begin in firsts:
        number = firsts.index(begin)
        return (number, 0) if end <= begin + _nbytes(bases[number]) else None
    around = [n for n, first in enumerate(firsts) if first <= begin and end <= first + _nbytes(bases[n])]
    return (around[0], begin - firsts[around[0]]) if len(around) == 1 else None


def _nbytes(x: Any) -> int:
    return span(tuple(x.shape), tuple(x.stride())) * x.element_size()
