"""Kernels as operators of PyTorch's dispatcher, so that torch.compile traces through their calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.errors import CallError, UsageError
from fireiron.jit import bind
from fireiron.jit.arrays import ArrayFacts

if TYPE_CHECKING:
    from fireiron.jit.interface import Interface
    from fireiron.jit.kernel import CompiledKernel

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*")


def register(kernel: CompiledKernel, name: str) -> Callable[..., Any]:
    """Register a kernel as an operator of torch, whose outputs' shapes are known and whose gradients are refused.

    Raises:
        UsageError: `bad-op-name`. CallError: `no-torch`.
    """
    if not _NAME.fullmatch(name):
        raise UsageError("bad-op-name", f"{name!r} names no operator", fix='name it "namespace::name"')
    try:
        torch: Any = import_module("torch")
    except ImportError:
        raise CallError("no-torch", "an operator of PyTorch needs PyTorch", fix="pip install torch") from None
    interface = kernel.interface
    updates = [p for p in interface.outputs if p.role == "update"]
    if updates and len(updates) != len(interface.outputs):
        raise UsageError(
            "bad-op-name",
            f"{kernel.name} makes {interface.outputs[0].name} and updates {updates[0].name}: an operator does one",
            fix="drop beta, or save()",
        )
    names = [p.name for p in (*interface.inputs, *updates)]
    numbers = [n.name for n in interface.numbers]

    def run(*given: Any, **keywords: Any) -> Any:
        values = {**dict(zip((*names, *numbers), given, strict=False)), **keywords}
        inputs = [values[p.name] for p in interface.inputs]
        out = tuple(values[p.name] for p in updates)
        scalars = {n: values[n] for n in numbers if n in values}
        result = kernel(*inputs, out=out or None, **scalars)
        return None if updates else result

    def fake(*given: Any, **keywords: Any) -> Any:
        values = {**dict(zip(names, given, strict=False)), **{k: v for k, v in keywords.items() if k in names}}
        made = _fake(interface, values, torch)
        return None if updates else made[0] if len(made) == 1 else made

    def backward(context: Any, *gradients: Any) -> Any:
        raise CallError(
            "requires-grad",
            f"no gradient goes through {name}",
            fix="call it on detached tensors, or under torch.no_grad()",
        )

    op = torch.library.custom_op(
        name, run, mutates_args=tuple(p.name for p in updates), device_types="cuda", schema=schema(interface)
    )
    op.register_fake(fake)
    if not updates:
        op.register_autograd(backward)
    return op


def schema(interface: Interface) -> str:
    """Write the operator's schema: tensors in the order of a call, numbers by name, and what it returns.

    Example:
        >>> from fireiron import matmul
        >>> from fireiron.jit.interface import Interface
        >>> from fireiron.schedules import simt
        >>> schema(Interface.of(simt.listing2(matmul(128, 128, 64, alpha="alpha")).lowered()))
        '(Tensor A, Tensor B, float alpha) -> Tensor'
    """
    updates = [p for p in interface.outputs if p.role == "update"]
    said = [f"Tensor {p.name}" for p in interface.inputs]
    said += [f"Tensor({chr(97 + i)}!) {p.name}" for i, p in enumerate(updates)]
    for number in interface.numbers:
        kind = "float" if find_dtype(number.dtype).kind == "float" else "int"
        said.append(f"{kind} {number.name}" + ("" if number.default is None else f"={number.default}"))
    made = len(interface.outputs) - len(updates)
    back = "()" if updates else "Tensor" if made == 1 else f"({', '.join(['Tensor'] * made)})"
    return f"({', '.join(said)}) -> {back}"


def _fake(interface: Interface, tensors: dict[str, Any], torch: Any) -> tuple[Any, ...]:
    """Make the outputs that a call would allocate, without contents."""
    described = {
        p.name: ArrayFacts(
            0,
            tuple(tensors[p.name].shape),
            tuple(tensors[p.name].stride()),
            str(tensors[p.name].dtype).removeprefix("torch."),
            0,
            "torch",
        )
        for p in interface.inputs
    }
    sizes = bind.solve(interface, described, {})
    device = next(iter(tensors.values())).device
    return tuple(
        torch.empty_strided(
            bind.concrete(p.shape, sizes),
            bind.concrete(p.strides, sizes),
            dtype=getattr(torch, find_dtype(p.dtype).numpy_name),
            device=device,
        )
        for p in interface.outputs
        if p.role != "update"
    )
