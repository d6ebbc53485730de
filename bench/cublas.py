"""cuBLAS and cuBLASLt as peers, through ctypes: their default choice, and the best that the heuristic offers.

Source: cublas_api.h and cublasLt.h of CUDA 13; the numbers of their enumerations are part of the ABI.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import Any

import attrs

from fireiron.algebra.dtypes import tf32

from .arrays import Arrays, torch_module
from .cases import Case
from .subjects import Launch, Prepared, Rough, needs_gpu, not_installed, unsupported

WORKSPACE_NBYTES = 64 << 20
ALGORITHMS = 24  # algorithms that the heuristic is asked for

# cudaDataType
TYPES = {
    "f32": 0, "tf32": 0, "f64": 1, "f16": 2, "i8": 3, "u8": 8, "i32": 10, "bf16": 14, "e4m3": 28, "e5m2": 29
}  # fmt: skip
# cublasComputeType_t, and the cudaDataType of alpha and beta, by the accumulator
COMPUTE = {"f16": (64, "f16"), "f32": (68, "f32"), "f64": (70, "f64"), "i32": (72, "i32")}
TF32 = (77, "f32")
SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i32": ctypes.c_int32, "f16": ctypes.c_uint16}
# cublasLtMatmulDescAttributes_t
TRANSA, TRANSB, EPILOGUE, BIAS, FAST_ACCUMULATION = 3, 4, 7, 8, 25
# cublasLtEpilogue_t, of which several are joined
EPILOGUES = {"relu": 2, "bias": 4}
BATCH_COUNT, BATCH_STRIDE = 5, 6  # cublasLtMatrixLayoutAttribute_t
MAX_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t


@attrs.frozen
class Operand:
    """Describe a row-major array as cuBLAS sees it: column-major, so transposed.

    Args:
        rows, cols: column-major extents.
        transposed: whether the product reads it transposed.
        kind: element type.
    """

    rows: int
    cols: int
    transposed: bool
    kind: str


def operands(case: Case) -> tuple[Operand, Operand, Operand]:
    """Write the product as C^T = B^T A^T, as a column-major library reads row-major arrays.

    Example:
        >>> first, second, _ = operands(Case(64, 32, 16, "f16", "TN"))
        >>> (first.rows, first.cols, first.transposed), (second.rows, second.cols, second.transposed)
        ((16, 32, True), (16, 64, False))
    """
    inside, _, outside = case.types
    m, n, k = case.m, case.n, case.k
    b, a = case.layout
    first = Operand(k, n, True, inside.name) if b == "T" else Operand(n, k, False, inside.name)
    second = Operand(m, k, True, inside.name) if a == "T" else Operand(k, m, False, inside.name)
    return first, second, Operand(n, m, False, outside.name)


@cache
def library(name: str) -> Any:
    """Load a library of CUDA: the one that torch has loaded, or the one of the environment.

    Raises:
        CompileError: `not-installed`.
    """
    try:
        pathfinder: Any = import_module("cuda.pathfinder")
        return ctypes.CDLL(str(pathfinder.load_nvidia_dynamic_lib(name).abs_path))
    except (ImportError, RuntimeError, OSError) as error:
        raise not_installed(name, str(error).strip().partition("\n")[0]) from None


def _one(kind: str) -> tuple[Any, Any]:
    """Give alpha = 1 and beta = 0."""
    scalar = SCALARS[kind]
    return scalar(0x3C00 if kind == "f16" else 1), scalar(0)


def _check(status: int, doing: str) -> None:
    if status:
        raise RuntimeError(f"{doing} fails with status {status}")


def _stream() -> ctypes.c_void_p:
    return ctypes.c_void_p(torch_module().cuda.current_stream().cuda_stream)


@cache
def _workspace() -> Any:
    torch = torch_module()
    return torch.empty(WORKSPACE_NBYTES, dtype=torch.int8, device="cuda")


def _types(name: str, case: Case) -> tuple[int, str]:
    inside, acc, outside = case.types
    if not set(EPILOGUES).issuperset(case.steps):
        raise unsupported(name, case)
    if inside.name not in TYPES or outside.name not in TYPES or acc.name not in COMPUTE or inside.name == "u8":
        raise unsupported(name, case)
    return TF32 if inside == tf32 else COMPUTE[acc.name]


@attrs.frozen(eq=False)
class Cublas:
    """Time cublasGemmEx and its batched form: the algorithm that cuBLAS itself chooses."""

    name: str = "cublas"
    ours: bool = False

    def prepare(self, case: Case, arrays: Arrays | None, rough: Rough | None) -> Prepared:
        """Bind the arguments that are the same in all launches."""
        needs_gpu(self.name, arrays)
        compute, scale = _types(self.name, case)
        if case.steps or case.types[0].name in ("e4m3", "e5m2"):
            raise unsupported(self.name, case)
        blas, handle = _cublas()
        first, second, out = operands(case)
        alpha, beta = _one(scale)
        count = case.batch or 1
        workspace, nbytes = ctypes.c_void_p(_workspace().data_ptr()), ctypes.c_size_t(WORKSPACE_NBYTES)

        def launch(found: Arrays) -> Launch:
            pointers = [ctypes.c_void_p(x.data_ptr()) for x in (found.stored_b, found.stored_a, found.out)]
            each = [
                (pointer, TYPES[x.kind], x.rows, ctypes.c_longlong(x.rows * x.cols))
                for pointer, x in zip(pointers, (first, second, out), strict=True)
            ]

            def once() -> None:
                # Setting a stream resets the workspace, so both are set each time.
                _check(blas.cublasSetStream_v2(handle, _stream()), "cublasSetStream")
                _check(blas.cublasSetWorkspace_v2(handle, workspace, nbytes), "cublasSetWorkspace")
                status = blas.cublasGemmStridedBatchedEx(
                    handle, int(first.transposed), int(second.transposed), case.n, case.m, case.k,
                    ctypes.byref(alpha), *each[0], *each[1], ctypes.byref(beta), *each[2], count, compute, -1,
                )  # fmt: skip
                _check(status, "cublasGemmEx")

            return once

        return Prepared(launch, "cublasGemmEx, default algorithm")


@cache
def _cublas() -> tuple[Any, ctypes.c_void_p]:
    blas, handle = library("cublas"), ctypes.c_void_p()
    _check(blas.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
    return blas, handle


class _Result(ctypes.Structure):
    """Mirror cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@attrs.frozen(eq=False)
class CublasLt:
    """Time cublasLtMatmul with the fastest algorithm of those that its heuristic offers, with 64 MiB of workspace."""

    name: str = "cublaslt"
    ours: bool = False

    def prepare(self, case: Case, arrays: Arrays | None, rough: Rough | None) -> Prepared:
        """Time the algorithms that the heuristic offers."""
        needs_gpu(self.name, arrays)
        assert arrays is not None
        plan, found, best = _fastest(case, arrays, rough)
        detail = f"algorithm {best + 1} of {len(found)} by the heuristic"
        return Prepared(lambda more: plan.launch(more, found[best]), detail)


def bound(case: Case, arrays: Arrays, rough: Rough | None, *, add: bool = False) -> Launch:
    """Bind one cublasLtMatmul with the fastest algorithm.

    Args:
        case: the problem, with the operations after the product.
        arrays: operands and result.
        rough: function that times launches roughly; None to use the heuristic's first choice.
        add: whether the product is added to the old result.

    Raises:
        FireironError: `unsupported-case`.
    """
    plan, found, best = _fastest(case, arrays, rough, add=add)
    return plan.launch(arrays, found[best])


def _fastest(case: Case, arrays: Arrays, rough: Rough | None, *, add: bool = False) -> tuple[_Plan, list[_Result], int]:
    plan = _Plan(case, *_types("cublaslt", case), add=add)
    plan.take(arrays)
    found = plan.algorithms()
    if not found:
        raise unsupported("cublaslt", case)
    times = rough([plan.launch(arrays, x) for x in found]) if rough is not None else [0.0] * len(found)
    return plan, found, min(range(len(found)), key=lambda i: times[i])


class _Plan:
    """Own the descriptors of one problem."""

    def __init__(self, case: Case, compute: int, scale: str, *, add: bool = False) -> None:
        self._lt = library("cublasLt")
        self._handle = _lt_handle()
        self._operation = ctypes.c_void_p()
        first, second, out = operands(case)
        one, zero = _one(scale)
        self._alpha, self._beta = one, one if add else zero
        self._do("MatmulDescCreate", ctypes.byref(self._operation), compute, TYPES[scale])
        for attribute, operand in ((TRANSA, first), (TRANSB, second)):
            self._set(attribute, ctypes.c_int32(int(operand.transposed)))
        if case.types[0].name in ("e4m3", "e5m2"):
            self._set(FAST_ACCUMULATION, ctypes.c_int8(1))
        if case.steps:
            self._set(EPILOGUE, ctypes.c_int32(sum(EPILOGUES[step] for step in case.steps)))
        self._layouts = [self._layout(x, case.batch) for x in (first, second, out)]

    def take(self, arrays: Arrays) -> None:
        """Set the address of the row that is added (the bias)."""
        if arrays.bias is not None:
            self._set(BIAS, ctypes.c_void_p(arrays.bias.data_ptr()))

    def _set(self, attribute: int, value: Any) -> None:
        nbytes = ctypes.c_size_t(ctypes.sizeof(value))
        self._do("MatmulDescSetAttribute", self._operation, attribute, ctypes.byref(value), nbytes)

    def _do(self, function: str, *arguments: object) -> None:
        _check(getattr(self._lt, f"cublasLt{function}")(*arguments), f"cublasLt{function}")

    def _layout(self, x: Operand, batch: int | None) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        extents = ctypes.c_uint64(x.rows), ctypes.c_uint64(x.cols), ctypes.c_int64(x.rows)
        self._do("MatrixLayoutCreate", ctypes.byref(made), TYPES[x.kind], *extents)
        if batch is not None:
            count, stride = ctypes.c_int32(batch), ctypes.c_int64(x.rows * x.cols)
            for attribute, value, size in ((BATCH_COUNT, count, 4), (BATCH_STRIDE, stride, 8)):
                self._do("MatrixLayoutSetAttribute", made, attribute, ctypes.byref(value), ctypes.c_size_t(size))
        return made

    def algorithms(self) -> list[_Result]:
        """Return all algorithms that the heuristic offers."""
        preference, nbytes = ctypes.c_void_p(), ctypes.c_uint64(WORKSPACE_NBYTES)
        self._do("MatmulPreferenceCreate", ctypes.byref(preference))
        self._do("MatmulPreferenceSetAttribute", preference, MAX_WORKSPACE, ctypes.byref(nbytes), ctypes.c_size_t(8))
        results, count = (_Result * ALGORITHMS)(), ctypes.c_int()
        a, b, c = self._layouts
        status = self._lt.cublasLtMatmulAlgoGetHeuristic(
            self._handle, self._operation, a, b, c, c, preference, ALGORITHMS, results, ctypes.byref(count)
        )
        self._do("MatmulPreferenceDestroy", preference)
        return [] if status else [results[i] for i in range(count.value) if not results[i].state]

    def launch(self, arrays: Arrays, chosen: _Result) -> Launch:
        """Bind arrays and an algorithm."""
        a, b, c = self._layouts
        first, second, out = (ctypes.c_void_p(x.data_ptr()) for x in (arrays.stored_b, arrays.stored_a, arrays.out))
        workspace = ctypes.c_void_p(_workspace().data_ptr())
        alpha, beta = ctypes.byref(self._alpha), ctypes.byref(self._beta)
        algorithm, nbytes = ctypes.byref(chosen), ctypes.c_size_t(WORKSPACE_NBYTES)
        multiply = self._lt.cublasLtMatmul

        def once() -> None:
            self.take(arrays)  # the descriptor holds the bias's address, which all sets of arrays share
            status = multiply(
                self._handle, self._operation, alpha, first, a, second, b, beta, out, c, out, c,
                algorithm, workspace, nbytes, _stream(),
            )  # fmt: skip
            _check(status, "cublasLtMatmul")

        return once


@cache
def _lt_handle() -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    _check(library("cublasLt").cublasLtCreate(ctypes.byref(handle)), "cublasLtCreate")
    return handle
