"""Exported kernels: the text compiles anywhere, the C launcher passes what Python does, the loader has no compiler."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fireiron import FireironError, Vector, add, matmul, symbol
from fireiron.algebra.arch import arch
from fireiron.front.cli import main
from fireiron.jit import maps
from fireiron.jit.compile import compile_source
from fireiron.jit.export import load
from fireiron.jit.expression import evaluate
from fireiron.jit.launcher import c_text
from fireiron.schedules import hopper, simt
from fireiron.schedules._plan import Plan

NVCC, CC = shutil.which("nvcc"), shutil.which("cc")


def small(**spec: Any) -> Any:
    return simt.listing2(matmul(64, 64, 16, alpha="kernel", **spec), 32, 32)


def bulk() -> Any:
    m, n = symbol("M"), symbol("N", multiple_of=8)
    spec = matmul(m, n, 128, "f16", layout="TN", arch="sm_90").then(add(Vector(n, name="stream")))
    return hopper.cooperative(spec, Plan(m=128, n=64, cluster=(2, 1)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("export")
    made = small().export(str(place), ("sm_80", "sm_90a"))
    assert set(made.files) - {f"{made.name}.fatbin"} == {
        *(f"{made.name}{end}" for end in (".cu", ".h", ".json", ".sm_80.cubin", ".sm_90a.cubin")),
        "main.c",
        "CMakeLists.txt",
    }
    return place


def test_the_source_says_what_it_is_and_compiles_beside_cudas_own_types(folder: Path, tmp_path: Path) -> None:
    (file,) = folder.glob("*.cu")
    text = file.read_text()
    assert f"// schedule: {small()}" in text
    assert "// digest: " in text
    assert "\nnamespace fireiron_" in text
    own = compile_source(text, file.stem, arch("sm_80"))
    assert own.resources == load(folder, "sm_80").resources
    both = "struct half { int other; };\nstruct bf16 { int other; };\n" + text  # as cuda_fp16.h has a half of its own
    compile_source(both, file.stem, arch("sm_90a"))
    if NVCC is not None:
        (tmp_path / "both.cu").write_text(f"#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n{text}")
        made = subprocess.run(
            [NVCC, "-std=c++17", "-arch=sm_80", "-cubin", "-o", "both.cubin", "both.cu"], cwd=tmp_path, check=False
        )
        assert made.returncode == 0


def test_the_loader_needs_no_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fireiron.jit.compile as compiling

    monkeypatch.setattr(compiling, "_nvrtc", lambda: pytest.fail("compiled"))
    kernel, newest = load(folder, "sm_80"), load(folder)
    assert (kernel.arch.name, newest.arch.name) == ("sm_80", "sm_90a")
    monkeypatch.undo()
    compiled = small().compile("sm_80")
    assert (kernel.interface, kernel.cubin, kernel.resources) == (
        compiled.interface, compiled.cubin, compiled.resources
    )  # fmt: skip
    assert "namespace" in kernel.source


MISTAKES = {
    "export-arch": lambda place: load(place, "sm_75"),
    "no-export": lambda place: load(place / "nowhere"),
    "export-folder": lambda place: small().export(str(next(place.glob("*.cu"))), ("sm_80",)),
}


@pytest.mark.parametrize("code", MISTAKES)
def test_what_is_refused(folder: Path, code: str) -> None:
    with pytest.raises(FireironError) as caught:
        MISTAKES[code](folder)
    assert caught.value.code == code
    assert caught.value.fix


def test_kernels_of_other_interfaces_do_not_share_a_folder(tmp_path: Path) -> None:
    from fireiron.jit.export import write

    with pytest.raises(FireironError) as caught:
        write(tmp_path, [small().compile("sm_80"), small(beta=1.0).compile("sm_80")], {})
    assert caught.value.code == "export-interface"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", "simt.listing2", "--shape", "64x64x16", "--archs", "sm_80", "-o", str(tmp_path), "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["archs"] == ["sm_80"]
    assert all((tmp_path / name).exists() for name in told["files"])
    assert main(["export", "simt.listing2"]) == 2


def test_the_command_takes_several_architectures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["export", "simt.listing2", "--shape", "64x64x16", "-o", str(tmp_path), "--json"]
    for option in (["--arch", "sm_80", "--arch", "sm_90a,sm_80"], ["--archs", "sm_80,sm_90a"]):
        assert main([*words, *option]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["archs"] == ["sm_80", "sm_90a"]
        assert {name.rpartition(".sm_")[2] for name in told["files"] if ".sm_" in name} == {"80.cubin", "90a.cubin"}


def test_a_preset_that_takes_an_architecture_is_given_the_oldest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", "fused.gemm_bias", "--shape", "128x128x64", "--dtype", "f16", "--layout", "TN", "--json"]
    assert main([*words, "--arch", "sm_90a", "--arch", "sm_80", "-o", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["archs"] == ["sm_90a", "sm_80"]
    assert "mma.sync" in next(tmp_path.glob("*.cu")).read_text()


@pytest.mark.skipif(CC is None, reason="no C compiler is installed")
def test_expressions_in_c(tmp_path: Path) -> None:
    texts = [
        "((M + 127) // 128) * min(M, 7, N)",
        "(M if (M % 3 == 1 and N < 5) else max(N, 2) - 40)",
        "(M ^ 5) << 2 | N & 3",
    ]
    body = "".join(f"long long f{i}(long long M, long long N) {{ return {c_text(t)}; }}\n" for i, t in enumerate(texts))
    library = _compiled(tmp_path, MIN_MAX + body)
    for i, text in enumerate(texts):
        function = getattr(library, f"f{i}")
        function.restype, function.argtypes = ctypes.c_longlong, [ctypes.c_longlong] * 2
        for m, n in ((1, 1), (128, 4), (130, 9), (4097, 3)):
            assert function(m, n) == evaluate(text, {"M": m, "N": n})


@pytest.mark.skipif(CC is None, reason="no C compiler is installed")
@pytest.mark.parametrize("make", [small, bulk])
def test_the_launcher_passes_what_python_passes(make: Any, tmp_path: Path) -> None:
    """Run the C launcher against a driver that only writes down what it is asked for."""
    made = make().export(str(tmp_path), ("sm_90a",))
    (tmp_path / "cuda.h").write_text(DRIVER)
    interface = load(tmp_path, "sm_90a").interface
    sizes = {s.name: 512 for s in interface.symbols}
    pointers = {p.name: 4096 * (i + 1) for i, p in enumerate(interface.pointers)}
    words = ["(CUfunction)1", "(CUstream)7", *(f"(void *){x}" for x in pointers.values()), *map(str, sizes.values())]
    words += ["2.5f" for _ in interface.numbers] + ["(void *)65536"] * bool(interface.workspaces)
    run = f"int run(void) {{ return {made.name}_prepare((CUfunction)1) || {made.name}_launch({', '.join(words)}); }}"
    wide = sum(1 << i for i, p in enumerate(interface.parameters) if p.name in pointers)
    head = f'#define ARGUMENTS {len(interface.parameters)}\n#define LONG {wide}\n#include "{made.name}.h"\n'
    library = _compiled(tmp_path, f"{head}{run}\n")
    assert library.run() == 0
    told = (ctypes.c_longlong * 256).in_dll(library, "told")
    count = ctypes.c_int.in_dll(library, "count").value
    found = list(told[:count])
    wanted = [interface.shared_nbytes] if interface.shared_nbytes > 48 * 1024 else []
    for recipe in maps.recipes(interface, sizes):
        wanted += [pointers[recipe.array], recipe.type, recipe.swizzle, *recipe.extents, *recipe.strides, *recipe.box]
    blocks = evaluate(interface.grid, sizes)
    if interface.persistent:
        wanted += [interface.cluster, interface.shared_nbytes]
        blocks = min(blocks, 3 * interface.cluster)
    wanted += [blocks, interface.threads, interface.shared_nbytes, 7, interface.cluster]
    assert found == wanted
    values = (ctypes.c_ulonglong * 64).in_dll(library, "passed")
    plain = [p for p in interface.parameters if not hasattr(p, "box")]
    for i, parameter in enumerate(interface.parameters):
        if parameter not in plain:
            continue
        if parameter.name in pointers:
            assert values[i] == pointers[parameter.name]
        elif parameter.name in sizes:
            assert values[i] & 0xFFFFFFFF == sizes[parameter.name]
        else:
            assert values[i] & 0xFFFFFFFF == int(np.float32(2.5).view(np.uint32))
    # The same arguments that a Python call checks are refused.
    wrong = run.replace("(void *)4096", "(void *)4097", 1).replace("int run", "int wrong")
    assert _compiled(tmp_path, f"{head}{wrong}\n", "wrong").wrong() != 0


def _compiled(place: Path, text: str, name: str = "test") -> Any:
    assert CC is not None
    (place / f"{name}.c").write_text(text)
    command = [CC, "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-shared", "-fPIC", "-I."]
    subprocess.run([*command, "-o", f"{name}.so", f"{name}.c"], cwd=place, check=True)
    return ctypes.CDLL(str(place / f"{name}.so"))


MIN_MAX = """
long long fireiron_min(long long a, long long b) { return a < b ? a : b; }
long long fireiron_max(long long a, long long b) { return a > b ? a : b; }
"""

# What the launcher needs of cuda.h, as a driver that writes down what it is asked for.
DRIVER = """
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef int CUresult; typedef int CUdevice; typedef struct f *CUfunction; typedef struct s *CUstream;
typedef unsigned long long CUdeviceptr; typedef uint64_t cuuint64_t; typedef uint32_t cuuint32_t;
typedef int CUtensorMapDataType; typedef int CUtensorMapSwizzle;
typedef struct { _Alignas(64) uint64_t words[16]; } CUtensorMap;
enum { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
       CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, CU_TENSOR_MAP_INTERLEAVE_NONE,
       CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
       CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
       CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION };
typedef enum { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT } CUdevice_attribute;
typedef union { struct { unsigned x, y, z; } clusterDim; int programmaticStreamSerializationAllowed; } Value;
typedef struct { int id; Value value; } CUlaunchAttribute;
typedef struct { unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream; CUlaunchAttribute *attrs; unsigned numAttrs; } CUlaunchConfig;
long long told[256]; int count; unsigned long long passed[64];
static void tell(long long x) { told[count++] = x; }
static CUresult cuFuncSetAttribute(CUfunction f, int what, int value) { (void)f; (void)what; tell(value); return 0; }
static CUresult cuTensorMapEncodeTiled(CUtensorMap *m, int type, unsigned rank, void *at, const cuuint64_t *extents,
    const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps, int i, int swizzle, int l2, int fill) {
    (void)m; (void)steps; (void)i; (void)l2; (void)fill;
    tell((intptr_t)at); tell(type); tell(swizzle);
    for (unsigned k = 0; k < rank; ++k) tell(extents[k]);
    for (unsigned k = 0; k + 1 < rank; ++k) tell(strides[k]);
    for (unsigned k = 0; k < rank; ++k) tell(box[k]);
    return 0; }
static CUresult cuOccupancyMaxActiveClusters(int *n, CUfunction f, const CUlaunchConfig *c) {
    (void)f; tell(c->gridDimX); tell(c->sharedMemBytes); *n = 3; return 0; }
static CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t nbytes) {
    (void)f; (void)threads; tell(1); tell(nbytes); *n = 1; return 0; }
static CUresult cuCtxGetDevice(CUdevice *d) { *d = 0; return 0; }
static CUresult cuDeviceGetAttribute(int *x, int what, CUdevice d) { (void)what; (void)d; *x = 3; return 0; }
static CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **arguments, void **extra) {
    (void)f; (void)extra;
    tell(c->gridDimX); tell(c->blockDimX); tell(c->sharedMemBytes); tell((intptr_t)c->hStream);
    tell(c->numAttrs ? c->attrs[0].value.clusterDim.x : 1);
    for (int i = 0; i < ARGUMENTS; ++i) memcpy(&passed[i], arguments[i], 4);
    for (int i = 0; i < ARGUMENTS; ++i) if (LONG >> i & 1) memcpy(&passed[i], arguments[i], 8);
    return 0; }
"""
