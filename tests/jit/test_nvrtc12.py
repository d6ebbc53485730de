"""NVRTC 12 for sm_70 and sm_72: found, used as 13 is, and missed with the line that installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_kernel import SOURCE, make_kernel

from fireiron.algebra.arch import arch
from fireiron.base.errors import CompileError
from fireiron.jit import compile as jit_compile
from fireiron.jit import disassemble as jit_disassemble
from fireiron.jit import nvrtc12
from fireiron.jit.cache import Entry, load, store
from fireiron.jit.compile import compile_source
from fireiron.jit.disassemble import disassemble
from fireiron.jit.interface import Interface

ROOT = Path(__file__).resolve().parents[2]
needed = pytest.mark.skipif(nvrtc12.find() is None, reason=f"NVRTC 12 is not installed: {nvrtc12.INSTALL}")


@needed
@pytest.mark.parametrize("target", ["sm_70", "sm_72"])
def test_compiles(target):
    found = compile_source(SOURCE, "axpy", arch(target))
    assert found.cubin[:4] == b"\x7fELF"
    assert f".target {target}" in found.ptx
    assert found.resources.registers > 0
    assert found.resources.warnings == ()
    assert found.compiler.version[0] == 12


@needed
@pytest.mark.parametrize("first", ["sm_70", "sm_80"])
def test_both_compilers_in_one_process(first):
    # In a process of its own, since it matters which library is loaded first.
    code = f"""
from tiny_kernel import SOURCE
from fireiron.algebra.arch import arch
from fireiron.jit.compile import compile_source
names = {first!r}, "sm_80", "sm_70", "sm_90a"
print([compile_source(SOURCE, "axpy", arch(name)).compiler.version[0] for name in names])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])},
    )  # fmt: skip
    assert done.stdout.strip() == str([12 if first == "sm_70" else 13, 13, 12, 13])


@needed
def test_the_cache_knows_which_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    binary = compile_source(SOURCE, "axpy", arch(70))
    store("k" * 40, Entry(binary, Interface.of(make_kernel())))
    found = load("k" * 40)
    assert found is not None
    assert found.binary == binary
    assert found.binary.compiler.path == nvrtc12.find()


@needed
def test_errors_of_the_source():
    with pytest.raises(CompileError) as error:
        compile_source(SOURCE.replace("alpha * X", "b * X"), "axpy", arch(70))
    assert error.value.code == "nvrtc"
    assert 'identifier "b" is undefined' in error.value.message


@needed
def test_an_architecture_that_twelve_lacks(monkeypatch):
    monkeypatch.setattr(jit_compile, "FIRST_OF_13", 200)
    monkeypatch.setattr(nvrtc12.Nvrtc12, "nvrtcGetSupportedArchs", lambda self: (self.nvrtcResult.NVRTC_SUCCESS, [70]))
    with pytest.raises(CompileError) as error:
        compile_source(SOURCE, "axpy", arch(80))
    assert error.value.code == "unsupported-arch"
    assert error.value.message == "NVRTC 12.9 does not compile for sm_80: it takes 70"


def test_without_the_wheel(monkeypatch):
    monkeypatch.setattr(nvrtc12, "find", lambda: None)
    with pytest.raises(CompileError) as error:
        compile_source(SOURCE, "axpy", arch(70))
    assert error.value.code == "no-nvrtc"
    assert error.value.message == "NVRTC 13 does not compile for sm_70, and NVRTC 12.9, which does, is not installed"
    assert error.value.fix == "pip install 'fireiron[volta]', which installs nvidia-cuda-nvrtc-cu12 12.9"


def test_a_package_that_is_not_there():
    assert nvrtc12.find("nvidia.no_such_thing") is None
    assert nvrtc12.find("no_such_parent.thing") is None


def test_a_disassembler_that_has_dropped_the_target(tmp_path, monkeypatch):
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\necho 'nvdisasm fatal : CUDA architecture \"SM70\" is deprecated.' >&2; exit 1\n")
    tool.chmod(0o755)
    monkeypatch.setattr(jit_disassemble, "find_nvdisasm", lambda: str(tool))
    with pytest.raises(CompileError) as error:
        disassemble(b"")
    assert error.value.code == "nvdisasm"
    assert error.value.fix == "pip install 'nvidia-cuda-nvdisasm==13.0.*'"
