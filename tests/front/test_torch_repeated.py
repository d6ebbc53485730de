"""Repeated calls of torch's operators: kept where launches say all that a call does, and run as usual otherwise.

Tensors lie in host memory, and a launch computes with NumPy at the addresses that it gets.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")

from fireiron.front import torch_repeated  # noqa: E402
from fireiron.front.torch_repeated import copied, launched, repeats, unrepeatable  # noqa: E402


class Kernel:
    """Compute `function` of its inputs, tensors of f32, into new tensors or `out`."""

    def __init__(self, function: Callable[..., Any], inputs: int = 1, outputs: int = 1, align: int = 4) -> None:
        self.function, self.count, self.launches = function, inputs, 0
        pointer = SimpleNamespace(align=align)
        self.interface = SimpleNamespace(inputs=[pointer] * inputs, outputs=[pointer] * outputs)

    def __call__(self, *given: Any, out: Any = None) -> Any:
        outs = [torch.empty_like(given[0]) for _ in self.interface.outputs] if out is None else [out]
        self._run([(x.data_ptr(), tuple(x.shape), x.stride()) for x in (*given, *outs)])
        return outs[0] if len(outs) == 1 else tuple(outs)

    def planned(self, arrays: Sequence[Any]) -> Any:
        lie = [(tuple(x.shape), x.stride()) for x in arrays]

        def run(addresses: Sequence[int], numbers: Any, stream: int) -> None:
            self._run([(at, *one) for at, one in zip(addresses, lie, strict=True)])

        return SimpleNamespace(binding=SimpleNamespace(device=arrays[0].get_device()), run=run)

    def encoded(self, scalars: Any) -> tuple[()]:
        return ()

    def _run(self, lies: Sequence[Any]) -> None:
        self.launches += 1
        arrays = [_array(*one) for one in lies]
        made = self.function(*arrays[: self.count])
        for out, x in zip(arrays[self.count :], made if isinstance(made, tuple) else (made,), strict=True):
            out[...] = x


def _array(address: int, shape: Any, strides: Any) -> Any:
    count = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    flat = np.frombuffer((ctypes.c_float * count).from_address(address), np.float32)
    return np.lib.stride_tricks.as_strided(flat, shape, [4 * s for s in strides])


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tensors in host memory count as tensors on a GPU."""
    monkeypatch.setattr(torch_repeated, "dispatched", lambda *tensors: False)
    monkeypatch.setattr(torch_repeated, "torch_current_stream", lambda: lambda device: 0)


def counted(body: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    """Repeat an operator's calls, and count those that run as usual."""
    runs: list[int] = []

    def function(*args: Any, **options: Any) -> Any:
        runs.append(1)
        return body(*args, **options)

    return repeats(function), runs


def drawn(*shape: int) -> Any:
    return torch.randn(shape or (3, 8))


def test_a_call_of_a_known_kind_only_launches() -> None:
    kernel = Kernel(lambda x: 2 * x)
    double, runs = counted(lambda x, dim=0: launched(kernel, x.reshape(-1)).reshape(x.shape))
    for x in (drawn(), drawn(), torch.nn.Parameter(drawn(), requires_grad=False)):
        assert torch.equal(double(x), 2 * x)
    assert (len(runs), kernel.launches) == (1, 3)
    for other in (drawn(8, 3), drawn().double().float().t(), drawn(24)):  # another shape or stride
        assert torch.equal(double(other), 2 * other)
    double(drawn(), 1)
    double(drawn(), dim=1)
    assert len(runs) == 6
    assert torch.equal(double(x, dim=1), 2 * x)
    assert len(runs) == 6


def test_results_and_memory_of_the_call() -> None:
    """The first kernel writes memory that is no result, and the second one writes a part of a result each time."""
    first, second = Kernel(lambda x, y: x + y, 2), Kernel(lambda x: -x)

    def body(x: Any, y: Any) -> Any:
        total, made = launched(first, x, y), torch.empty(3, 16).t()
        launched(second, total.t(), out=made[:8])
        launched(second, y.t(), out=made[8:])
        return made

    both, runs = counted(body)
    for _ in range(3):
        x, y = drawn(), drawn()
        made = both(x, y)
        assert torch.equal(made, -torch.cat((x + y, y), 1).t())
        assert made.stride() == (1, 16)
    assert len(runs) == 1


def test_copies_are_made_again() -> None:
    """Copies of an input, and of what a kernel wrote, seen with other dims; the last copy is the result."""
    kernel = Kernel(lambda x, y: x + y, 2)

    def turned(x: Any) -> Any:
        return x.t().contiguous()

    def body(x: Any, y: Any) -> Any:
        made = launched(kernel, copied(turned, x), copied(torch.clone, y))
        return copied(turned, made.view(4, 6))

    function, runs = counted(body)
    for _ in range(3):
        x, y = drawn(), drawn(8, 3)
        made = function(x, y)
        assert torch.equal(made, (x.t() + y).reshape(4, 6).t())
        assert made.shape == (6, 4)
    assert len(runs) == 1


@pytest.mark.parametrize(
    "body",
    [
        lambda kernel, x: launched(kernel, copied(torch.clone, x[1:])),  # of a part of an input
        lambda kernel, x: launched(kernel, copied(torch.clone, x.view(8, 3))).view(3, 8),  # of another shape
        lambda kernel, x: copied(torch.clone, launched(kernel, x)).view(8, 3),  # of another shape than the result
        lambda kernel, x: copied(torch.clone, copied(torch.neg, launched(kernel, x)).view(8, 3)),
        lambda kernel, x: copied(torch.clone, launched(kernel, x)[1:]),
    ],
)
def test_copies_that_are_not_made_again(body: Any) -> None:
    kernel = Kernel(lambda x: 2 * x)
    function, runs = counted(lambda x: body(kernel, x))
    for _ in range(2):
        x = drawn()
        assert torch.equal(function(x), body(kernel, x))
    assert len(runs) == 2


def test_one_tensor_in_two_places_is_no_other_tensor() -> None:
    kernel = Kernel(lambda x, y: x - y, 2)
    minus, runs = counted(lambda x, y: launched(kernel, x, y))
    x, y = drawn(), drawn()
    assert not minus(x, x).any()
    assert not minus(y, y).any()
    assert len(runs) == 1
    assert not minus(x, x.view(3, 8)).any()  # the same memory, which is not kept
    assert torch.equal(minus(x, y), x - y)
    assert torch.equal(minus(y, x), y - x)
    assert len(runs) == 3


@pytest.mark.parametrize(
    "body",
    [
        lambda kernel, x: launched(kernel, x.t().contiguous()),  # the kernel reads a copy
        lambda kernel, x: launched(kernel, x) + 1,  # torch computes the result
        lambda kernel, x: (launched(kernel, x), x),  # an input is a result
        lambda kernel, x: _part(kernel, x),
        lambda kernel, x: (unrepeatable(), launched(kernel, x))[1],
        lambda kernel, x: kernel(x),  # a launch that nobody saw
    ],
)
def test_calls_that_do_more_than_launches_say(body: Any) -> None:
    kernel = Kernel(lambda x: 2 * x)
    function, runs = counted(lambda x: body(kernel, x))
    for _ in range(3):
        function(drawn())
    assert len(runs) == 3


def _part(kernel: Any, x: Any) -> Any:
    """Let a kernel write the first rows of a result, and torch the last one."""
    made = torch.empty(3, 8)
    launched(kernel, x[:2], out=made[:2])
    made[2] = 1
    return made


def test_options_that_have_no_hash_or_are_functions() -> None:
    kernel = Kernel(lambda x: 2 * x)
    function, runs = counted(lambda x, option: launched(kernel, x))
    for option, kept in (([3, 8], True), ((3, 8), True), ({}, False), (len, False), ([[3]], False)):
        before = len(runs)
        function(drawn(), option)
        function(drawn(), option)
        assert (len(runs) - before < 2) == kept, option


def test_an_address_without_the_kernels_alignment() -> None:
    kernel = Kernel(lambda x: 2 * x, align=16)
    function, runs = counted(lambda x: launched(kernel, x))
    room = drawn(64)
    offset = -room.data_ptr() // 4 % 4
    for start, count in ((0, 1), (4, 1), (1, 2), (8, 2), (2, 3)):
        x = room[offset + start :][:24].view(3, 8)
        assert torch.equal(function(x), 2 * x)
        assert len(runs) == count


def test_calls_that_the_dispatcher_must_make() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    kernel = Kernel(lambda x: 2 * x)
    function, runs = counted(lambda x: launched(kernel, x))
    x, learning = drawn(), drawn().requires_grad_()
    function(x)
    function(x)
    assert len(runs) == 1
    function(learning)
    assert len(runs) == 2
    with torch.no_grad():
        function(learning)
    assert len(runs) == 2
    with Watch():
        function(x)
    assert len(runs) == 3
    with torch.autograd.forward_ad.dual_level():
        function(x)
    assert len(runs) == 4
    torch.func.vmap(lambda y: function(x) is None or y)(x)
    assert len(runs) == 5
    function(x.as_subclass(type("Mine", (torch.Tensor,), {})))
    assert len(runs) == 6


def test_an_operator_inside_another_is_part_of_its_record() -> None:
    kernel = Kernel(lambda x: 2 * x)
    inner, runs = counted(lambda x: launched(kernel, x))
    outer, of_outer = counted(lambda x: launched(kernel, inner(x)))
    for _ in range(3):
        x = drawn()
        assert torch.equal(outer(x), 4 * x)
    assert (len(runs), len(of_outer)) == (1, 1)


def test_an_operator_inside_one_that_is_not_kept_is_kept() -> None:
    kernel = Kernel(lambda x: 2 * x)
    inner, runs = counted(lambda x: launched(kernel, x))

    def unkept(x: Any) -> Any:
        unrepeatable()
        return launched(kernel, inner(x))

    outer, of_outer = counted(unkept)
    for n in range(4):
        x = drawn()
        assert torch.equal((outer if n % 2 else inner)(x), (4 if n % 2 else 2) * x)
    assert (len(runs), len(of_outer)) == (2, 2)
