"""A compiled kernel: its source, machine code and resources, and a call that checks arguments and launches."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from fireiron.algebra.arch import Arch
from fireiron.algebra.arch import arch as find_arch
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.elements import strided
from fireiron.base.errors import CallError, Finding
from fireiron.jit import bind
from fireiron.jit.arrays import ArrayFacts, describe, is_torch, span
from fireiron.jit.compile import Binary
from fireiron.jit.disassemble import disassemble
from fireiron.jit.driver import Loaded, driver, probe, require
from fireiron.jit.interface import Interface, PointerParameter
from fireiron.jit.launch import LaunchPlan, encode_number, plan
from fireiron.jit.resources import Resources
from fireiron.jit.streams import default_stream, stream_handle, torch_current_stream
from fireiron.jit.workspace import Workspaces

if TYPE_CHECKING:
    from fireiron.jit.timing import Timing

Simulator: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, int], Mapping[str, float | int]], None]
"""Run a kernel on NumPy arrays: simulate(arrays by name, sizes, numbers) writes the outputs in place."""

MOST_PLANS = 1024


def as_tuple(out: Any) -> tuple[Any, ...]:
    """Return the arrays of `out=` as a tuple; () for None."""
    if out is None:
        return ()
    return tuple(cast("tuple[Any, ...]", out)) if isinstance(out, (tuple, list)) else (out,)


def like(tensor: Any) -> Callable[[], Any]:
    """Return a function that allocates torch tensors with the shape, strides, dtype and device of one."""
    make: Any = sys.modules["torch"].empty_strided
    extents = tuple(tensor.shape), tuple(tensor.stride())
    return partial(make, *extents, dtype=tensor.dtype, device=tensor.device)


def _lie(tensors: Sequence[Any], *, allocate: bool = False) -> tuple[object, ...]:
    """Return the key of a launch plan, a tuple of facts about the tensors.

    The key holds each tensor's shape, strides, dtype and device, and whether the call allocates the output.
    """
    return (allocate, *[fact for x in tensors for fact in (x.shape, x.stride(), x.dtype, x.get_device())])


class CompiledKernel:
    """Hold a compiled kernel; a call launches it.

    Args:
        binary: the result of NVRTC.
        interface: how it is launched.
        simulator: runs the kernel on NumPy arrays where there is no GPU.
        findings: spills, stack frames and serialised products that `allow_spills` let pass.
    """

    def __init__(
        self,
        binary: Binary,
        interface: Interface,
        *,
        simulator: Simulator | None = None,
        findings: tuple[Finding, ...] = (),
    ) -> None:
        self.findings = findings
        self.binary = binary
        self.interface = interface
        self.simulator = simulator
        # By how a call's arrays lie; what makes the output stands beside calls that give none.
        self._plans: dict[Any, tuple[LaunchPlan, Callable[[], Any] | None]] = {}
        self._loaded: dict[int, Loaded] = {}
        self._workspaces: dict[int, Workspaces] = {}
        self._lock = threading.Lock()
        # The types of torch tensors met so far; others take the general path.
        self._torch_types: set[type] = set()
        self._current_stream: Callable[[int], int] | None = None
        self._outputs = len(interface.outputs)  # counted once: the interface lists its parameters anew when asked
        self._has_one_output = self._outputs == 1
        self._numbers = tuple((n.name, n.dtype in ("f32", "f64")) for n in interface.numbers)
        self._defaults: tuple[float | int, ...] | None = None
        if all(n.default is not None for n in interface.numbers):
            self._defaults = tuple(
                encode_number(n.default, n.dtype) for n in interface.numbers if n.default is not None
            )

    @property
    def name(self) -> str:
        """Name the entry point, as profilers show it."""
        return self.binary.name

    @property
    def source(self) -> str:
        """Give the CUDA C++."""
        return self.binary.source

    @property
    def ptx(self) -> str:
        """Give the intermediate assembly."""
        return self.binary.ptx

    @property
    def cubin(self) -> bytes:
        """Give the machine code."""
        return self.binary.cubin

    @cached_property
    def sass(self) -> str:
        """Give the machine code as text.

        Raises:
            CompileError: `no-nvdisasm`.
        """
        return disassemble(self.binary.cubin)

    @property
    def resources(self) -> Resources:
        """Give registers, stack, spills and static shared memory."""
        return self.binary.resources

    @property
    def arch(self) -> Arch:
        """Give the target."""
        return find_arch(self.binary.arch)

    def __repr__(self) -> str:
        return f"<{self.name} for {self.binary.arch}: {self.interface.signature}>"

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, **scalars: Any) -> Any:
        """Run the kernel.

        Args:
            inputs: arrays in the order of the interface: the spec's, then those of epilogues.
            out: array to write, a tuple of them where the kernel has several outputs; allocated where None.
            stream: a handle, an object with `__cuda_stream__`, a torch or CuPy stream; None for the current stream of
                the arrays' library.
            scalars: numbers by name (`alpha`), and sizes that stand in no shape.

        Returns:
            `out`.

        Raises:
            CallError: `wrong-count`, `not-an-array`, `wrong-shape`, `wrong-dtype`, `wrong-stride`, `wrong-device`,
                `misaligned`, `overlap`, `size-mismatch`, `precondition`, `read-only`, `unknown-argument`,
                `unknown-size`, `map-type`, `map-rank`, `map-box`, `map-extent`, `map-stride`, `map-refused`,
                `cluster-size`, `no-room`, `no-gpu`, `old-driver`, `wrong-arch`, `driver`.
        """
        # The steady state: torch tensors that lie as some before, and plain numbers.
        outs = as_tuple(out)
        usual = out is None or len(outs) == self._outputs
        values = self._values(scalars) if usual else None
        if values is not None:
            arrays = (*inputs, *outs)
            key: list[Any] = [out is None]
            for array in arrays:
                if type(array) not in self._torch_types:
                    break
                key += (array.shape, array.stride(), array.dtype, array.get_device())
            else:
                found = self._plans.get(tuple(key))
                if found is not None:
                    plan, fresh = found
                    addresses = [array.data_ptr() for array in arrays]
                    result: Any = outs[0] if len(outs) == 1 else outs
                    if fresh is not None:
                        result = fresh()
                        addresses += [array.data_ptr() for array in as_tuple(result)]
                    if not plan.suspicious(addresses):
                        if stream is None:
                            assert self._current_stream is not None
                            handle = self._current_stream(key[-1])
                        else:
                            handle = stream_handle(stream)
                        plan.run(addresses, values, handle)
                        return result
        return self._call(inputs, out, stream, scalars)

    def _call(self, inputs: Sequence[Any], out: Any, stream: Any, scalars: Mapping[str, Any]) -> Any:
        """Run the kernel on arguments of any library, and check all of them."""
        interface = self.interface
        outs: tuple[Any, ...] = as_tuple(out)
        bind.check_count(interface, len(inputs), len(outs))
        given, numbers = bind.split_scalars(interface, scalars)
        arrays = {p.name: describe(a, p.name) for p, a in zip(interface.inputs, inputs, strict=True)}
        arrays |= {p.name: describe(a, p.name) for p, a in zip(interface.outputs, outs, strict=False)}
        binding = bind.bind(interface, arrays, given)
        if not outs:
            outs = tuple(self._allocate(p, binding.sizes, arrays) for p in interface.outputs)
            arrays |= {p.name: describe(a, p.name) for p, a in zip(interface.outputs, outs, strict=True)}
        bind.check_overlap(interface, arrays)
        result = outs[0] if self._has_one_output else outs
        if binding.device is None:
            self._run_on_host(arrays, binding, numbers)
            return result
        for pointer in interface.pointers:
            bind.check_address(pointer, arrays[pointer.name])
        handle = default_stream(arrays.values()) if stream is None else stream_handle(stream)
        made = self._launch(arrays, binding, numbers, handle)
        if not given:
            self._remember(made, arrays, allocated=out is None)
        return result

    def prepare(
        self, arrays: Mapping[str, ArrayFacts], binding: bind.Binding, numbers: Mapping[str, float | int]
    ) -> Callable[[int], None]:
        """Return a function that launches on a stream with these checked arguments, and does nothing else.

        Raises:
            CallError: `no-gpu`, `old-driver`, `wrong-arch`, `driver`.
        """
        return self._prepare(arrays, binding, numbers)[1]

    def _prepare(
        self, arrays: Mapping[str, ArrayFacts], binding: bind.Binding, numbers: Mapping[str, float | int]
    ) -> tuple[LaunchPlan, Callable[[int], None]]:
        assert binding.device is not None
        loaded = self.load(binding.device)  # tells first where there is no driver
        workspaces: Workspaces | None = None
        if self.interface.workspaces:
            workspaces = self._workspaces.get(binding.device)
            if workspaces is None:
                with self._lock:
                    workspaces = self._workspaces.setdefault(binding.device, Workspaces(driver(), binding.device))
        made = plan(self.interface, binding, driver(), loaded, workspaces)
        addresses = [arrays[p.name].address for p in (*self.interface.inputs, *self.interface.outputs)]
        values = [encode_number(numbers[n.name], n.dtype) for n in self.interface.numbers]
        return made, lambda stream: made.run(addresses, values, stream)

    def _launch(
        self, arrays: Mapping[str, ArrayFacts], binding: bind.Binding, numbers: Mapping[str, float | int], stream: int
    ) -> LaunchPlan:
        """Launch with checked arguments."""
        made, launch = self._prepare(arrays, binding, numbers)
        launch(stream)
        return made

    def _remember(self, made: LaunchPlan, arrays: Mapping[str, ArrayFacts], *, allocated: bool) -> None:
        """Keep the plan of a call with torch tensors where the quick path can find it."""
        if any(array.library != "torch" for array in arrays.values()):
            return
        ordered: list[Any] = [arrays[p.name].owner for p in (*self.interface.inputs, *self.interface.outputs)]
        self._torch_types |= {cast("type", tensor.__class__) for tensor in ordered}
        self._current_stream = torch_current_stream()
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[_lie(ordered)] = made, None
        if allocated and self._outputs:
            several = [like(x) for x in ordered[-self._outputs :]]
            fresh = several[0] if self._has_one_output else lambda: tuple(new() for new in several)
            self._plans[_lie(ordered[: -self._outputs], allocate=True)] = made, fresh

    def planned(self, arrays: Sequence[Any]) -> LaunchPlan | None:
        """Find the plan of an earlier call with the same shapes, strides, dtypes and device, or None."""
        if not all(type(array) in self._torch_types for array in arrays):
            return None
        found = self._plans.get(_lie(arrays))
        return None if found is None else found[0]

    def encoded(self, scalars: Mapping[str, Any]) -> Sequence[float | int]:
        """Return all numbers in the encoding that a launch takes, defaults included.

        Raises:
            CallError: `unknown-argument`, `wrong-dtype`, `missing-scalar`.
        """
        values = self._values(scalars)
        if values is None:
            _, numbers = bind.split_scalars(self.interface, scalars)
            values = [encode_number(numbers[n.name], n.dtype) for n in self.interface.numbers]
        return values

    def _values(self, scalars: Mapping[str, Any]) -> Sequence[float | int] | None:
        """Encode scalars that need no conversion: all defaults, or all floats; None for others and for sizes."""
        if not scalars:
            return self._defaults
        if len(scalars) != len(self._numbers):
            return None
        values: list[Any] = [scalars.get(name) for name, plain in self._numbers if plain]
        return values if len(values) == len(scalars) and all(type(x) is float for x in values) else None

    def torch_op(self, name: str) -> Callable[..., Any]:
        """Register the kernel as an operator of PyTorch, which `torch.compile(fullgraph=True)` traces.

        Args:
            name: `"namespace::name"`.

        Returns:
            The operator. It takes tensors in the order of a call, then the numbers, and returns new outputs. A kernel
            that updates arrays in place takes them last, and its operator returns nothing. Gradients through it are
            refused.

        Raises:
            UsageError: `bad-op-name`. CallError: `no-torch`.
        """
        from fireiron.jit.torch_op import register

        return register(self, name)

    def load(self, device: int = 0) -> Loaded:
        """Load the kernel on a device, once.

        Raises:
            CallError: `no-gpu`, `old-driver`, `wrong-arch`, `cluster-size`, `no-room`, `driver`.
        """
        found = self._loaded.get(device)
        if found is None:
            require(self.binary, probe())
            with self._lock:
                found = self._loaded.get(device)
                if found is None:
                    found = driver().load(self.binary, self.interface, device)
                    self._loaded[device] = found
        return found

    def _allocate(self, pointer: PointerParameter, sizes: Mapping[str, int], arrays: Mapping[str, ArrayFacts]) -> Any:
        """Make an output with the inputs' library, on their device."""
        shape, strides = bind.concrete(pointer.shape, sizes), bind.concrete(pointer.strides, sizes)
        like = next(iter(arrays.values()), None)
        name = find_dtype(pointer.dtype)
        if like is not None and is_torch(like.owner):
            import torch  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

            module: Any = torch
            return module.empty_strided(
                shape, strides, dtype=getattr(module, name.numpy_name), device=like.owner.device
            )
        if like is None or like.is_host:
            import numpy as np

            return strided(np.empty(max(1, span(shape, strides)), name.numpy), shape, strides)
        if like.library == "cupy":
            import cupy  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

            array: Any = cupy
            with array.cuda.Device(like.device):
                flat = array.empty(max(1, span(shape, strides)), name.numpy)
                return array.lib.stride_tricks.as_strided(flat, shape, [s * name.nbytes for s in strides])
        raise CallError(
            "wrong-count",
            f"fireiron cannot allocate {pointer.name} for arrays of this library",
            fix="pass the array to write as out=",
        )

    def _run_on_host(
        self, arrays: Mapping[str, ArrayFacts], binding: bind.Binding, numbers: Mapping[str, float | int]
    ) -> None:
        """Run on NumPy arrays: through a copy on the GPU where there is one, else on the simulator."""
        if probe().problem:
            if self.simulator is None:
                require(self.binary, probe())
            else:
                self.simulator({name: a.owner for name, a in arrays.items()}, binding.sizes, numbers)
            return
        from fireiron.jit.memory import DeviceArray

        require(self.binary, probe())
        used = driver()
        copies: dict[str, DeviceArray] = {}
        try:
            for pointer in self.interface.pointers:
                owner = arrays[pointer.name].owner
                strides = bind.concrete(pointer.strides, binding.sizes)
                copy = DeviceArray(used, owner.shape, owner.dtype, strides=strides)
                copies[pointer.name] = copy
                copy.upload(owner)  # an output's too: what the kernel does not write keeps what it holds
            facts = {name: describe(copy, name) for name, copy in copies.items()}
            self._launch(facts, bind.Binding(binding.sizes, binding.grid, 0), numbers, 0)
            for pointer in self.interface.outputs:
                copies[pointer.name].download(arrays[pointer.name].owner)
        finally:
            for copy in copies.values():
                copy.free()

    def time(self, *inputs: Any, out: Any = None, flops: float = 0.0, **scalars: Any) -> Timing:
        """Time the kernel: see `fireiron.jit.timing`.

        Args:
            inputs: arrays on the GPU; random ones are made where none are given.
            out: array to write.
            flops: operations of one run, for the rate.
            scalars: numbers by name, and every size by name where no inputs are given.

        Raises:
            CallError: as a call does.
        """
        from fireiron.jit.timing import time_call

        return time_call(self, inputs, out, flops, scalars)
