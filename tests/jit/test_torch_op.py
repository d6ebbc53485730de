"""Kernels as operators: what the dispatcher is told, with a stand-in for PyTorch's registry."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, Matrix, Vector, add, matmul, relu, save
from fireiron.jit.torch_op import schema
from fireiron.schedules import simt


class Tensor:
    """Stand for a tensor without contents."""

    def __init__(self, shape: tuple[int, ...], dtype: str = "torch.float32") -> None:
        self.shape, self.dtype, self.device = shape, dtype, "cuda:0"

    def stride(self) -> tuple[int, ...]:
        return tuple(int(np.prod(self.shape[i + 1 :])) for i in range(len(self.shape)))


class Registered:
    """Keep what an operator was registered with."""

    def __init__(self, name: str, run: Any, **how: Any) -> None:
        self.name, self.run, self.how = name, run, how
        self.fake: Any = None
        self.backward: Any = None

    def register_fake(self, fake: Any) -> None:
        self.fake = fake

    def register_autograd(self, backward: Any) -> None:
        self.backward = backward

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.run(*args, **keywords)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module: Any = ModuleType("torch")
    module.library = SimpleNamespace(custom_op=Registered)
    module.Tensor = Tensor
    module.float32, module.float16 = "f32", "f16"
    module.empty_strided = lambda shape, strides, dtype, device: (tuple(shape), tuple(strides), dtype, device)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def kernel(spec: Any, **epilog: Any) -> Any:
    return simt.listing2(spec, 32, 32).compile("sm_80")


def test_an_operator_computes_and_tells_its_shapes(torch: ModuleType) -> None:
    spec = matmul(64, 32, 16, alpha="alpha").then(add(Vector(32, name="bias")), relu)
    op: Any = kernel(spec).torch_op("mine::linear")
    assert op.name == "mine::linear"
    assert op.how == {
        "mutates_args": (),
        "device_types": "cuda",
        "schema": "(Tensor A, Tensor B, Tensor bias, float alpha) -> Tensor",
    }
    a, b, bias = np.ones((64, 16), np.float32), np.ones((16, 32), np.float32), np.full(32, -30, np.float32)
    assert (op(a, b, bias, 2.0) == 2).all()
    assert (op(a, b, bias, alpha=2.0) == 2).all()
    fake = op.fake(Tensor((64, 16)), Tensor((16, 32)), Tensor((32,)), 2.0)
    assert fake == ((64, 32), (32, 1), "f32", "cuda:0")
    with pytest.raises(FireironError, match="no gradient") as caught:
        op.backward(None, None)
    assert caught.value.code == "requires-grad"


def test_several_outputs_come_back_together(torch: ModuleType) -> None:
    op: Any = kernel(matmul(64, 32, 16).then(save(Matrix(64, 32, "f16", name="pre")), relu)).torch_op("mine::two")
    assert op.how["schema"] == "(Tensor A, Tensor B) -> (Tensor, Tensor)"
    found = op.fake(Tensor((64, 16)), Tensor((16, 32)))
    assert [x[2] for x in found] == ["f32", "f16"]


def test_what_is_updated_is_mutated(torch: ModuleType) -> None:
    op: Any = kernel(matmul(64, 32, 16, beta=1.0)).torch_op("mine::accumulate")
    assert op.how["schema"] == "(Tensor A, Tensor B, Tensor(a!) C) -> ()"
    assert op.how["mutates_args"] == ("C",)
    assert op.backward is None
    a, b, c = np.ones((64, 16), np.float32), np.ones((16, 32), np.float32), np.ones((64, 32), np.float32)
    assert op(a, b, c) is None
    assert (c == 17).all()
    assert op.fake(Tensor((64, 16)), Tensor((16, 32)), Tensor((64, 32))) is None


def test_sizes_are_solved_for_shapes(torch: ModuleType) -> None:
    from fireiron import symbol

    op: Any = kernel(matmul(symbol("M"), 32, 16)).torch_op("mine::any_rows")
    assert op.fake(Tensor((7, 16)), Tensor((16, 32)))[0] == (7, 32)


@pytest.mark.parametrize("name", ["linear", "a::b::c", "1::x", ""])
def test_names(torch: ModuleType, name: str) -> None:
    with pytest.raises(FireironError) as caught:
        kernel(matmul(64, 32, 16)).torch_op(name)
    assert caught.value.code == "bad-op-name"


def test_some_made_and_some_updated_is_refused(torch: ModuleType) -> None:
    both = kernel(matmul(64, 32, 16, beta=1.0).then(save(Matrix(64, 32, name="pre")), relu))
    assert "Tensor(a!) C" in schema(both.interface)
    with pytest.raises(FireironError) as caught:
        both.torch_op("mine::both")
    assert caught.value.code == "bad-op-name"


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(FireironError) as caught:
        kernel(matmul(64, 32, 16)).torch_op("mine::linear")
    assert caught.value.code == "no-torch"
