"""Programs as users write them, and the chain that decomposes them: links name dims and tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Self, cast

import attrs

from fireiron.base.contract import asked, shown
from fireiron.base.errors import DecompositionError, FireironError, SpecError
from fireiron.base.link import here
from fireiron.check import links as rules
from fireiron.check import programs as program_rules
from fireiron.front.chain import Chain, LoadRefinements, SplitRefinements, Strategy, TileRefinements
from fireiron.front.moves import MoveChain, conform
from fireiron.front.step_chain import StepChain, StepStrategy
from fireiron.front.verbs import Verbs
from fireiron.language import steps
from fireiron.language.contractions import Contraction, contraction
from fireiron.language.decompositions import (
    Decomposition,
    EachStep,
    InOrder,
    Load,
    Reduction,
    Results,
    Split,
    StepLinks,
    Tile,
)
from fireiron.language.levels import GL, RF, SH, Level, Memory
from fireiron.language.online import as_lowered
from fireiron.language.residual import Operand, Residual, move_of, named_reads, start
from fireiron.language.specs import task_of
from fireiron.language.tensor import Tensor
from fireiron.language.trace import traced


class ProgramChain(Verbs, Chain):
    """Decompose a program of steps: tiles and splits cut its dims, loads move its tensors."""

    def tile(self, **sizes: int) -> TiledProgram:
        """Cut dims into tiles.

        Args:
            sizes: extent of a tile along each named dim; the other dims stay whole.

        Shapes:
            (i, j)(L) -> (tile of i, j)(L)

        Raises:
            DecompositionError: `no-such-dimension`, `tile-extent`, `tile-too-large`, `tile-folded` for a dim that a
                step folds, `chain-closed`.

        Example:
            >>> from fireiron import Block, Matrix, program, softmax
            >>> row = program(x="m n")(lambda x: softmax(x, "n"))
            >>> print(row(Matrix(64, 1000, "f16")).tile(m=8).to(Block))
            Program(64, 1000)(GL, GL)(Kernel) .tile 8 to Block
        """
        self._check(program_rules.tile, self.computed, sizes)
        return self._as(TiledProgram, self._tile_link(tuple(sizes.items())))

    def split(
        self, dim: str | None = None, *, ways: int | None = None, multiple_of: int = 1, **size: int
    ) -> SplitProgram:
        """Cut dims into chunks: one loop visits them, or the units of a level take one each by `parallel`.

        Steps that need a finished fold over the dim run in a further loop behind the first. Several dims have one loop,
        in which the chunks of the last dim follow each other first: a convolution's `split(r=1, s=1, c=64)`.

        Args:
            dim: the dim's name, with `ways`.
            ways: the number of chunks.
            multiple_of: with ways, what a chunk's extent is a multiple of: elements of a vector.
            size: dims and the extents of their chunks instead: `split(j=128)`.

        Shapes:
            (i, j) -> (i, chunk of j)

        Raises:
            DecompositionError: `split-arguments`, `no-such-dimension`, `split-extent`, `split-together` where a step
                does not fold all of several dims, `chain-closed`.
        """
        self._check(rules.still_open, self.residual, "split")
        rule = program_rules.split
        name, extent, count = self._check(rule, self.computed, self.residual, dim, ways, size, multiple_of)
        further = tuple((other, chunk) for other, chunk in size.items() if other != name)
        return self._as(SplitProgram, Split(extent, ways=count, dim=name, further=further, link=here()))

    def load(
        self, operand: Tensor | str, memory: Memory, strategy: Strategy | None = None, dtype: object = None
    ) -> LoadedProgram:
        """Move a tensor to another memory by a chain of its own.

        Args:
            operand: an input, or its name; or the name of a step that threads compute below, whose result then lies
                in SH where it is read.
            memory: SH or RF.
            strategy: how, a function from a Move to a finished Move; vector() or conform() by default. A load to
                registers by vector() says which thread computes which point.
            dtype: element type there, the source's by default.

        Raises:
            DecompositionError: `unknown-operand`, `already-there`, `load-memory`, `load-output`, `load-level`,
                `load-step`, `unfinished-move`, `map-box` where a tile's part of the operand has no fixed size.
        """
        step = self._maker(operand)
        if step is not None and not any(out.memory == GL for out in step.outs):
            return self._as(LoadedProgram, self._placed_link(step, memory, strategy))
        self._check(program_rules.readable, self.computed, self.residual, operand)
        return self._as(LoadedProgram, self._load_link(operand, memory, strategy, dtype))

    def _maker(self, operand: Tensor | str) -> steps.Step | None:
        """Find the step that makes a tensor between steps, None for an input."""
        name = operand if isinstance(operand, str) else operand.name
        if any(t.name == name for t in self.computed.inputs):
            return None
        found = as_lowered(self.computed, self.links).steps
        return next((s for s in found if any(out.name == name for out in s.outs)), None)

    def _placed_link(self, step: steps.Step, memory: Memory, strategy: Strategy | None) -> Load:
        """Let a step's result lie in shared memory: what brings it there from the registers of its threads."""
        self._check(rules.still_open, self.residual, "load")
        self._check(program_rules.placed, self.residual, self.links, step, memory)
        (out,) = step.outs
        given = Operand(out.name, out.tensor, RF, out.dtype, tuple(d.name for d in out.dims))
        around = attrs.evolve(self.residual, operands=(*self.residual.operands, given))
        move = MoveChain(self.program, (), move_of(around, out.name, memory, out.dtype), (), self.where)
        return Load(out.name, memory, self._finished(strategy or conform(), move).links, link=here())

    def epilog(self, *, memory: Memory = RF, store: Strategy | None = None) -> ProgramChain:
        """Keep folds and results in registers, and store the outputs from there.

        Args:
            memory: RF.
            store: how each output is stored, conform() by default.

        Raises:
            DecompositionError: `epilog-memory`, `load-level`, `second-epilog`, `chain-closed`.
        """
        self._check(rules.still_open, self.residual, "epilog")
        self._check(program_rules.epilog, self.residual, self.links, memory)
        stores: list[tuple[str, tuple[Decomposition, ...]]] = []
        for out in self.computed.outputs:
            moved = move_of(self.residual, out.name, GL, out.dtype)
            src, dst = moved.operands
            moved = attrs.evolve(moved, operands=(attrs.evolve(src, memory=memory), dst))
            move = MoveChain(self.program, (), moved, (), f"{self.where} > store")
            stores.append((out.name, self._finished(store or conform(), move).links))
        return self._as(ProgramChain, Results(memory, tuple(stores), link=here()))

    def each(self, **chains: StepStrategy) -> ProgramChain:
        """Close the chain: steps that sum products go by chains of their own to atoms.

        A step that is not named is computed by the threads that hold what it reads. What an atom takes from registers,
        and another atom left there, must lie as both want it.

        Args:
            chains: for each step, by its name, a function from the step's MatMul at this place to its finished chain.

        Raises:
            FireironError: `each-step` for a step that is not there, `each-product`, `each-dims`, `unfinished-step`, and
                those of `done()`, located at the link that is wrong.

        Example:
            >>> import fireiron as fi
            >>> from fireiron import FR, Block, Warp
            >>> @fi.program(x="m k", w="k n")
            ... def product(x, w):
            ...     return fi.relu(fi.einsum("mk,kn->mn", x, w, name="s"))
            >>> x, w = fi.Matrix(64, 32, "f16"), fi.Matrix(32, 64, "f16")
            >>> s = product(x, w).tile(m=32, n=32).to(Block).tile(m=16, n=32).to(Warp).each(
            ...     s=lambda s: s.split(k=16).unroll().load("x", FR).load("w", FR).tile(16, 8).unroll().done())
            >>> "mma_m16n8k16" in s.cuda(arch="sm_80")
            True
        """
        self._check(rules.still_open, self.residual, "each")
        spec = as_lowered(self.computed, self.links)
        made: list[StepLinks] = []
        for name, strategy in chains.items():
            step = self._check(program_rules.step, spec, name)
            found = self._check(contraction, step, self.residual.extents)
            origin = self._step_residual(found, spec)
            path = f"{self.where} > {name}"
            start = StepChain(self.program, (), origin, (), path, named=found.named)
            # The strategy is a user's function: nothing but this check holds it to its type.
            result = cast(object, asked(strategy, start, said="chain of a step"))
            if not isinstance(result, StepChain) or not result.residual.closed:
                raise DecompositionError(
                    "unfinished-step",
                    f"the chain of step {name} leaves {result.residual if isinstance(result, Chain) else repr(result)}",
                    fix="end it by .done()",
                    link=here(),
                    path=self.where,
                )
            made.append(StepLinks(name, origin, result.links))
        closed = self._as(ProgramChain, EachStep(tuple(made), link=here()))
        closed.lowered()
        return closed

    def _step_residual(self, found: Contraction, spec: steps.Program) -> Residual:
        """Give the MatMul that a step is at this place."""
        memories: dict[str, Memory] = {"A": RF, "B": RF, "C": RF}
        types = {"A": found.left.dtype, "B": found.right.dtype, "C": found.step.outs[0].dtype}
        names = named_reads(spec, found.step)
        for side in (found.left, found.right):
            operand = None if side.ref is None else self.residual.operand(names[found.step.reads.index(side.ref)])
            placed = side.ref is not None and any(isinstance(x, Load) and x.role == side.ref.name for x in self.links)
            if operand is not None:
                memories[side.role], types[side.role] = operand.memory, operand.dtype
            elif placed:
                memories[side.role] = SH
        return found.residual(self.residual.level, self.residual.extents, memories, types)

    def done(self) -> ProgramChain:
        """Close the chain: threads compute the points that they own, step by step.

        Raises:
            FireironError: located at the link that is wrong: `ownership-unknown`, `affine-read`, `parallel-units`,
                `fold-lanes`, `fold-warps`, `symbolic-tiles`, `symbolic-buffer`, ...
        """
        closed = self._as(ProgramChain, self._done_link(None))
        closed.lowered()
        return closed

    @property
    def computed(self) -> steps.Program:
        """Give the program that the chain decomposes."""
        assert isinstance(self.program.spec, steps.Program)
        return self.program.spec


class TiledProgram(TileRefinements, ProgramChain):
    """A program whose last link is a tile."""

    def pipeline(self, stages: int) -> TiledProgram:
        """Load the inputs that go to SH below `stages - 1` tiles ahead, in as many ring slots.

        The tile is a loop: persistent, or a tile without a level. What does not move with the tiles is loaded once.

        Args:
            stages: slots, 2 or more.

        Raises:
            DecompositionError: `pipeline-stages`, `pipeline-loop`; `pipeline-empty` when the schedule is finished.

        Example:
            >>> from fireiron import RF, SH, Block, Matrix, Warp, cp_async, vector
            >>> from fireiron.schedules.rows import softmax
            >>> rows = softmax(Matrix(4096, 4096, "f16")).tile(m=1).to(Block).persistent().pipeline(2)
            >>> rows = rows.split("n", ways=8).parallel(Warp).load("x", SH, cp_async()).load("x", RF, vector())
            >>> print(rows.epilog(memory=RF).done().lowered().shared_nbytes)
            16576
        """
        self._check(rules.pipeline, stages, 0, 2)
        (*_, link) = self.links
        assert isinstance(link, Tile)
        self._check(program_rules.pipeline, link, stages)
        return self._refine(stages=stages, link=here())


class SplitProgram(SplitRefinements, ProgramChain):
    """A program whose last link is a split."""

    def online(self) -> Self:
        """Fold everything in one loop, also what needs the result of another fold over the dim.

        When the value of a fold moves, what later folds have summed is multiplied by a factor that is found on their
        expressions: of exp(x - m), exp(m - m'). What a sum is multiplied or divided by, and needs the finished fold,
        leaves the loop.

        Shapes:
            (i, j) -> (i, chunk of j)

        Raises:
            DecompositionError: `online-law` where an expression has no such factor; `online-parallel`.

        Source: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
        """
        (*_, link) = self.links
        assert isinstance(link, Split)
        self._check(program_rules.online, self.computed, link)
        return self._refine(online=True, link=here())

    def parallel(self, level: Level, reduce: Reduction | None = None) -> Self:
        """Give the chunks to units of a level at once; folds over the dim then combine the units' states.

        Args:
            level: Warpgroup, Warp or Thread inside the present level; or Block.
            reduce: in_order() by default: of blocks the last to arrive combines the states of all, and computes what
                needs the results. by_atomics() adds them up in the order of arrival. by_cluster() makes the blocks a
                cluster, and all of them have the results. In order and in a cluster, all runs give the same bits.

        Shapes:
            (i, chunk of j)(L) -> (i, chunk of j)(level)

        Raises:
            DecompositionError: `argument-kind`, `parallel-level`, `parallel-pipeline`, `parallel-reduce`,
                `parallel-cluster`, `parallel-order`; when the schedule is finished `grid-fold-read`, `parallel-loop`,
                `parallel-atomics`.
        """
        (*above, link) = self.links
        assert isinstance(link, Split)
        how = InOrder() if reduce is None else reduce
        self._check(self._shares, above, self._before, link, level, how)
        return self._refine(level=level, reduce=how, link=here())

    @property
    def _shares(self) -> Callable[..., None]:
        """Give the rules of chunks that units take at once."""
        return program_rules.parallel


class LoadedProgram(LoadRefinements, ProgramChain):
    """A program whose last link is a load."""


@attrs.frozen
class Function:
    """Hold a function under `@program`: called with tensors, it gives the chain of the program that it traces.

    Args:
        function: of arrays' expressions.
        dims: the dims of each array, by parameter.
    """

    function: Callable[..., Any]
    dims: Mapping[str, str]

    def __call__(self, *arrays: Any, out: object = None, arch: str | None = None, **others: Any) -> ProgramChain:
        """Trace the function, and start a schedule of its steps.

        Args:
            arrays: tensors, in the order of the function's parameters, and further arguments that are no arrays.
            out: the outputs' element type, or a tuple of them; the first array's by default.
            arch: the architecture (`"sm_80"`) whose rules links must obey at once.
            others: arguments by name; what is no array is baked into the program.

        Raises:
            SpecError: `program-arguments`, `program-rank`, `program-outputs`, `dim-extents`, `affine-subscript`,
                `same-name`, `bad-op`, `unknown-dtype`, and those of the functions that the program calls.
        """
        try:
            spec = self.traced(arrays, others, out)
            task, residual = task_of(spec, arch), start(spec)
        except FireironError as error:
            raise error.located(here()) from None
        return ProgramChain(task, (), residual)

    def on(self, **dims: str) -> Function:
        """Give arrays other dims: a function of rows then works on rows of any number of dims.

        Args:
            dims: by parameter, names of dims parted by spaces; parameters that are not named keep theirs.

        Raises:
            SpecError: `program-arguments` where the function has no such parameter.

        Example:
            >>> from fireiron import tensor
            >>> from fireiron.schedules.rows import softmax
            >>> print(softmax.on(x="b h n")(tensor(2, 8, 512, dtype="f16")))
            Program(2, 8, 512)(GL, GL)(Kernel)
              top[b, h]     = max over n of x[b, h, n]
              part[b, h, n] = exp(x[b, h, n] - top[b, h])
              total[b, h]   = add over n of part[b, h, n]
              inverse[b, h] = 1 / total[b, h]
              y[b, h, n]    = f16(part[b, h, n] * inverse[b, h])
        """
        return program(**{**self.dims, **dims})(self.function)

    def traced(self, arrays: tuple[Any, ...], others: Mapping[str, Any], out: object) -> steps.Program:
        """Trace the function for some arrays."""
        try:
            bound = inspect.signature(self.function).bind(*arrays, **others)
        except TypeError as error:
            raise SpecError(
                "program-arguments", f"{self.name}: {error}", fix=f"call {self.name}{self.parameters}"
            ) from None
        bound.apply_defaults()
        tensors: dict[str, Tensor] = {}
        rest: dict[str, Any] = {}
        for key, value in bound.arguments.items():
            if key not in self.dims:
                rest[key] = value
            elif isinstance(value, Tensor):
                tensors[key] = attrs.evolve(value, name=value.name or key)
            elif value is None:  # an optional array that this call leaves out
                rest[key] = None
            else:
                raise SpecError(
                    "program-arguments",
                    f"{self.name} takes the description of an array for {key}, not {shown(value)}",
                    fix='describe it: Matrix(rows, cols, "f16"), Vector(n, name="bias"), tensor(2, 3, 4)',
                )
        return traced(self.function, self.dims, tensors, rest, self.name, out)

    @property
    def name(self) -> str:
        """Give the function's name."""
        name = getattr(self.function, "__name__", "program")
        return name if name.isidentifier() else "program"

    @property
    def parameters(self) -> str:
        """Print the function's parameters, without their types."""
        signature = inspect.signature(self.function)
        plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        return str(inspect.Signature(plain))


def program(**dims: str) -> Callable[[Callable[..., Any]], Function]:
    """Make a program of a Python function: decorate it with the dims of each array.

    Args:
        dims: by parameter, the names of the array's dims, parted by spaces; other parameters are no arrays.

    Raises:
        SpecError: `program-arguments` where the function has no such parameter.

    Example:
        >>> import fireiron as fi
        >>> @fi.program(x="m n", gain="n")
        ... def rms_norm(x, gain, eps: float = 1e-6):
        ...     square = fi.mean(x * x, over="n")
        ...     return x * fi.rsqrt(square + eps) * gain
        >>> x, gain = fi.Matrix(4096, 768, "bf16"), fi.Vector(768, "bf16", name="gain")
        >>> print(rms_norm(x, gain).computed)
        rms_norm(x[4096, 768].bf16.GL, gain[768].bf16.GL) over m 4096, n 768
          mean_sum[m] = add over n of x[m, n] * x[m, n]
          y[m, n]     = bf16(x[m, n] * rsqrt(mean_sum[m] * 0.00130208 + 1e-06) * gain[n])
    """
    place = here()

    def decorate(function: Callable[..., Any]) -> Function:
        known = inspect.signature(function).parameters
        missing = [name for name in dims if name not in known]
        if missing:
            raise SpecError(
                "program-arguments",
                f"program({missing[0]}=...) names no parameter of {getattr(function, '__name__', 'the function')}",
                fix="parameters: " + ", ".join(known),
                link=place,
            )
        return Function(function, dict(dims))

    return decorate
