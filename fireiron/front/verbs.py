"""Verbs of a schedule: lower, print, check, estimate, simulate, compile, export, run, time, explain."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from fireiron.base.errors import CallError, CompileError, Finding, FireironError, UsageError
from fireiron.base.link import here
from fireiron.base.records import evolve
from fireiron.front.digest import digest
from fireiron.front.state import State
from fireiron.language.decompositions import Tile

if TYPE_CHECKING:
    from fireiron.algebra.arch import Arch
    from fireiron.atoms.table import Rows
    from fireiron.estimate.facts import Facts
    from fireiron.estimate.model import Estimate
    from fireiron.front.host import HostKernel
    from fireiron.front.simulation import Simulation
    from fireiron.jit.compile import CompileOptions
    from fireiron.jit.export import Export
    from fireiron.jit.kernel import CompiledKernel
    from fireiron.jit.timing import Timing
    from fireiron.kernel.ir.statements import Kernel
    from fireiron.kernel.lower.kernel import Assembled, Passed
    from fireiron.show.diff import Diff
    from fireiron.show.explain import Explanation
    from fireiron.show.studio import Studio
    from fireiron.simulate.watch import At


class Schedule(State):
    """Hold a schedule and its verbs; a finished schedule takes no more links."""

    @property
    def name(self) -> str:
        """Name the kernel by preset, tile and element types."""
        from fireiron.front.naming import kernel_name

        return kernel_name(self.program, self.links)

    def _closed(self, verb: str) -> None:
        if not self.residual.closed:
            raise UsageError(
                "unfinished",
                f"{verb} needs a finished schedule, and this one leaves {self.residual}",
                fix="close the chain by .done()",
                link=here(),
                path=self.where,
            )

    def lowered(self, arch: str | int | None = None) -> Kernel:
        """Lower the schedule to kernel IR; the kernel is kept for later calls.

        Args:
            arch: architecture whose atoms may be chosen; where None, the spec's, or any.

        Raises:
            FireironError: located at the link that cannot be lowered.
        """
        self._closed("lowered")
        try:
            return _lowered(self, _target(self, arch).number, self.name, _rows())
        except FireironError as error:
            # The message says where in the schedule; a hundred frames of lowering would only bury it.
            raise error.with_traceback(None) from None

    def cuda(self, arch: str | int | None = None) -> str:
        """Print the kernel as CUDA C++."""
        from fireiron.cuda.printer import source

        self._closed("cuda")
        return source(self.lowered(arch))

    def check(self, arch: str | int | None = None) -> tuple[Finding, ...]:
        """Check the schedule against an architecture's limits; of an unfinished schedule, the links so far are checked.

        The fix of a bank conflict names a pad or a swizzle that was tried and removes it, if there is one.

        Returns:
            Warnings and notes: bank conflicts, uncoalesced access, idle threads, low occupancy, partial tiles.

        Raises:
            CheckError: `shared-memory`, `too-many-threads`, `registers`, at the link that needs too much.
        """
        found = self.facts(arch).findings
        for finding in found:
            if finding.severity == "error":
                raise finding.error()
        from fireiron.front.conflicts import advised

        return advised(self, found, arch)

    def facts(self, arch: str | int | None = None) -> Facts:
        """Return threads, shared memory, registers, occupancy, conflicts and coalescing, finished or not."""
        from fireiron.estimate.facts import facts

        target = _target(self, arch, gpu=True)
        return facts(self, target, self._kernel(target.name))

    def estimate(self, arch: str | int | None = None, **sizes: int) -> Estimate:
        """Estimate the time by a model of bytes, instruction issue and waves, and name the bound (memory, issue, ...).

        Args:
            arch: the architecture.
            sizes: values of symbols.
        """
        from fireiron.estimate.model import estimate

        self._closed("estimate")
        target = _target(self, arch, gpu=True)
        return estimate(self.lowered(target.name), target, sizes)

    def simulate(
        self,
        *inputs: Any,
        out: Any = None,
        blocks: int | Sequence[int] | None = None,
        track: bool = True,
        launched: int | None = None,
        overflow: Literal["wrap", "error"] = "wrap",
        keep: Sequence[str] | str = (),
        at: At | str | None = None,
        break_at: At | str | None = None,
        **scalars: Any,
    ) -> Simulation:
        """Run the schedule on the NumPy simulator, which finds races, bad addresses and missing values.

        Printed, the result shows the comparison with NumPy in f64; `.comparison` has it as data.

        Args:
            inputs: NumPy arrays in the spec's order, then epilogue operands; random ones where none are given.
            out: array to write.
            blocks: number of blocks to run, or their numbers; None runs all.
            track: whether to look for races.
            launched: number of blocks that a persistent kernel is launched with; where None, two clusters, or one block
                per tile if `blocks` is given.
            overflow: what happens when a sum of integers exceeds 32 bits: `wrap`, as on every GPU, or `error`, with the
                place and the number. For a microkernel, `error` also calls its NumPy function in 64 bits.
            keep: names of tiles in shared memory and registers, as in the CUDA; the result's `.kept` holds copies of
                them at one moment, and for registers the thread that holds each element.
            at: the moment of `keep`: a word of a statement, or `At(...)` with a block, trips and a step; where None,
                the end of block 0.
            break_at: likewise, but the simulation ends at this moment; without `keep` all tiles are copied.
            scalars: numbers by name, and sizes by name where no inputs are given.

        Raises:
            SimulationError: a race or another fault, with the link that made the access.
            UsageError: `no-such-tile`, `no-such-moment`, `no-such-loop`, `two-moments`.

        Example:
            >>> import fireiron as fi
            >>> from fireiron.schedules import simt
            >>> small = simt.listing2(fi.matmul(128, 128, 16))
            >>> found = small.simulate(break_at=fi.At("fma", trips={"k": 1}), keep=["a_sh", "acc"])
            >>> found.kept["acc"].title, found.kept["acc"].threads[0, 6:10].tolist()
            ('acc: 128x128 f32 in RF', [0, 0, 1, 1])
        """
        from fireiron.front.simulation import simulate_schedule, watched

        self._closed("simulate")
        try:
            kernel = self.lowered()
            watch, chosen = watched(kernel, keep, at, break_at)
            return simulate_schedule(
                kernel, inputs, out, chosen if blocks is None else blocks, track, scalars, launched,
                schedule=self, overflow=overflow, watch=watch, shows=True,
            )  # fmt: skip
        except (CallError, UsageError) as error:
            raise error.located(here()) from None

    def compile(
        self,
        arch: str | int | None = None,
        *,
        lineinfo: bool = False,
        debug: bool = False,
        max_registers: int | None = None,
        allow_spills: bool = False,
        cache: bool = True,
    ) -> CompiledKernel:
        """Compile the schedule; no driver is needed.

        Args:
            arch: `"sm_80"`; the spec's, else the GPU's, else sm_90a where None.
            lineinfo: whether to keep source lines for profilers.
            debug: whether to bound each wait on an mbarrier, so that a hang becomes an assertion that names the barrier
                and its link. Such a kernel is slower, gives all roles the same number of registers, and is not cached.
            max_registers: most registers of a thread, 24 to 255, where the launch bounds allow more.
            allow_spills: whether spills, stack frames and serialised matrix products become `findings` of the kernel
                instead of errors. Such a kernel is not cached.
            cache: whether to use the disk cache; a kernel in the cache is not lowered again.

        Where a schedule of `best` spills or crashes the installed NVRTC, the next best schedule is compiled, and later
        calls of `best` return that one. The kernel's name tells which schedule was compiled.

        Raises:
            CheckError: as `check` does. CompileError: `nvrtc`, `no-nvrtc`, `unsupported-arch`, `register-cap`;
                `spills`, `stack`, `wgmma-serialised`, `wgmma-registers`, `setmaxnreg-ignored`, at the link whose tile
                takes the registers; `compiler-crash` of a schedule that `best` chose.
        """
        from fireiron.front.fallback import POORLY_BUILT, keep_substitute
        from fireiron.jit.compile import CompileOptions

        self._closed("compile")
        target = _target(self, arch, gpu=True)
        options = CompileOptions(lineinfo=lineinfo, debug=debug, max_registers=max_registers, allow_spills=allow_spills)
        try:
            return self._built(target, options, cache)
        except CompileError as error:
            if self._fallback is None or error.code not in POORLY_BUILT:
                raise
            found = self._fallback.compiled(self, error, target, lambda other: other._built(target, options, cache))
            if found is None:
                raise
        other, kernel = found
        if cache and options == CompileOptions():
            mine, its = (digest(each.program, each.links, each.name) for each in (self, other))
            keep_substitute(mine, target, its)
        return kernel

    def _built(self, target: Arch, options: CompileOptions, cache: bool) -> CompiledKernel:
        """Compile this schedule and no other one; see `compile`."""
        from fireiron.estimate.findings import errors
        from fireiron.jit.build import build

        def lower() -> Kernel:
            kernel = self._kernel(target.name)
            if kernel is None:
                self.check(target.name)  # refuses the chain of a Move inside another schedule
            for finding in () if kernel is None else errors(kernel, target):
                raise finding.error()
            if options.debug:
                # The kept kernel may come from an equal schedule, written elsewhere: waits name this one's links.
                from fireiron.kernel.lower.kernel import lower

                return lower(self.program, self.links, self.name, target.number)
            return self.lowered(target.name)

        def simulator(arrays: Mapping[str, Any], sizes: Mapping[str, int], numbers: Mapping[str, Any]) -> None:
            from fireiron.front.host import simulated

            simulated(self.lowered(target.name), arrays, sizes, numbers)

        return build(
            digest(self.program, self.links, self.name),
            lower,
            target,
            options,
            simulator=simulator,
            cache=cache,
            chosen=self._fallback is not None,
        )

    def export(self, folder: str, archs: Sequence[str] = ()) -> Export:
        """Write the kernel for programs without Python: CUDA, machine code, a C launcher, an example, and JSON.

        `fireiron.jit.export.load(folder)` loads the kernel, without a compiler.

        Args:
            folder: path of a folder, which is created if it does not exist.
            archs: architectures: `("sm_80", "sm_90a")`; where empty, the spec's, else the GPU's, else sm_90a.

        Raises:
            CompileError: as `compile` does. UsageError: `export-interface` where architectures launch differently,
                `export-folder`.
        """
        from fireiron.jit.export import write

        kernels = [self.compile(arch) for arch in archs or (None,)]
        facts = {"schedule": str(self), "digest": digest(self.program, self.links, self.name)}
        return write(folder, kernels, facts)

    def __call__(self, *inputs: Any, out: Any = None, stream: Any = None, **scalars: Any) -> Any:
        """Compile for the GPU at hand and run; without a GPU, run on NumPy arrays by the simulator."""
        self._closed("a call")
        try:
            return _callable(self)(*inputs, out=out, stream=stream, **scalars)
        except (CallError, UsageError) as error:
            raise error.located(here()) from None

    def time(self, *inputs: Any, out: Any = None, **scalars: Any) -> Timing:
        """Time the schedule on the GPU: medians with quantiles, L2 flushed; random inputs if none are given."""
        self._closed("time")
        return _compiled(self, _rows()).time(*inputs, out=out, flops=self.flops(**scalars), **scalars)

    def flops(self, **sizes: float) -> float:
        """Return the number of floating-point or integer operations of products, 0 for other specs."""
        from fireiron.algebra.expr import as_expr, evaluate
        from fireiron.language.as_steps import products_of

        known = {name: int(size) for name, size in sizes.items() if float(size).is_integer()}
        total = 0.0
        for extents in products_of(self.steps):
            part = 2.0
            for size in extents:
                try:
                    part *= int(evaluate(as_expr(size), known))
                except KeyError:
                    return 0.0
            total += part
        return total

    def explain(self, arch: str | int | None = None, passes: bool = False) -> Explanation:
        """Explain each link: what remains after it, the bytes that it moves and reuses, and its lines of CUDA.

        Args:
            arch: the architecture.
            passes: whether to list, for a finished schedule, the statements that each pass inserted or changed
                (barriers, waits), in the passes' order, promises that a pass breaks, and accesses that nothing orders.

        Example:
            >>> import fireiron as fi
            >>> from fireiron.schedules import simt
            >>> passes = simt.listing2(fi.matmul(64, 64, 16)).explain(passes=True).passes
            >>> next(p.lines[1].text for p in passes if p.name == "barriers")
            'barrier of the Block: a_sh is read before it is overwritten'
        """
        from fireiron.show.explain import explain

        kernel, source = self._kernel(arch), self.cuda(arch) if self.residual.closed else ""
        return explain(self, kernel, source, self._passed(arch) if passes and kernel is not None else ())

    def _passed(self, arch: str | int | None) -> tuple[Passed, ...]:
        """Lower again, and return the kernel after each pass."""
        from fireiron.kernel.lower.kernel import lower

        made: list[Passed] = []
        lower(self.program, self.links, self.name, _target(self, arch).number, told=made.append)
        return tuple(made)

    def studio(self, arch: str | int | None = None, *, block: int = 0, **sizes: int) -> Studio:
        """Make a page of HTML with each link and its CUDA, findings, pictures, and a slider over a block's steps.

        `.save("schedule.html")` writes the page, which needs no network. `fireiron studio` opens it in a browser.

        Args:
            arch: the architecture.
            block: number of the block whose steps are shown.
            sizes: values of symbols; missing symbols get typical values.

        Raises:
            UsageError: `no-such-block`.
        """
        from fireiron.front.studio import studio

        return studio(self, None if arch is None else _target(self, arch).name, sizes, block)

    def diff(self, other: Schedule) -> Diff:
        """Describe how another schedule differs: in stages, pads, tiles, threads, bytes, conflicts."""
        from fireiron.kernel.analysis.access import accesses
        from fireiron.show.diff import diff

        mine, others = self._kernel(), other._kernel()
        if mine is None or others is None:
            return diff(self, other)
        return diff(self, other, kernels=(mine, others), rows=(accesses(mine), accesses(others)))

    def _kernel(self, arch: str | int | None = None) -> Kernel | None:
        """Return the lowered kernel of a finished schedule, None for an unfinished one."""
        return self.lowered(arch) if self.residual.closed and self._around is None else None

    def tree(self, width: int = 80) -> str:
        """Print the decomposition tree as plain text."""
        from fireiron.show.tree import text

        return text(self, width, self._kernel())

    def __rich__(self) -> Any:
        from fireiron.show.tree import tree

        return tree(self, self._kernel())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from fireiron.show.tree import mimebundle

        return mimebundle(self, kernel=self._kernel())


def _target(chain: State, wanted: str | int | None, gpu: bool = False) -> Arch:
    """Choose an architecture: the wanted one, else the spec's, else the GPU's, else Hopper.

    Args:
        chain: a schedule.
        wanted: the caller's choice, or None.
        gpu: whether to look for the GPU of this machine, which starts the driver. A schedule is written without the
            driver, because a process that has started it cannot fork.
    """
    from fireiron.algebra.arch import arch, native

    if wanted is not None:
        try:
            return arch(wanted)
        except FireironError as error:
            raise error.located(here()) from None
    if chain.program.arch is not None:
        return arch(chain.program.arch)
    return native((_gpu() if gpu else 0) or 90)


def target(chain: State) -> Arch:
    """Choose the architecture to compile for: the spec's, else the GPU's, else Hopper."""
    return _target(chain, None, gpu=True)


@functools.cache
def _gpu() -> int:
    """Return the compute capability of this machine's GPU as a number (90), 0 without a GPU."""
    from fireiron.jit.driver import driver, probe

    return 0 if probe().problem else driver().compute_capability(0)


def _rows() -> Rows:
    """Return a key of the table of instructions: it changes when this process corrects a row."""
    from fireiron.atoms.table import rows

    return rows()


@functools.lru_cache(maxsize=256)
def _lowered(chain: Schedule, arch: int, name: str, table: Rows) -> Kernel:
    """Lower a chain once. Equal chains that different presets wrote have kernels of different names."""
    from fireiron.kernel.lower.kernel import finish

    tiles = ((place, link) for place, link in enumerate(chain.links) if isinstance(link, Tile) and link.level)
    place, grid = next(tiles, (0, None))
    if grid is None or not grid.dependent:
        return finish(_assembled(chain, arch, name, table))
    links = (*chain.links[:place], evolve(grid, dependent=False), *chain.links[place + 1 :])
    return finish(_assembled(attrs.evolve(chain, links=links), arch, name, table), early=True)


@functools.lru_cache(maxsize=64)
def _assembled(chain: Schedule, arch: int, name: str, table: Rows) -> Assembled:
    """Lower a chain up to the last passes, which alone tell whether the launch is dependent."""
    from fireiron.kernel.lower.kernel import assemble

    return assemble(chain.program, chain.links, name, arch)


def _callable(chain: Schedule) -> CompiledKernel | HostKernel:
    """Return a callable kernel: a compiled one, or one that is simulated where there is no GPU."""
    from fireiron.front.host import HostKernel, without_gpu

    return HostKernel(chain.lowered()) if without_gpu() else _compiled(chain, _rows())


@functools.lru_cache(maxsize=64)
def _compiled(chain: Schedule, table: Rows) -> CompiledKernel:
    return chain.compile()
