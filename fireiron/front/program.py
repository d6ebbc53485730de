"""Programs as users write them (`@program`), and the links of their chains."""
# pyright: reportPrivateUsage=false
# Functions of links are methods of chains, in a file of their own.

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from fireiron.base.contract import held, shown
from fireiron.base.errors import FireironError, SpecError
from fireiron.base.link import here
from fireiron.check import programs as program_rules
from fireiron.front import links
from fireiron.front.chain import FoldChain, ProgramChain, StepChain, StepStrategy, Strategy
from fireiron.front.moves import conform
from fireiron.front.roles import Role
from fireiron.front.state import link_of
from fireiron.language import steps
from fireiron.language.contractions import Contraction, contraction
from fireiron.language.decompositions import Decomposition, EachStep, Load, Results, Split, StepLinks
from fireiron.language.levels import GL, RF, SH, Memory
from fireiron.language.online import as_lowered
from fireiron.language.pointwise import Value
from fireiron.language.residual import Operand, Residual, move_of, named_reads, start
from fireiron.language.specs import task_of
from fireiron.language.tensor import Tensor
from fireiron.language.traced import traced


@link_of
def tile(chain: ProgramChain, **sizes: int) -> tuple[tuple[str, int], ...]:
    """Cut dims into tiles; dims that are not named stay whole.

    Raises:
        DecompositionError: `tile-arguments`, `tile-folded` for a dim that a step folds.
    """
    chain._check(program_rules.tile, chain.computed, sizes)
    return tuple(sizes.items())


@link_of
def split(
    chain: ProgramChain, dim: str | None = None, /, *, ways: int | None = None, multiple_of: int = 1, **size: int
) -> Split:
    """Cut dims into chunks, which one loop visits, or which units share.

    Raises:
        DecompositionError: `split-arguments`, `no-such-dimension`, `split-extent`, `split-together`.
    """
    rule = program_rules.split
    name, extent, count = chain._check(rule, chain.computed, chain.residual, dim, ways, size, multiple_of)
    further = tuple((other, chunk) for other, chunk in size.items() if other != name)
    return Split(extent, ways=count, dim=name, further=further, link=here())


def load(
    chain: ProgramChain, operand: Role | Tensor | str, memory: Memory, strategy: Strategy | None, dtype: object
) -> Load:
    """Move an input to another memory, or store a step's result to shared memory.

    Raises:
        DecompositionError: see `Chain.load`.
    """
    name = operand if isinstance(operand, str) else operand.name
    step = _maker(chain, name)
    if step is not None and not any(out.memory == GL for out in step.outs):
        return _placed(chain, step, memory, strategy)
    chain._check(program_rules.readable, chain.computed, chain.residual, name, memory)
    return links.load(chain, operand, memory, strategy, dtype)


def allocate(chain: ProgramChain, temporary: str, memory: Memory, strategy: Strategy | None) -> Load:
    """Give a step's result registers or shared memory of its own.

    Raises:
        DecompositionError: see `FoldChain.allocate`.
    """
    step = _maker(chain, temporary)
    chain._check(program_rules.temporary, chain.computed, chain.links, temporary, step, memory)
    assert step is not None
    if memory == RF:
        return Load(temporary, memory, (), link=here())
    return _placed(chain, step, memory, strategy)


def _maker(chain: ProgramChain, name: str) -> steps.Step | None:
    """Return the step that computes a tensor, None for an input."""
    if any(t.name == name for t in chain.computed.inputs):
        return None
    found = as_lowered(chain.computed, chain.links).steps
    return next((s for s in found if any(out.name == name for out in s.outs)), None)


def _placed(chain: ProgramChain, step: steps.Step, memory: Memory, strategy: Strategy | None) -> Load:
    """Make the link that stores a step's result from its threads' registers to shared memory."""
    chain._check(program_rules.placed, chain.residual, chain.links, step, memory)
    (out,) = step.outs
    given = Operand(out.name, out.tensor, RF, out.dtype, tuple(d.name for d in out.dims))
    around = attrs.evolve(chain.residual, operands=(*chain.residual.operands, given))
    moved = links.moved(chain, move_of(around, out.name, memory, out.dtype), strategy or conform())
    return Load(out.name, memory, moved, link=here())


@link_of
def epilog(
    chain: ProgramChain,
    *,
    memory: Memory = RF,
    store: Strategy | Mapping[str, Strategy] | None = None,
    early: str | Sequence[str] = (),
) -> Results:
    """Keep folds and results in registers, and store the outputs from registers.

    Raises:
        DecompositionError: `epilog-memory`, `epilog-store`, `load-level`, `second-epilog`, `epilog-early`.
    """
    chain._check(program_rules.epilog, chain.residual, chain.links, memory)
    outputs = tuple(out.name for out in chain.computed.outputs)
    by_name: Mapping[str, Strategy | None]
    by_name = dict.fromkeys(outputs, store) if store is None or callable(store) else store
    chain._check(program_rules.stored, outputs, tuple(by_name))
    stores: list[tuple[str, tuple[Decomposition, ...]]] = []
    for out in chain.computed.outputs:
        move = move_of(chain.residual, out.name, GL, out.dtype)
        src, dst = move.operands
        move = attrs.evolve(move, operands=(attrs.evolve(src, memory=memory), dst))
        stores.append((out.name, links.stored(chain, move, by_name.get(out.name))))
    ahead = (early,) if isinstance(early, str) else tuple(dict.fromkeys(early))
    chain._check(program_rules.read_early, chain.computed, ahead)
    return Results(memory, tuple(stores), ahead, link=here())


@link_of
def each(chain: ProgramChain, **chains: StepStrategy) -> EachStep:
    """Give steps that sum products chains of their own.

    Raises:
        FireironError: `each-step` for an unknown step, `each-product`, `each-dims`, `unfinished-step`.
    """
    spec = as_lowered(chain.computed, chain.links)
    made: list[StepLinks] = []
    for name, strategy in chains.items():
        step = chain._check(program_rules.step, spec, name)
        found = chain._check(contraction, step, chain.residual.extents)
        origin = _step_residual(chain, found, spec)
        part: StepChain = chain._nested(origin, name, FoldChain, found.named)
        said = f"the chain of step {name} leaves {{}}"
        ended = chain._ended(strategy, part, ("chain of a step", "unfinished-step"), said, "end it by .done()")
        made.append(StepLinks(name, origin, ended))
    return EachStep(tuple(made), link=here())


def _step_residual(chain: ProgramChain, found: Contraction, spec: steps.Program) -> Residual:
    """Return a step as a MatMul of the sizes that it has at this place of the chain."""
    memories: dict[str, Memory] = {"A": RF, "B": RF, "C": RF}
    types = {"A": found.left.dtype, "B": found.right.dtype, "C": found.step.outs[0].dtype}
    names = named_reads(spec, found.step)
    for side in (found.left, found.right):
        operand = None if side.ref is None else chain.residual.operand(names[found.step.reads.index(side.ref)])
        placed = side.ref is not None and any(isinstance(x, Load) and x.role == side.ref.name for x in chain.links)
        if operand is not None:
            memories[side.role], types[side.role] = operand.memory, operand.dtype
        elif placed:
            memories[side.role] = SH
    return found.residual(chain.residual.level, chain.residual.extents, memories, types)


@attrs.frozen
class Function:
    """Hold a function under `@program`: a call with tensors traces it, and returns the chain of its program.

    Args:
        function: the decorated function, of arrays' expressions.
        dims: by parameter, the dims of an array.
    """

    function: Callable[..., Any]
    dims: Mapping[str, str]

    def __call__(self, *arrays: Any, out: object = None, arch: str | None = None, **others: Any) -> ProgramChain:
        """Trace the function, and start a schedule of its steps.

        Args:
            arrays: tensors and other arguments, in the order of the function's parameters.
            out: the outputs' element type, the first array's by default; or a tensor that describes an output with its
                strides; or `inplace("x")`, which writes over the input x. A tuple for several outputs.
            arch: the architecture (`"sm_80"`) whose rules links must obey at once.
            others: arguments by name. Values that are no arrays become constants of the program.

        Raises:
            SpecError: `program-arguments`, `argument-kind`, `program-rank`, `program-outputs`, `inplace-input`,
                `dim-extents`, `affine-subscript`, `same-name`, `bad-op`, `unknown-dtype`, and those of the functions
                that the program calls.
        """
        try:
            spec = self.traced(arrays, others, out)
            task, residual = task_of(spec, arch), start(spec)
        except FireironError as error:
            raise error.located(here()) from None
        return FoldChain(task, (), residual)

    def on(self, **dims: str) -> Function:
        """Replace the dims of arrays: a function written for x[m, n] then works on arrays of more dims.

        Args:
            dims: by parameter, names of dims with spaces between them; other parameters keep their dims.

        Raises:
            SpecError: `program-arguments` where the function has no such parameter.

        Example:
            >>> from fireiron import tensor
            >>> from fireiron.schedules.rows import softmax
            >>> print(softmax.on(x="b h n")(tensor(2, 8, 512, dtype="f32")))
            Program(2, 8, 512)(GL, GL)(Kernel)
              top[b, h]     = max over n of x[b, h, n]
              part[b, h, n] = exp(x[b, h, n] - top[b, h])
              total[b, h]   = add over n of part[b, h, n]
              inverse[b, h] = 1 / total[b, h]
              y[b, h, n]    = part[b, h, n] * inverse[b, h]
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
        options = {k: x for k, x in bound.arguments.items() if k not in self.dims and not isinstance(x, Value)}
        bound.arguments |= held(self.function, options, self.name)
        bound.apply_defaults()
        optional = {p.name for p in bound.signature.parameters.values() if p.default is None}
        tensors: dict[str, Tensor] = {}
        rest: dict[str, Any] = {}
        dims, arguments = dict(self.dims), dict(bound.arguments)
        for key, value in arguments.pop(self.further, {}).items():
            arguments[key] = value
            if isinstance(value, Tensor):  # read by subscripts alone: its dims have names that nothing else has
                dims[key] = " ".join(f"{key}_{n}" for n in range(len(value.shape)))
        for key, value in arguments.items():
            if key not in dims:
                rest[key] = value
            elif isinstance(value, Tensor):
                tensors[key] = attrs.evolve(value, name=value.name or key)
            elif value is None and key in optional:  # this call leaves it out
                rest[key] = None
            else:
                raise SpecError(
                    "program-arguments",
                    f"{self.name} takes the description of an array for {key}, not {shown(value)}",
                    fix='describe it: Matrix(rows, cols, "f16"), Vector(n, name="bias"), tensor(2, 3, 4)',
                )
        return traced(self.function, dims, tensors, rest, self.name, out)

    @property
    def further(self) -> str:
        """Name the parameter (`**arrays`) for further arrays, whose dims are not declared; empty without one."""
        known = inspect.signature(self.function).parameters.values()
        return next((p.name for p in known if p.kind is p.VAR_KEYWORD), "")

    @property
    def name(self) -> str:
        """Return the function's name."""
        name = getattr(self.function, "__name__", "program")
        return name if name.isidentifier() else "program"

    @property
    def parameters(self) -> str:
        """Print the function's parameters, without their types."""
        signature = inspect.signature(self.function)
        plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        return str(inspect.Signature(plain))


def program(**dims: str) -> Callable[[Callable[..., Any]], Function]:
    """Decorate a Python function with the dims of its arrays, to make it a program.

    Args:
        dims: by parameter, the names of the array's dims with spaces between them; parameters that are not named take
            no arrays. Arrays that a call gives to `**arrays` need no dims: the function reads them by subscripts.

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
