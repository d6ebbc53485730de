"""Repeated products of tensors: right, whatever changed since the last call, and quick where nothing did.

Tensors stand in host memory, and a launch runs the kernel that it was meant for on the simulator.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bench.standin import Driver, Tensor, stand_in
from fireiron import FireironError, MatMulChain, gemm, matmul, relu, save, silu, tensor
from fireiron.front import best as choosing
from fireiron.front import host, multiply
from fireiron.front.repeat import Call, Launches, launches
from fireiron.jit import bind
from fireiron.jit.driver import Loaded
from fireiron.jit.interface import PointerParameter
from fireiron.jit.kernel import CompiledKernel
from fireiron.schedules import simt

RNG = np.random.default_rng(0)
FACTOR: Any = 2.0
TILES = [32, 32]


class Simulated(Driver):
    """Run on the simulator what is launched, with the arguments that stand in the table."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[CompiledKernel] = []
        self.launched = 0
        self.streams: list[int] = []
        self.launch: Any = self._launch

    def _launch(self, handle: Any, *rest: Any) -> int:
        kernel = self.kernels[handle.value - 1]
        *_, stream, table, _ = rest
        interface = kernel.interface
        arrays: dict[str, Any] = {}
        numbers: dict[str, Any] = {}
        for place, parameter in zip(table, interface.parameters, strict=True):
            if isinstance(parameter, PointerParameter):
                address = ctypes.c_uint64.from_address(place).value
                arrays[parameter.name] = _array(address, parameter)
            else:
                numbers[parameter.name] = ctypes.c_float.from_address(place).value
        assert kernel.simulator is not None
        kernel.simulator(arrays, {}, numbers)
        self.launched += 1
        self.streams.append(stream.value)
        return 0


def _array(address: int, parameter: PointerParameter) -> Any:
    shape, strides = bind.concrete(parameter.shape, {}), bind.concrete(parameter.strides, {})
    count = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    flat = np.frombuffer((ctypes.c_float * count).from_address(address), np.float32)
    return np.lib.stride_tricks.as_strided(flat, shape, [4 * s for s in strides])


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulated]:
    used = Simulated()

    def load(self: CompiledKernel, device: int = 0) -> Loaded:
        if self not in used.kernels:
            used.kernels.append(self)
        nothing: Any = None
        return Loaded(used.kernels.index(self) + 1, device, nothing)

    monkeypatch.setattr(CompiledKernel, "load", load)
    monkeypatch.setattr(host, "without_gpu", lambda: False)
    monkeypatch.setattr(choosing, "best", lambda spec, arch=None: small(spec))
    choosing.forget()
    with stand_in(used):
        yield used
    choosing.forget()


def small(spec: MatMulChain) -> MatMulChain:
    return simt.listing2(spec, 32, 32)


def drawn(*shape: int) -> Tensor:
    return Tensor(RNG.standard_normal(shape).astype(np.float32))


def near(got: Tensor, wanted: Any) -> None:
    assert got.shape == wanted.shape
    assert np.allclose(got.array, wanted, rtol=1e-4, atol=1e-4)


def known() -> int:
    return len(launches._known)


def test_fresh_tensors_share_a_launch(driver: Simulated) -> None:
    for _ in range(3):
        a, b, out = drawn(20, 24), drawn(24, 36), drawn(20, 36)
        near(gemm(a, b), a.array @ b.array)
        assert gemm(a, b, out=out, stream=5) is out
        near(out, a.array @ b.array)
    assert driver.launched == 6
    assert driver.streams == [7, 5] * 3
    assert known() == 2


def test_epilogues_share_a_launch_while_they_do_the_same(driver: Simulated) -> None:
    for _ in range(3):
        a, b, bias = drawn(20, 24), drawn(24, 36), drawn(36)
        got = gemm(a, b, epilog=lambda acc, bias: relu(acc + bias), bias=bias)
        near(got, np.maximum(a.array @ b.array + bias.array, 0))
    assert known() == 1
    assert driver.launched == 3


def test_a_closure_that_changed_is_another_epilogue() -> None:
    a, b = drawn(20, 24), drawn(24, 36)
    for factor in (2.0, 3.0, 2.0, 1, 0.0, -0.0):
        near(gemm(a, b, epilog=lambda acc: acc * factor), a.array @ b.array * factor)  # noqa: B023
    assert known() == 5
    factor = True
    with pytest.raises(FireironError, match="compares expressions"):  # what x == y gives
        gemm(a, b, epilog=lambda acc: acc * factor)


def test_a_global_that_changed_is_another_epilogue(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = drawn(20, 24), drawn(24, 36)
    for factor in (2.0, 3.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        near(gemm(a, b, epilog=lambda acc: scaled(acc)), a.array @ b.array * factor)
    assert known() == 2
    monkeypatch.setitem(globals(), "relu", silu)
    got = gemm(a, b, epilog=lambda acc: relu(acc))
    near(got, a.array @ b.array / (1 + np.exp(-a.array @ b.array)))


def scaled(x: Any) -> Any:
    return x * FACTOR


def test_a_view_that_lies_elsewhere_is_not_kept(driver: Simulated) -> None:
    a, b = drawn(20, 24), drawn(24, 36)
    made = gemm(a, b)
    call = Call(driver.kernels[0], (a, b), (0, 1), None, {})
    kept = Launches()
    kept.keep("copied", (drawn(20, 24), b), call, made, made)
    assert kept.find("copied") is None
    kept.keep("as it lies", (a, b), call, made, made)
    assert kept.find("as it lies") is not None


def test_numbers_under_another_name_are_refused(driver: Simulated) -> None:
    gemm(drawn(20, 24), drawn(24, 36), epilog=lambda acc, s: acc * s, s=2.0)
    kernel = driver.kernels[0]
    assert [*kernel.encoded({"s": 3.0})] == [*kernel.encoded({"s": 3})] == [3.0]
    with pytest.raises(FireironError) as caught:
        kernel.encoded({"t": 3.0})
    assert caught.value.code == "unknown-argument"


def test_an_epilogue_of_which_nothing_is_certain_is_read_again() -> None:
    a, b, factors = drawn(20, 24), drawn(24, 36), [2.0]
    for factor in (2.0, 3.0, 2.0):
        factors[0] = factor
        near(gemm(a, b, epilog=lambda acc: acc * factors[0]), a.array @ b.array * factor)
    assert known() == 0


def test_numbers_are_those_of_the_call() -> None:
    a, b = drawn(20, 24), drawn(24, 36)
    for alpha in (2.0, 3, -0.5):
        near(gemm(a, b, epilog=lambda acc, alpha: acc * alpha, alpha=alpha), a.array @ b.array * alpha)
    assert known() == 1
    with pytest.raises(FireironError) as caught:
        gemm(a, b, epilog=lambda acc, alpha: acc * alpha, alpha="2")
    assert caught.value.code == "not-an-array"


def test_operands_by_another_name_are_other_operands() -> None:
    a, b, x, y = drawn(20, 24), drawn(24, 36), drawn(36), drawn(36)
    for _ in range(2):
        near(gemm(a, b, epilog=lambda acc, x, y: acc * x - y, x=x, y=y), a.array @ b.array * x.array - y.array)
        near(gemm(a, b, epilog=lambda acc, x, y: acc * x - y, y=x, x=y), a.array @ b.array * y.array - x.array)
        near(gemm(a, b, epilog=lambda acc, x, y: y + acc * x, y=x, x=y), a.array @ b.array * y.array + x.array)


def test_views_and_leading_dimensions(driver: Simulated) -> None:
    for _ in range(3):
        wide, b, into, bias = drawn(40, 60), drawn(36, 24), drawn(20, 50), drawn(36)
        view, out = Tensor(wide.array[::2, :24]), Tensor(into.array[:, :36])
        assert gemm(view, b, out=out, layout="TN") is out
        near(out, view.array @ b.array.T)
        near(gemm(view, b, layout="TN"), view.array @ b.array.T)
        near(gemm(Tensor(b.array.T).swapaxes(0, 1), Tensor(view.array.T)), b.array @ view.array.T)
        batches, many = drawn(2, 3, 20, 24), drawn(2, 3, 24, 36)
        one = Tensor(many.array[0, 0])
        near(gemm(batches, one, epilog=lambda acc, bias: acc + bias, bias=bias), batches.array @ one.array + bias.array)
        near(gemm(batches, many), batches.array @ many.array)
        result = drawn(2, 3, 20, 36)
        assert gemm(batches, many, epilog=relu, out=result) is result
        near(result, np.maximum(batches.array @ many.array, 0))
    assert known() == 6
    assert driver.launched == 18


def test_strides_tell_calls_apart() -> None:
    wide, b = drawn(20, 48), drawn(24, 36)
    for view in (wide.array[:, :24], np.ascontiguousarray(wide.array[:, :24]), wide.array[:, :24]):
        near(gemm(Tensor(view), b, epilog=relu), np.maximum(view @ b.array, 0))


def test_what_overlaps_is_still_refused() -> None:
    a, b = drawn(24, 24), drawn(24, 24)
    for _ in range(2):
        gemm(a, b, out=drawn(24, 24), epilog=relu)
    with pytest.raises(FireironError) as caught:
        gemm(a, b, out=a, epilog=relu)
    assert caught.value.code == "overlap"


def test_gradients_of_what_is_written_in_place_are_still_refused() -> None:
    import sys

    a, b = drawn(20, 24), drawn(24, 36)
    out = drawn(20, 36)
    for _ in range(2):
        gemm(a, b, out=out)
    a.requires_grad = True
    with pytest.raises(FireironError) as caught:
        gemm(a, b, out=out)
    assert caught.value.code == "requires-grad"
    sys.modules["torch"].is_grad_enabled = lambda: False
    launches._grad_enabled = sys.modules["torch"].is_grad_enabled
    near(gemm(a, b), a.array @ b.array)


def test_schedules_are_told_apart_by_what_they_do(driver: Simulated) -> None:
    a, b = drawn(64, 24), drawn(24, 64)
    for tile in (32, 64, 32):
        near(gemm(a, b, schedule=lambda spec: simt.listing2(spec, tile, 32)), a.array @ b.array)  # noqa: B023
    assert len(driver.kernels) == 2
    for tile in (32, 64, 32):
        TILES[0] = tile
        near(gemm(a, b, schedule=lambda spec: simt.listing2(spec, *TILES)), a.array @ b.array)
    assert len(driver.kernels) == 4
    assert known() == 2


def test_forgetting_chooses_again() -> None:
    a, b = drawn(20, 24), drawn(24, 36)
    gemm(a, b)
    gemm(a, b, epilog=relu)
    assert known() == 2
    choosing.forget()
    assert known() == 0
    assert not multiply._kernels


def test_a_kernel_allocates_as_quickly(driver: Simulated) -> None:
    a, b = drawn(20, 24), drawn(24, 36)
    gemm(a, b)
    (kernel,) = driver.kernels
    for _ in range(2):
        a, b = drawn(20, 24), drawn(24, 36)
        near(kernel(a, b), a.array @ b.array)
    with pytest.raises(FireironError) as caught:
        kernel(a, out=b)  # as many tensors as without out, and they lie the same
    assert caught.value.code == "wrong-count"


def test_kernels_that_are_given_their_outputs_go_straight_to_the_launch(
    driver: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = matmul(32, 32, 32, layout="NN").then(save(tensor(32, 32, name="raw")), relu)
    kernel, checked = small(spec).compile("sm_90"), list[int]()
    whole = kernel._call
    monkeypatch.setattr(CompiledKernel, "_call", lambda self, *args: checked.append(1) or whole(*args))
    a, b, raw, made = (drawn(32, 32) for _ in range(4))
    for _ in range(3):
        found = kernel(a, b, out=(made, raw) if kernel.interface.outputs[0].name == "C" else (raw, made))
        assert {id(x) for x in found} == {id(made), id(raw)}
        near(raw, a.array @ b.array)
        near(made, np.maximum(a.array @ b.array, 0))
    assert len(checked) == 1
    assert driver.launched == 3
    with pytest.raises(FireironError) as caught:  # as many tensors, but one of them is on the wrong side
        kernel(a, out=(b, made, raw))
    assert caught.value.code == "wrong-count"
