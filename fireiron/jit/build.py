"""Build a callable kernel from a schedule: from the cache, or else by lowering and NVRTC."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import TYPE_CHECKING

import attrs

from fireiron.algebra.arch import FIRST_UNSTEADY, Arch
from fireiron.base.errors import CompileError, Finding
from fireiron.jit import folder
from fireiron.jit.cache import Entry, cache_key, is_edited, load, store
from fireiron.jit.compile import Binary, CompileOptions, compile_source
from fireiron.jit.diagnose import complaints, placed, raised
from fireiron.jit.interface import Interface
from fireiron.jit.kernel import CompiledKernel, Simulator

if TYPE_CHECKING:
    from fireiron.kernel.ir.statements import Kernel


_searches: ContextVar[bool] = ContextVar("searches", default=False)


@contextlib.contextmanager
def compiling_candidates() -> Generator[None]:
    """Compile the kernels that are built in this context in another process: a crash of NVRTC costs one candidate."""
    token = _searches.set(True)
    try:
        yield
    finally:
        _searches.reset(token)


def build(
    digest: str,
    lower: Callable[[], Kernel],
    arch: Arch,
    options: CompileOptions | None = None,
    *,
    simulator: Simulator | None = None,
    cache: bool = True,
    chosen: bool = False,
    text: Callable[[Kernel], str] | None = None,
) -> CompiledKernel:
    """Give the kernel of a schedule.

    Args:
        digest: of the schedule's structure: two schedules of one digest must lower to one kernel.
        lower: gives the kernel; called only where the cache has no entry.
        arch: the target.
        options: how to compile.
        simulator: runs the kernel on NumPy arrays where there is no GPU.
        cache: whether the disk cache is read and written.
        chosen: whether a search chose the schedule, which is then compiled in another process for architectures where
            NVRTC may crash.
        text: a function that gives a kernel's CUDA C++; None for the printer.

    Raises:
        CompileError: `nvrtc`, `no-nvrtc`, `unsupported-arch`, `no-entry`; `wgmma-serialised`, `wgmma-registers`,
            `setmaxnreg-ignored`, `spills` and `stack` at the link whose tile takes the registers.
    """
    options, arch = options or CompileOptions(), arch.target
    # Findings, and the waits of a source for debugging, name links, which no cache keeps.
    cache = cache and not options.allow_spills and not options.debug
    found: tuple[Finding, ...] = ()
    key = cache_key(digest, arch.name, options) if cache else ""
    entry = load(key) if cache else None
    if entry is None:
        compiling = _apart() if _searches.get() or (chosen and arch.number >= FIRST_UNSTEADY) else compile_source
        kernel = lower()
        prints = _prints(kernel)
        used = _capped(attrs.evolve(options, allow_spills=True) if prints else options, kernel, arch)

        def compiled(kernel: Kernel) -> Binary:
            from fireiron.cuda.printer import source as printed

            source = printed(kernel, bounded=options.debug) if text is None else text(kernel)
            path = _source_file(key, kernel.name, source) if cache and options.lineinfo else None
            return compiling(source, kernel.name, arch, used, path=path)

        try:
            binary = _roomy(kernel, compiled(kernel), compiled, used, arch)
        except CompileError as error:
            raise raised(error, kernel, arch, options.max_registers) from None
        if not options.debug and not prints:
            said = complaints(binary.log, binary.resources, arch)
            found = tuple(placed(f, kernel, arch, options.max_registers) for f in said)
        if found and not options.allow_spills:
            raise found[0].error(CompileError)
        entry = Entry(binary, Interface.of(kernel))
        # An edit to the library while it compiled would put an older library's kernel under the newer one's name.
        if cache and not is_edited():
            store(key, entry)
    findings = tuple(attrs.evolve(f, severity="warning") for f in found)
    return CompiledKernel(entry.binary, entry.interface, simulator=simulator, findings=findings)


def from_disk(digest: str, arch: Arch, *, simulator: Simulator | None = None) -> CompiledKernel | None:
    """Return the kernel of a schedule that the disk cache holds, None where it holds none; see `build`."""
    entry = load(cache_key(digest, arch.target.name, CompileOptions()))
    return None if entry is None else CompiledKernel(entry.binary, entry.interface, simulator=simulator)


def _roomy(
    kernel: Kernel, binary: Binary, compiled: Callable[[Kernel], Binary], options: CompileOptions, arch: Arch
) -> Binary:
    """Compile a kernel that spills again, for fewer blocks per SM, down to the number that its schedule demands.

    Without a number, ptxas may spill a few bytes though registers are left, so that more blocks fit an SM.
    """
    from fireiron.estimate.registers import register_cap

    if not binary.resources.spills or options.max_registers is not None:
        return binary
    least, held = max(1, kernel.minimum_blocks), kernel.wanted_blocks or (0 if kernel.minimum_blocks else 2)
    caps = {register_cap(arch, kernel.threads, n): n for n in range(least, held)}  # of equal caps the most blocks
    other = binary
    for n in sorted(caps.values(), reverse=True):
        other = compiled(attrs.evolve(kernel, minimum_blocks=n, wanted_blocks=0))
        if not other.resources.spills:
            return other
    return other if kernel.wanted_blocks else binary


def _apart() -> Callable[..., Binary]:
    """Start the process that compiles, and return the function that compiles there."""
    from fireiron.jit.apart import begin, compile_apart

    begin()
    return compile_apart


def _prints(kernel: Kernel) -> bool:
    """Say whether a kernel prints values: a call of printf has a stack, and serialises asynchronous products."""
    from fireiron.algebra.scalar import prints
    from fireiron.kernel.ir.statements import Compute, walk

    return any(prints(s.expr) for s in walk(kernel.body) if isinstance(s, Compute))


def _capped(options: CompileOptions, kernel: Kernel, arch: Arch) -> CompileOptions:
    """Drop a cap of registers that is no lower than that of the launch bounds.

    NVRTC takes a cap in place of the launch bounds, and a block could then need more registers than an SM has.
    """
    from fireiron.estimate.registers import register_cap

    most = options.max_registers
    blocks = max(kernel.minimum_blocks, kernel.wanted_blocks)
    if most is None or most < register_cap(arch, kernel.threads, blocks):
        return options
    return attrs.evolve(options, max_registers=None)


def _source_file(key: str, name: str, source: str) -> str | None:
    """Write the source to the file that line information names, for profilers; return its path."""
    place = folder.cache_path()
    if place is None:
        return None
    path = place / folder.SOURCES / f"{name}-{key[:12]}.cu"
    try:
        folder.make_private(place)
        folder.write_file(path, source.encode())
    except OSError:
        return None  # profilers then show machine code alone
    return str(path)
