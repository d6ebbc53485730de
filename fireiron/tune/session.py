"""A session on a GPU: arrays that candidates share, each verified once, then sampled in interleaved rounds.

A session runs in a separate process, so that a candidate which hangs or crashes ends only the session.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from fireiron.algebra.arch import arch as find_arch
from fireiron.algebra.dtypes import DType
from fireiron.algebra.elements import read
from fireiron.algebra.expr import as_int
from fireiron.jit import bind
from fireiron.jit.arrays import ArrayFacts, describe
from fireiron.jit.cache import Entry
from fireiron.jit.compile import compile_source
from fireiron.jit.driver import Driver, driver
from fireiron.jit.interface import Interface
from fireiron.jit.kernel import CompiledKernel
from fireiron.jit.memory import DeviceArray
from fireiron.jit.timing import random_array
from fireiron.language.specs import MatMul
from fireiron.language.steps import Program
from fireiron.language.tensor import Tensor
from fireiron.tune.proof import Proof
from fireiron.tune.verify import Rounding, as_products, wrong_product

DEVICE = 0  # the only one that the process sees
GRID, THREADS = 1024, 256  # of the kernel that compares
COMPARE = Interface("compare", str(GRID), THREADS, 0, ())
NUMBER = 2  # of scalars without a default
POISON = 0xFF  # of every byte: NaN in floats, -1 in integers


@attrs.frozen
class Trial:
    """Hold the results of a candidate's first runs.

    Args:
        wrong: the first error of the candidate's outputs in words; "" for right outputs.
        times_us: times of the first runs in microseconds; () for wrong outputs.
    """

    wrong: str
    times_us: tuple[float, ...] = ()


class Session:
    """Run candidates for one problem.

    Args:
        spec: the empty schedule.
    """

    def __init__(self, spec: Any) -> None:
        self._used: Driver = driver()
        self._used.push(self._used.context(DEVICE))
        self._queue = int(self._used.call(self._used.cu.cuStreamCreate(0)))
        self._events = tuple(self._used.call(self._used.cu.cuEventCreate(0)) for _ in range(2))
        names = self._used.cu.CUdevice_attribute
        l2 = self._used.attribute(names.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, DEVICE)
        self._flush_nbytes = 2 * max(l2, 1 << 24)
        self._flush = int(self._used.call(self._used.cu.cuMemAlloc(self._flush_nbytes)))
        found: MatMul | Program = spec.program.spec
        self._spec = found
        self._outputs = tuple(found.outputs)
        self._reads_output = not isinstance(found, Program) and not found.beta.is_zero
        self._arrays: dict[str, DeviceArray] = {}
        self._expected: dict[str, DeviceArray] = {}
        self._before: dict[str, DeviceArray] = {}
        self._proofs: dict[int, Proof] = {}
        self._exact: dict[int, dict[str, DeviceArray]] = {}
        self._compare: dict[str, tuple[Any, DeviceArray]] = {}
        self._launches: dict[int, Callable[[int], None]] = {}
        self._kept: dict[int, CompiledKernel] = {}

    def prove(self, key: int, proof: Proof) -> None:
        """Store an exact run under a key, by which trials refer to the run."""
        self._proofs[key] = proof

    def trial(self, index: int, entry: Entry, samples: int, key: int, plain: bool = True) -> Trial:
        """Load a candidate, run it on whole and on random numbers, verify its outputs, and sample its time.

        Args:
            index: number by which later calls name the candidate.
            entry: the candidate's machine code.
            samples: number of samples.
            key: key of the candidate's exact run.
            plain: whether the candidate computes a product without ops. The first result on random numbers is then
                verified against f64. Otherwise, results on random numbers are compared with those of the first
                candidate that is right on whole numbers.
        """
        launch = self._load(index, entry)
        outs = {t.name: self._arrays[t.name] for t in self._outputs}
        first = {name: self._initial(name) for name in outs}
        wrong = self._wrong_exactly(index, entry, key)
        if wrong:
            self.drop(index)
            return Trial(wrong)
        for name, out in outs.items():
            if self._reads_output:  # what C held before takes part
                self._do(self._used.cu.cuMemcpyDtoD, out.address, first[name].address, out.nbytes)
            else:
                self._do(self._used.cu.cuMemsetD8, out.address, POISON, out.nbytes)
        launch(self._queue)
        self._settle()
        wrong = next(filter(None, (self._wrong(t, entry.binary.arch, plain) for t in self._outputs)), "")
        if wrong:
            self.drop(index)
            return Trial(wrong)
        return Trial("", tuple(self._once(launch) for _ in range(1 + samples))[1:])

    def load(self, index: int, entry: Entry) -> None:
        """Load a candidate that an earlier session has verified."""
        self._load(index, entry)

    def sample(self, indices: Sequence[int], samples: int) -> dict[int, list[float]]:
        """Sample loaded candidates in interleaved rounds; return microseconds by candidate."""
        times: dict[int, list[float]] = {index: [] for index in indices}
        for turn in range(samples):
            for i in range(len(indices)):
                index = indices[(i + turn) % len(indices)]
                times[index].append(self._once(self._launches[index]))
        return times

    def drop(self, index: int) -> None:
        """Unload a candidate."""
        self._launches.pop(index, None)
        self._kept.pop(index, None)

    def _initial(self, name: str) -> DeviceArray:
        """Return a copy of an output's first contents."""
        if name not in self._before:
            self._before[name] = self._copy(self._arrays[name])
        return self._before[name]

    def _copy(self, array: DeviceArray) -> DeviceArray:
        made = DeviceArray(self._used, array.shape, array.dtype, DEVICE, array.strides)
        self._do(self._used.cu.cuMemcpyDtoD, made.address, array.address, array.nbytes)
        return made

    def _load(self, index: int, entry: Entry) -> Callable[[int], None]:
        kernel = CompiledKernel(entry.binary, entry.interface)
        interface = entry.interface
        sizes = bind.solve(interface, {}, {})
        for pointer in interface.pointers:
            if pointer.name not in self._arrays:
                self._arrays[pointer.name] = random_array(self._used, kernel, pointer.name, sizes)
        launch = self._bound(kernel, self._arrays)
        self._launches[index], self._kept[index] = launch, kernel
        return launch

    def _bound(self, kernel: CompiledKernel, arrays: Mapping[str, DeviceArray]) -> Callable[[int], None]:
        """Prepare a launch on arrays."""
        interface = kernel.interface
        facts: dict[str, ArrayFacts] = {p.name: describe(arrays[p.name], p.name) for p in interface.pointers}
        given, numbers = bind.split_scalars(interface, {n.name: NUMBER for n in interface.numbers if n.default is None})
        binding = bind.bind(interface, facts, given)
        return kernel.prepare(facts, attrs.evolve(binding, device=DEVICE), numbers)

    def _once(self, launch: Callable[[int], None]) -> float:
        cu, stream = self._used.cu, self._used.cu.CUstream(self._queue)
        # The launch is enqueued while the flush runs, so that the host's time does not show.
        self._used.call(cu.cuMemsetD32Async(self._flush, 0, self._flush_nbytes // 4, stream))
        begin, end = self._events
        self._used.call(cu.cuEventRecord(begin, stream))
        launch(self._queue)
        self._used.call(cu.cuEventRecord(end, stream))
        self._used.call(cu.cuEventSynchronize(end))
        return float(self._used.call(cu.cuEventElapsedTime(begin, end))) * 1e3

    def _settle(self) -> None:
        self._used.call(self._used.cu.cuStreamSynchronize(self._used.cu.CUstream(self._queue)))

    def _do(self, function: Any, *arguments: Any) -> None:
        self._used.call(function(*arguments))

    def _wrong(self, tensor: Tensor, arch: str, plain: bool) -> str:
        """Compare with the first right result on the GPU; verify on the host without one, or if results differ."""
        out, expected = self._arrays[tensor.name], self._expected.get(tensor.name)
        if expected is not None:
            absolute = 2 * self._of_sums(tensor)
            differ = self._differing(tensor, out, expected, arch, 2.5 * tensor.dtype.epsilon, absolute)
            if not differ:
                return ""
            if not plain:
                return f"{differ} elements differ from those of the candidate that ran first"
        wrong = self._verify(tensor, plain)
        if not wrong and expected is None:
            self._expected[tensor.name] = self._copy(out)
        return wrong

    def _of_sums(self, tensor: Tensor) -> float:
        """Bound the difference of two right sums of random numbers."""
        spec = self._spec
        if not isinstance(spec, Program):
            k = int(spec.A.shape[-1])  # pyright: ignore[reportArgumentType]
            return Rounding(spec.A.dtype, spec.accumulator, spec.C.dtype).of_sums(k)
        found = [Rounding(spec.inputs[0].dtype, tensor.dtype, tensor.dtype).of_sums(1)]
        for step in spec.steps:
            if step.fold is not None:
                k = math.prod(int(as_int(d.extent or 1) or 1) for d in step.over)
                found.append(Rounding(step.reads[0].dtype, step.fold.dtypes[0], tensor.dtype).of_sums(k))
        return max(found)

    def _verify(self, tensor: Tensor, plain: bool) -> str:
        spec = self._spec
        if not plain or isinstance(spec, Program):
            host = self._host(tensor.name)
            missing = int(np.isnan(host.astype(np.float32)).sum()) if tensor.dtype.kind == "float" else 0
            return f"{missing} elements are NaN: not written, or not a number" if missing else ""
        a, b, c = (mathematical(t, self._host(t.name)) for t in (spec.A, spec.B, spec.C))
        a, b = as_products(a, b, spec.product)
        return wrong_product(a, b, c, Rounding(spec.A.dtype, spec.accumulator, spec.C.dtype))

    def _host(self, name: str) -> np.ndarray[Any, Any]:
        array = self._arrays[name]
        host = np.empty(array.shape, array.dtype)
        array.download(host)
        return host

    def _wrong_exactly(self, index: int, entry: Entry, key: int) -> str:
        """Run on whole numbers; compare outputs that are known completely on the GPU, parts of others on the host."""
        proof = self._proofs[key]
        if key not in self._exact:
            given = (*proof.arrays.items(), *proof.whole.items())
            self._exact[key] = {name: self._uploaded(name, array) for name, array in given}
        exact = self._exact[key]
        outs = {p.name: self._arrays[p.name] for p in entry.interface.outputs}
        for name, out in outs.items():
            self._do(self._used.cu.cuMemsetD8, out.address, POISON, out.nbytes)
            if name in proof.arrays:  # what it held before takes part
                self._do(self._used.cu.cuMemcpyDtoD, out.address, exact[name].address, out.nbytes)
        self._bound(self._kept[index], {**self._arrays, **exact, **outs})(self._queue)
        self._settle()
        for name in proof.whole:
            tensor = next(t for t in self._outputs if t.name == name)
            differ = self._differing(tensor, outs[name], exact[name], entry.binary.arch, 0.0, 0.0)
            if differ:
                return f"{differ} elements of a run on whole numbers differ from the exact product"
        return proof.wrong({name: self._host(name) for name in {part.tensor.name for part in proof.parts}})

    def _uploaded(self, name: str, array: np.ndarray[Any, Any]) -> DeviceArray:
        like = self._arrays[name]
        made = DeviceArray(self._used, like.shape, like.dtype, DEVICE, like.strides)
        made.upload(array)
        return made

    def _differing(
        self, tensor: Tensor, out: DeviceArray, expected: DeviceArray, arch: str, relative: float, absolute: float
    ) -> int:
        """Count elements that differ from the expected ones by more than a tolerance."""
        if tensor.dtype.name not in self._compare:
            source = comparison(tensor.dtype)
            loaded = self._used.load(compile_source(source, "compare", find_arch(arch)), COMPARE, DEVICE)
            self._compare[tensor.dtype.name] = loaded, DeviceArray(self._used, (1,), np.dtype(np.uint64), DEVICE)
        loaded, counter = self._compare[tensor.dtype.name]
        self._do(self._used.cu.cuMemsetD8, counter.address, 0, 8)
        count = out.nbytes // int(out.dtype.itemsize)
        values = (
            *(ctypes.c_uint64(x) for x in (out.address, expected.address, counter.address, count)),
            *(ctypes.c_double(x) for x in (relative, absolute)),
        )
        table = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        handle, queue = ctypes.c_void_p(loaded.handle), ctypes.c_void_p(self._queue)
        code = self._used.launch(handle, GRID, 1, 1, THREADS, 1, 1, 0, queue, table, None)
        if code:
            raise RuntimeError(f"launching the comparison fails with error {code}")
        self._settle()
        host = np.zeros(1, np.uint64)
        counter.download(host)
        return int(host[0])


def comparison(kind: DType) -> str:
    """Write a kernel that counts the elements of two arrays that differ by more than a tolerance, or are NaN."""
    c_type, body = _widening(kind)
    return f"""// Count elements that differ by more than relative * |expected| + absolute; a NaN differs from all.
__device__ inline double wide({c_type} x) {{
    {body}
}}

extern "C" __global__ void compare(const {c_type}* got, const {c_type}* expected, unsigned long long* wrong,
                                   unsigned long long count, double relative, double absolute) {{
    unsigned long long found = 0;
    for (unsigned long long i = blockIdx.x * {THREADS}ull + threadIdx.x; i < count; i += {GRID}ull * {THREADS}) {{
        double x = wide(got[i]), y = wide(expected[i]);
        if (!(fabs(x - y) <= relative * fabs(y) + absolute)) ++found;
    }}
    if (found) atomicAdd(wrong, found);
}}
"""


def _widening(kind: DType) -> tuple[str, str]:
    """Write the conversion of an element to double; narrow floats are decoded by integer operations."""
    plain = {"f64": "double", "f32": "float", "tf32": "float"}
    plain |= {"i64": "long long", "i32": "int", "i8": "signed char", "u8": "unsigned char"}
    if kind.name in plain:
        return plain[kind.name], "return x;"
    top, fraction = (1 << kind.exponent) - 1, (1 << kind.mantissa) - 1
    nan = f"e == {top}" if kind.infinite else f"e == {top} && f == {fraction}"
    least = 1 - kind.bias - kind.mantissa  # exponent of the last bit of the smallest numbers
    body = f"""int e = x >> {kind.mantissa} & {top}, f = x & {fraction};
    if ({nan}) return nan("");
    double size = e ? ldexp({fraction + 1}.0 + f, e + {least - 1}) : ldexp((double)f, {least});
    return x >> {kind.bits - 1} ? -size : size;"""
    return ("unsigned char" if kind.bits == 8 else "unsigned short"), body


def mathematical(tensor: Tensor, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """View stored elements as rows and columns: a column-major matrix is stored as its transpose."""
    return read(array, tensor.dtype).transpose(tuple(int(i) for i in np.argsort(tensor.storage)))
