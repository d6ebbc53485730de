import subprocess
import sys

import pytest
from tiny_kernel import SOURCE

from fireiron.algebra.arch import ARCHS, arch
from fireiron.base.errors import CompileError
from fireiron.jit import compile as jit_compile
from fireiron.jit import disassemble as jit_disassemble
from fireiron.jit.compile import CompileOptions, compile_source
from fireiron.jit.disassemble import disassemble
from fireiron.jit.resources import parse_log

SPILLS = """
extern "C" __global__ void __launch_bounds__(1024, 2) spill(float* a, int n) {
    float acc[64];
    for (int i = 0; i < 64; i++) acc[i] = a[i * n];
    for (int j = 0; j < n; j++) for (int i = 0; i < 64; i++) acc[i] = acc[(i + 3) % 64] * a[j];
    for (int i = 0; i < 64; i++) a[i * n] = acc[i];
}
"""

WGMMA = """
__device__ __forceinline__ void mma(float* d, unsigned long long a, unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
}
extern "C" __global__ void __launch_bounds__(128) products(float* out, unsigned long long a, unsigned long long b) {
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    mma(d, a, b);
    // between
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = d[i];
}
"""
TOUCHED = WGMMA.replace("// between", "d[0] += 1.0f; mma(d, a, b);")


@pytest.mark.parametrize("row", ARCHS, ids=str)
def test_compiles_for_every_architecture(row):
    if row.number in (103, 110, 121) or (row.number, row.name[-1]) in ((100, "0"), (120, "0")):
        # The same code paths as their neighbours: the options alone are looked at.
        assert f"--gpu-architecture={row.name}" in CompileOptions().arguments(row)
        return
    binary = compile_source(SOURCE, "axpy", row)
    assert binary.cubin.startswith(b"\x7fELF")
    assert f".target {row.name}" in binary.ptx
    assert not binary.resources.spills
    assert 0 < binary.resources.registers < 64


def test_hopper_is_compiled_with_its_own_instructions():
    for target in ("sm_90", "sm_90a"):
        binary = compile_source(WGMMA, "products", arch(target))
        assert binary.arch == "sm_90a"
        assert ".target sm_90a" in binary.ptx
    assert arch(binary.arch).runs_on(90)


def test_serialised_products_are_refused():
    with pytest.raises(CompileError) as error:
        compile_source(TOUCHED, "products", arch(90))
    assert error.value.code == "wgmma-serialised"
    assert error.value.message.startswith("ptxas serialises the asynchronous matrix products for sm_90a: ")
    assert "(C75" in error.value.message
    assert compile_source(TOUCHED, "products", arch(90), CompileOptions(debug=True)).cubin


def test_ignored_register_budgets_are_refused():
    source = 'extern "C" __global__ void k(float* x) { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); *x = 1; }'
    with pytest.raises(CompileError) as error:
        compile_source(source, "k", arch("sm_90a"))
    assert error.value.code == "setmaxnreg-ignored"
    assert "(C7508)" in error.value.message


def test_spills_are_read():
    found = compile_source(SPILLS, "spill", arch(90)).resources
    assert found.spills
    assert found.registers == 32
    assert found.stack >= found.spill_stores // 8 > 0


def test_resources_of_one_entry_among_two():
    log = compile_source(SOURCE + SPILLS, "axpy", arch(80)).log
    assert not parse_log(log, "axpy").spills
    assert parse_log(log, "spill").spills
    with pytest.raises(ValueError, match="does not mention nothing"):
        parse_log(log, "nothing")


def test_warnings_are_kept():
    source = SOURCE.replace("int i =", "int unused; int i =")
    assert any("unused" in w for w in compile_source(source, "axpy", arch(80)).resources.warnings)


def test_source_errors_show_their_lines():
    with pytest.raises(CompileError) as error:
        compile_source(SOURCE.replace("M * N", "M * P"), "axpy", arch(80))
    assert error.value.code == "nvrtc"
    assert error.value.message == (
        "NVRTC finds 1 error in the source for sm_80:\n"
        'axpy.cu:4: identifier "P" is undefined\n'
        "    4 |     if (i < M * P) Y[i] = alpha * X[i];"
    )


def test_missing_entry():
    with pytest.raises(CompileError) as error:
        compile_source(SOURCE, "other", arch(80))
    assert error.value.code == "no-entry"


def test_lineinfo_names_the_source():
    plain = compile_source(SOURCE, "axpy", arch(80))
    lines = compile_source(SOURCE, "axpy", arch(80), CompileOptions(lineinfo=True), path="/tmp/shown.cu")
    assert "/tmp/shown.cu" in lines.ptx
    assert len(lines.cubin) > len(plain.cubin)
    assert "shown.cu" in disassemble(lines.cubin, lines=True)


def test_no_nvrtc(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    with pytest.raises(CompileError) as error:
        compile_source(SOURCE, "axpy", arch(80))
    assert error.value.code == "no-nvrtc"
    assert "pip install" in error.value.fix


def test_nvrtc_without_the_architecture(monkeypatch):
    real = jit_compile._nvrtc()

    class Older:
        def __getattr__(self, name):
            return getattr(real, name)

        def nvrtcGetSupportedArchs(self):
            return real.nvrtcResult.NVRTC_SUCCESS, [75, 80, 90]

    monkeypatch.setattr(jit_compile, "_nvrtc", Older)
    with pytest.raises(CompileError) as error:
        compile_source(SOURCE, "axpy", arch(121))
    assert error.value.code == "unsupported-arch"
    assert error.value.message.endswith("does not compile for sm_121: it takes 75 80 90")


def test_sass():
    text = disassemble(compile_source(SOURCE, "axpy", arch("sm_90a")).cubin)
    assert "EXIT" in text
    assert "FMUL" in text


def test_no_nvdisasm(monkeypatch):
    monkeypatch.setattr(jit_disassemble, "find_nvdisasm", lambda: None)
    with pytest.raises(CompileError) as error:
        disassemble(b"")
    assert error.value.code == "no-nvdisasm"
    assert error.value.fix == "pip install nvidia-cuda-nvdisasm"


def test_nvdisasm_refuses_nonsense():
    with pytest.raises(CompileError) as error:
        disassemble(b"no cubin")
    assert error.value.code == "nvdisasm"


def test_importing_the_layer_imports_no_cuda():
    code = (
        "import sys, fireiron.jit.build, fireiron.jit.kernel, fireiron.jit.timing, fireiron.jit.doctor;"
        "print([m for m in ('cuda', 'torch', 'numpy.linalg', 'rich') if m in sys.modules and m != 'numpy.linalg'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
