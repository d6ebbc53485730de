"""CUDA C++ to a cubin by NVRTC 13, or by 12.9 for older architectures, on machines with and without a driver."""

from __future__ import annotations

import contextlib
import os
import re
from importlib import import_module
from typing import Any

import attrs

from fireiron.algebra.arch import Arch
from fireiron.base.errors import CompileError
from fireiron.jit.diagnose import complaints, insufficient
from fireiron.jit.identity import Stamp, content, stamp
from fireiron.jit.nvrtc12 import FIRST_OF_13, Nvrtc12, nvrtc12, without_notice
from fireiron.jit.resources import Resources, parse_log

INSTALL_NVRTC = "pip install 'cuda-toolkit[nvrtc]>=13.0,<14'"


# Leaves out declarations of textures and of the runtime's functions for devices: 15 ms of a compile, and the same code.
# Headers of the toolkit may name what is left out.
MINIMAL = "--minimal"
LEAST_REGISTERS, MOST_REGISTERS = 24, 255  # ptxas takes what is less for 24: calls by its ABI need them


@attrs.frozen
class CompileOptions:
    """Choose how NVRTC compiles.

    Args:
        lineinfo: whether to keep source lines for profilers.
        debug: whether the source bounds its waits by calls. Calls serialise asynchronous products, which is then no
            error.
        max_registers: most registers of a thread, in place of the limit from the launch bounds; None for that limit.
        allow_spills: whether spills, stack frames and serialised products become findings of the kernel instead of
            errors.
        defines: preprocessor names and values.
        extra: further NVRTC options, as they are.

    Raises:
        CompileError: `register-cap`.
    """

    lineinfo: bool = False
    debug: bool = False
    max_registers: int | None = None
    allow_spills: bool = False
    defines: tuple[tuple[str, str], ...] = ()
    extra: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        most = self.max_registers
        if most is not None and not LEAST_REGISTERS <= most <= MOST_REGISTERS:
            raise CompileError(
                "register-cap",
                f"max_registers={most} is no cap: ptxas gives a thread {LEAST_REGISTERS} to {MOST_REGISTERS} registers",
                fix="choose a number between them, or leave it out for what launch bounds allow",
            )

    def arguments(self, arch: Arch) -> tuple[str, ...]:
        """List NVRTC's options for a target."""
        # NVRTC's own cache answers a second compile of one source without the log that holds its registers and spills.
        chosen = [f"--gpu-architecture={arch.target.name}", "--std=c++17", "--ptxas-options=-v", "--no-cache"]
        if self.lineinfo:
            chosen.append("--generate-line-info")
        if self.max_registers is not None:
            # Without the second option ptxas takes the kernel's launch bounds for the cap, and this one for nothing.
            chosen += [f"--maxrregcount={self.max_registers}", "--ptxas-options=--override-directive-values"]
        return (*chosen, *(f"--define-macro={name}={value}" for name, value in self.defines), *self.extra)


@attrs.frozen
class Compiler:
    """Identify an NVRTC library by the contents of its files.

    Args:
        version: (major, minor).
        path: the shared library.
        digest: of the library and its builtins, "" where they cannot be read.
        stamp: device, inode, size and times of these files; while the stamp is the same, so are the contents.
    """

    version: tuple[int, int]
    path: str
    digest: str
    stamp: Stamp = attrs.field(default=(), eq=False, repr=False)

    @property
    def is_current(self) -> bool:
        """Say whether the file at `path` still holds the same library."""
        files = _files(self.path)
        try:
            return bool(self.digest) and (stamp(files) == self.stamp or content(files, keep=True) == self.digest)
        except OSError:
            return False


@attrs.frozen
class Binary:
    """Hold one compiled kernel as plain data; it is loaded on no GPU yet.

    Args:
        name: the entry point.
        arch: name of the target (`sm_90a`).
        source: the CUDA C++.
        ptx: the intermediate assembly.
        cubin: the machine code.
        log: the compiler's messages.
        resources: registers, stack and shared memory of the kernel, read from the log.
        compiler: the NVRTC that made the machine code.
    """

    name: str
    arch: str
    source: str = attrs.field(repr=False)
    ptx: str = attrs.field(repr=False)
    cubin: bytes = attrs.field(repr=False)
    log: str = attrs.field(repr=False)
    resources: Resources
    compiler: Compiler


def compile_source(
    source: str, name: str, arch: Arch, options: CompileOptions | None = None, *, path: str | None = None
) -> Binary:
    """Compile CUDA C++ that holds the `extern "C"` kernel `name`.

    Args:
        source: one self-contained translation unit.
        name: the entry point.
        arch: the target.
        options: how to compile.
        path: the file name for messages and line information; `<name>.cu` by default.

    Raises:
        CompileError: `nvrtc`, `no-nvrtc`, `unsupported-arch`, `no-entry`, `wgmma-serialised`, `wgmma-registers`,
            `setmaxnreg-ignored`.
    """
    # cuda.bindings and not cuda.core's Program: it loads in a quarter of the time (0.06 s against 0.25 s, of a budget
    # of 0.5 s), gives PTX and cubin of one compilation, and never asks for a driver.
    nvrtc = _bindings(arch)
    options, arch = options or CompileOptions(), arch.target
    supported = _checked(nvrtc, nvrtc.nvrtcGetSupportedArchs())
    if arch.number not in supported:
        listed = " ".join(str(a) for a in supported)
        version = "{}.{}".format(*_version(nvrtc))
        raise CompileError(
            "unsupported-arch",
            f"NVRTC {version} does not compile for {arch.name}: it takes {listed}",
            fix=f"compile for one of these, or install another NVRTC: {INSTALL_NVRTC}",
        )
    file = path or f"{name}.cu"
    program: Any = _checked(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), file.encode(), 0, None, None))
    try:
        arguments = [a.encode() for a in (*options.arguments(arch), *([] if "#include" in source else [MINIMAL]))]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
        log = _text(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode(errors="replace")
        log = without_notice(log) if isinstance(nvrtc, Nvrtc12) else log
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise insufficient(log, arch) or _failure(nvrtc, result, log, source, file, arch)
        cubin = _text(nvrtc, program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        ptx = _text(nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).decode(errors="replace")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    try:
        resources = parse_log(log, name)
    except ValueError:
        raise CompileError(
            "no-entry",
            f'the source compiled, but holds no kernel extern "C" {name}',
            fix=f'name the kernel {name} and declare it extern "C" __global__',
        ) from None
    serialised = next(complaints(log, attrs.evolve(resources, stack=0, spill_stores=0, spill_loads=0), arch), None)
    if serialised is not None and not options.debug and not options.allow_spills:
        raise serialised.error(CompileError)
    return Binary(name, arch.name, source, ptx.rstrip("\0"), cubin, log.strip("\0 \n"), resources, _identified(nvrtc))


def compiler(arch: Arch | None = None) -> Compiler:
    """Identify the NVRTC that this process compiles with.

    Args:
        arch: the target; NVRTC 12.9 compiles for sm_70 and sm_72. None for the NVRTC of the other targets.

    Raises:
        CompileError: `no-nvrtc`.
    """
    return _identified(_nvrtc() if arch is None else _bindings(arch.target))


def _identified(nvrtc: Any) -> Compiler:
    """Identify the library behind a set of bindings."""
    version = _version(nvrtc)
    if isinstance(nvrtc, Nvrtc12):
        return _file(version, nvrtc.path)
    pathfinder: Any = import_module("cuda.pathfinder")
    return _file(version, str(pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path))


def _file(version: tuple[int, int], path: str) -> Compiler:
    files = _files(path)
    try:
        before = stamp(files)
        return Compiler(version, path, content(files, keep=True), before)
    except OSError:
        return Compiler(version, path, "")


def _files(path: str) -> tuple[str, ...]:
    """List the files of an NVRTC: the library at `path`, and the libraries of builtins beside it."""
    folder = os.path.dirname(path)
    with contextlib.suppress(OSError):
        beside = [n for n in os.listdir(folder) if n.startswith(("libnvrtc-builtins", "nvrtc-builtins"))]
        return (path, *(os.path.join(folder, name) for name in sorted(beside)))
    return (path,)


def _bindings(arch: Arch) -> Any:
    """Choose the NVRTC that compiles for a target."""
    if arch.number >= FIRST_OF_13:
        return _nvrtc()
    # The bindings take whichever NVRTC they find loaded: theirs comes first.
    with contextlib.suppress(CompileError):
        _nvrtc()
    return nvrtc12(arch.name)


def _nvrtc() -> Any:
    """Import NVRTC's bindings and make sure that the library itself loads."""
    try:
        nvrtc: Any = import_module("cuda.bindings.nvrtc")
        _version(nvrtc)
    except (ImportError, RuntimeError, OSError) as error:  # pathfinder's "not found" is a RuntimeError
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CompileError(
            "no-nvrtc", f"NVRTC, the CUDA compiler, is not installed: {reason}", fix=INSTALL_NVRTC
        ) from None
    return nvrtc


def _version(nvrtc: Any) -> tuple[int, int]:
    result, major, minor = nvrtc.nvrtcVersion()
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"nvrtcVersion: {result}")
    return int(major), int(minor)


def _checked(nvrtc: Any, answer: tuple[Any, ...]) -> Any:
    """Return the result of an NVRTC function, which stands behind its status; raise an error where it failed."""
    if answer[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError("nvrtc", f"NVRTC failed: {answer[0].name}", fix="run `fireiron doctor`")
    return answer[1]


def _text(nvrtc: Any, program: Any, size: Any, read: Any) -> bytes:
    nbytes = int(_checked(nvrtc, size(program)))
    # The bindings fill the bytes in place, so they must not be one that Python shares: bytes of length 0 and 1 are.
    buffer = b" " * max(nbytes, 2)
    (result,) = read(program, buffer)
    _checked(nvrtc, (result, None))
    return buffer[:nbytes]


def _failure(nvrtc: Any, result: Any, log: str, source: str, file: str, arch: Arch) -> CompileError:
    log = log.strip("\0 \n")
    lines = source.splitlines()
    found = [
        (int(number), message)
        for where, number, message in re.findall(r"^(.*?)\((\d+)\): (?:catastrophic )?error: (.*)$", log, re.MULTILINE)
        if where == file
    ]
    if not found:
        return CompileError(
            "nvrtc",
            f"NVRTC refuses the source for {arch.name} ({result.name}):\n{log}",
            fix="read the compiler's message above",
        )
    shown = [
        f"{file}:{number}: {message}\n{number:>5} | {lines[number - 1] if number <= len(lines) else ''}"
        for number, message in found[:5]
    ]
    if len(found) > len(shown):
        shown.append(f"and {len(found) - len(shown)} more")
    plural = "" if len(found) == 1 else "s"
    return CompileError(
        "nvrtc",
        f"NVRTC finds {len(found)} error{plural} in the source for {arch.name}:\n" + "\n".join(shown),
        fix="correct these lines of the microkernel or atom that emitted them",
    )
