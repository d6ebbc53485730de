"""Lowering: a finished chain becomes a kernel, by one walk over its links and passes over the statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

import attrs

from fireiron.algebra.arch import FIRST_UNSTEADY
from fireiron.algebra.dtypes import DType
from fireiron.algebra.expr import Expr, Symbol, as_expr, free, minimum
from fireiron.algebra.scalar import parameters
from fireiron.base.errors import SpecError
from fireiron.base.records import evolve
from fireiron.base.text import count
from fireiron.kernel.analysis.conversions import check_conversions
from fireiron.kernel.analysis.in_place import check_in_place
from fireiron.kernel.ir.names import Names
from fireiron.kernel.ir.statements import (
    Barrier,
    Buffer,
    Call,
    Compute,
    Cursor,
    Fetch,
    FindGroup,
    Kernel,
    Micro,
    Number,
    Parameter,
    Pointer,
    Prefetch,
    Size,
    Statement,
    TensorMap,
    Workspace,
    walk,
)
from fireiron.kernel.lower.assemble import place_barriers
from fireiron.kernel.lower.context import Context, State
from fireiron.kernel.lower.elements import elements
from fireiron.kernel.lower.program_start import start_program
from fireiron.kernel.lower.roles import handshake
from fireiron.kernel.lower.storage import tensor_window
from fireiron.kernel.lower.tree import tree
from fireiron.kernel.lower.walk import lower_links
from fireiron.kernel.lower.window import Axis, Storage, Window
from fireiron.kernel.passes import pairs
from fireiron.kernel.passes.allocate import allocate, rebind
from fireiron.kernel.passes.copies import await_copies
from fireiron.kernel.passes.dependence import dependent
from fireiron.kernel.passes.draws import SLOTS as DRAWN_SLOTS
from fireiron.kernel.passes.draws import Handed, share_draws
from fireiron.kernel.passes.exchanges import tell_peers
from fireiron.kernel.passes.handed import raise_flags
from fireiron.kernel.passes.masks import without_masks
from fireiron.kernel.passes.packing import in_bytes
from fireiron.kernel.passes.pairs import with_pairs
from fireiron.kernel.passes.pipeline import run_ahead
from fireiron.kernel.passes.prefetch import Launch, first_lines
from fireiron.kernel.passes.products import await_products
from fireiron.kernel.passes.proxies import order_products
from fireiron.kernel.passes.rings import Once, hand_over
from fireiron.kernel.passes.roles import Crews, fills, part
from fireiron.kernel.passes.skew import skewed
from fireiron.kernel.passes.stores import await_stores
from fireiron.kernel.passes.subscripts import fetched
from fireiron.kernel.passes.synchronise import synchronise
from fireiron.kernel.passes.turns import take_turns
from fireiron.kernel.passes.two_trips import without_two_trips
from fireiron.language.decompositions import Decomposition, Epilog, Prolog, every
from fireiron.language.levels import SH, Warp
from fireiron.language.residual import start
from fireiron.language.specs import Spec, Task, tensors_of
from fireiron.language.steps import Program
from fireiron.language.tensor import Tensor

RESERVED = (
    "thread",
    "block",
    "shared",
    "int",
    "float",
    "double",
    "half",
    "if",
    "for",
    "while",
    "return",
    "char",
    "short",
    "long",
    "register",
)


@attrs.frozen
class Passed:
    """Hold the input and the result of one pass over a kernel's statements.

    Args:
        name: name of the pass.
        before, after: the statements before and after the pass.
        context: the kernel's facts from lowering: pipelines, rings, workspaces.
        notes: decisions of the pass that no statement shows. Example: "a_sh: bytes 0 to 8191 of shared memory".
    """

    name: str
    before: tuple[Statement, ...] = attrs.field(repr=False)
    after: tuple[Statement, ...] = attrs.field(repr=False)
    context: Context = attrs.field(repr=False)
    notes: tuple[str, ...] = ()


@attrs.frozen(eq=False)
class Assembled:
    """Hold a lowered chain before the last passes.

    Args:
        name: name of the kernel's entry point.
        spec: what the kernel computes.
        context: the kernel's facts from lowering.
        body: the statements.
        parameters: the parameters, without tensor maps.
        buffers: the tensors in shared memory and registers.
        barriers: the mbarriers.
        shared: bytes of shared memory of a block.
    """

    name: str
    spec: Spec
    context: Context
    body: tuple[Statement, ...]
    parameters: tuple[Parameter, ...]
    buffers: tuple[Buffer, ...]
    barriers: tuple[Barrier, ...]
    shared: int


def lower(
    program: Task,
    links: Sequence[Decomposition],
    name: str,
    arch: int = 90,
    numbers: Sequence[Number] = (),
    trust_no_sync: bool = False,
    told: Callable[[Passed], None] | None = None,
) -> Kernel:
    """Lower a finished chain.

    Args:
        program: the program to compute.
        links: the links of the chain.
        name: name of the kernel's entry point.
        arch: architecture number; atoms of later ones do not match.
        numbers: defaults of the scalar parameters that the program names.
        trust_no_sync: whether `no_sync` is accepted without a proof (to show the errors that the simulator then finds).
        told: a function that is called with a `Passed` after each pass.

    Raises:
        FireironError: located at the offending link.
    """
    return finish(assemble(program, links, name, arch, numbers, trust_no_sync, told), told=told)


def assemble(
    program: Task,
    links: Sequence[Decomposition],
    name: str,
    arch: int = 90,
    numbers: Sequence[Number] = (),
    trust_no_sync: bool = False,
    told: Callable[[Passed], None] | None = None,
) -> Assembled:
    """Lower a finished chain up to the pass from which on kernels with and without a dependent launch differ.

    Args and errors: as `lower` has.
    """
    spec = program.spec
    context = Context(arch, spec)
    context.names.update(RESERVED, _named(spec, links))
    residual = start(spec)
    state = State(residual, {}, path=f"{residual.short} @ Kernel")
    state = start_program(spec, state, context) if isinstance(spec, Program) else _with_windows(spec, state, context)
    body = lower_links(tree(links), state, context)

    def passed(name: str, after: tuple[Statement, ...], notes: Iterable[str] = ()) -> tuple[Statement, ...]:
        if told is not None:
            told(Passed(name, body, after, context, tuple(filter(None, notes))))
        return after

    taken = frozenset(context.names)
    tensors = {s.name: s for s in context.storages.values() if s.tensor is not None}
    body = passed("pipelines", run_ahead(body, context.pipes))
    body = passed("masks", without_masks(body, context.chunks, context.expanded, taken))
    body = passed("skew", skewed(body, context.chunks, {r.cursor: r.last for r in context.rings}, taken))
    body = passed("roles", _roles(body, context, taken) if context.rings else (*context.lets, *body))
    handed = _handed(context) if context.draws else None
    body = passed("draws", share_draws(body, handed, frozenset(context.names)) if context.draws else body)
    # Only programs read arrays at subscripts.
    body = passed("subscripts", fetched(body, tensors, taken) if state.progress is not None else body)
    body = passed("exchanges", tell_peers(body, context.exchanges))
    body = passed("flags", raise_flags(body, context.handed))
    body = passed("turns", take_turns(body, context.turns))
    rings = [handshake(r, context) for r in context.rings]
    once = [Once(s.name, barrier, s.link) for s, barrier, cursor in context.once.values() if cursor is None]
    body = passed("rings", hand_over(body, rings, once, context.barriers, context.cluster))
    buffers, shared = allocate(tuple(s for s in context.storages.values() if s.tensor is None), body)
    placed, barriers, shared = place_barriers(body, context, shared)
    buffers = {**buffers, **{b.name: b for b in context.temporaries}}
    parameters = _parameters(spec, context, body, numbers)
    known = {**buffers, **{p.buffer.name: p.buffer for p in parameters if isinstance(p, Pointer | Workspace)}}
    body = passed("allocation", rebind(placed, known), map(_placed, (*buffers.values(), *barriers)))
    # Without asynchronous atoms there are no waits.
    flying = any([isinstance(s, Call) and s.atom.completion for s in walk(body)])
    body = passed("copies", await_copies(body) if flying else body)
    body = passed("products", await_products(body) if flying else body)
    body = passed("stores", await_stores(body, context.threads or 1, buffers.values()) if flying else body)
    names = [w.buffer.name for w in context.workspaces]
    body = passed("barriers", synchronise(body, context.storages, context.definitions, trust_no_sync, names))
    body = passed("proxies", order_products(body) if flying else body)
    return Assembled(name, spec, context, body, parameters, tuple(buffers.values()), barriers, shared)


def finish(made: Assembled, early: bool | None = None, told: Callable[[Passed], None] | None = None) -> Kernel:
    """Apply the last passes.

    Args:
        made: the lowered chain.
        early: whether the launch is dependent; as the chain says where None.
        told: a function that is called with a `Passed` after each pass.
    """
    context, body = made.context, made.body
    early = context.dependent if early is None else early

    def passed(name: str, after: tuple[Statement, ...], notes: Iterable[str] = ()) -> tuple[Statement, ...]:
        if told is not None:
            told(Passed(name, body, after, context, tuple(filter(None, notes))))
        return after

    body = passed("dependence", dependent(body) if early else body)
    body = passed("pairs", with_pairs(body, context.arch) if context.arch >= pairs.FIRST_ARCH else body)
    body = passed("two trips", without_two_trips(body) if context.arch >= FIRST_UNSTEADY else body)
    maps = {s.map.name: s.map for s in walk(body) if isinstance(s, Call) and s.map is not None}
    body = passed("tensor maps", fetch_maps(body, maps.values()))
    tensors_first = sum(isinstance(p, Pointer) for p in made.parameters)
    check_conversions(body, context.arch)
    kernel = Kernel(
        made.name,
        (*made.parameters[:tensors_first], *maps.values(), *made.parameters[tensors_first:]),
        context.grid,
        (context.threads or 1) + context.loaders,
        made.shared,
        made.buffers,
        body,
        tuple(context.preconditions),
        # Roles redistribute the registers of the launch; ptxas knows their number only if blocks per SM are given.
        max(context.resident, 1 if any(context.registers) else 0),
        context.cluster,
        context.persistent,
        made.barriers,
        early,
        elements(context.storages.values(), context.threads or 1),
        context.wanted,
    )
    if made.spec.inplace:
        check_in_place(kernel, {name for _, name in made.spec.inplace})
    whole = in_bytes(kernel)
    packed = (
        b for b in (*kernel.buffers, *(p.buffer for p in kernel.parameters if isinstance(p, Pointer))) if b.dtype.packed
    )
    passed("packing", whole.body, tuple(f"{b.name}: {b.dtype.pack} elements of {b.dtype} a byte" for b in packed))
    return whole


def fetch_maps(body: tuple[Statement, ...], maps: Collection[TensorMap]) -> tuple[Statement, ...]:
    """Prefetch tensor maps before all other statements."""
    return (Prefetch(tuple(maps)), *body) if maps else body


def _roles(body: tuple[Statement, ...], context: Context, taken: frozenset[str]) -> tuple[Statement, ...]:
    """Split the body into roles, and prefetch the first lines that the role `load` reads."""
    assert context.threads is not None
    cursors = tuple(ring.cursor for ring in context.rings)
    lasts = tuple(ring.last for ring in context.rings if ring.last is not None)
    alone = all(ring.full.count == 1 for ring in context.rings)
    crews = Crews(context.loaders, alone, context.threads, context.registers, cursors, tuple(context.prologue), lasts)
    tensors = {s.name: s.tensor for s in context.storages.values() if s.tensor is not None}
    launch = Launch(context.arch, context.grid, context.cluster, context.loaders, context.threads, tensors)
    lead, split = fills((*context.lets, *body)), context.rings[0].splits[0]
    return (*first_lines(split, lead, launch, Names(taken, body)), *part(context.lets, body, crews))


def _handed(context: Context) -> Handed | None:
    """Make the ring through which the role that draws work items passes them to the other; None without roles."""
    if not context.rings:
        return None
    assert context.threads is not None and Warp.size is not None
    alone = all(ring.full.count == 1 for ring in context.rings)
    readers = (context.threads + (0 if alone else context.loaders)) // Warp.size
    full, empty = (
        Barrier(context.name("item_full"), DRAWN_SLOTS, 1),
        Barrier(context.name("item_empty"), DRAWN_SLOTS, readers),
    )
    context.barriers += [full, empty]
    return Handed(Cursor(context.name("item_ring"), DRAWN_SLOTS), full, empty, alone)


def _placed(placed: Buffer | Barrier) -> str:
    """Describe the place of a buffer or an mbarrier in shared memory; "" for other memories."""
    if isinstance(placed, Barrier):
        return f"{placed.name}: {count(placed.slots, 'mbarrier')} from byte {placed.offset} on"
    if placed.memory != SH:
        return ""
    return f"{placed.name}: bytes {placed.offset} to {placed.offset + placed.nbytes - 1} of shared memory"


def _with_windows(spec: Spec, state: State, context: Context) -> State:
    """Make a window of the whole tensor for each operand.

    Raises:
        SpecError: `same-name`.
    """
    residual = state.residual
    windows: dict[str, Window] = {}
    tensors: set[str] = set()
    if residual.kind in ("MatMul", "Layers"):
        for tensor in spec.inputs:  # parameters come in the caller's order
            tensor_window(tensor, state, context)
    for operand in residual.operands:
        if operand.tensor.name in tensors:
            raise SpecError(
                "same-name", f"two operands are named {operand.tensor.name}", fix="name each Matrix differently"
            )
        tensors.add(operand.tensor.name)
        whole = tensor_window(operand.tensor, state, context)
        axes = tuple(
            Axis(dim, extent, as_expr(0)) for dim, extent in zip(operand.dims, operand.tensor.shape, strict=True)
        )
        windows[operand.role] = Window(whole.storage, axes)
    return evolve(state, windows=windows)


def _named(spec: Spec, links: Sequence[Decomposition]) -> set[str]:
    """List the author's names of tensors, sizes and scalars, which lowering must not use for its own variables."""
    values = [
        v
        for x in every(links)
        if isinstance(x, Epilog | Prolog)
        for v in (x.values if isinstance(x, Epilog) else (x.value,))
    ]
    tensors = [*tensors_of(spec), *(t for value in values for t in value.tensors)]
    tensors += [t for x in every(links) if isinstance(x, Epilog) for t in x.tensors]
    tensors = [t for t in tensors if not t.memory.registers]
    sizes = (leaf for t in tensors for e in (*t.shape, *t.strides) for leaf in free(as_expr(e)))
    scalars = (p for value in values for p in parameters(value.tree))
    return {*(t.name for t in tensors), *(leaf.name for leaf in sizes), *(p.name for p in scalars)}


def _parameters(
    spec: Spec, context: Context, body: tuple[Statement, ...], numbers: Sequence[Number]
) -> tuple[Parameter, ...]:
    """List the kernel's parameters: tensors in the spec's order, then epilog operands, sizes, numbers, workspaces."""
    read, written, align, below = _accesses(body)
    # Elements that no point names keep their values.
    read |= {step.into for step in spec.steps if step.into} if isinstance(spec, Program) else set()
    given = {t.name: t for t in spec.given}
    pointers: list[Pointer] = []
    symbols: dict[Symbol, None] = {}
    for storage in (s for s in context.storages.values() if s.tensor is not None):
        tensor = storage.tensor
        assert tensor is not None
        pointers.append(
            evolve(
                _pointer(
                    given.get(tensor.name, tensor),
                    storage,
                    storage.name in read,
                    storage.name in written,
                    align.get(storage.name, 1),
                ),
                shares=_shares(spec, tensor),
                below=below.get(tensor.name),
                ragged=_ragged(spec, tensor) if storage.name in written else None,
            )
        )
        for e in (*tensor.shape, *tensor.strides):
            for leaf in free(as_expr(e)):
                if isinstance(leaf, Symbol):
                    symbols[leaf] = None
    defaults = {n.name: n for n in numbers}
    named = tuple(
        defaults.get(name, Number(name, dtype)) for name, dtype in context.numbers.items() if isinstance(dtype, DType)
    )
    names = [*(p.buffer.name for p in pointers), *(s.name for s in symbols), *(n.name for n in named)]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        kinds = {leaf for leaf in symbols if leaf.name == twice}
        what = "two sizes of other multiples or ranges" if len(kinds) > 1 else "two of its tensors, sizes and scalars"
        raise SpecError(
            "same-name", f"{twice} is the name of {what}", fix="give each a name of its own; make a symbol once"
        )
    return (*pointers, *(Size(s) for s in symbols), *named, *context.workspaces)


def _shares(spec: Spec, tensor: Tensor) -> Expr | None:
    """Return the number of rows of all groups together, where the tensor holds the groups' ends; else None."""
    if spec.ragged is None or spec.groups is None or tensor.name != spec.groups.name:
        return None
    rows = start(spec).extents[spec.ragged]
    assert rows is not None
    return as_expr(rows)


def _ragged(spec: Spec, tensor: Tensor) -> int | None:
    """Return the dimension of an output's array that is cut into groups (C's rows); else None."""
    if spec.ragged is None:
        return None
    return tensor.storage.index(len(tensor.shape) - (2 if spec.ragged == "M" else 1))


def _pointer(tensor: Tensor, storage: Storage, read: bool, written: bool, align: int) -> Pointer:
    role: Literal["input", "output", "update"] = "input" if not written else ("update" if read else "output")
    buffer = Buffer(
        storage.name,
        tensor.memory,
        tensor.dtype,
        storage.size,
        unit=storage.unit,
        align=align,
        written=written,
        read=read,
    )
    shape = tuple(as_expr(tensor.shape[d]) for d in tensor.storage)
    strides = tuple(as_expr(tensor.strides[d]) for d in tensor.storage)
    return Pointer(buffer, shape, strides, role)


def _accesses(body: tuple[Statement, ...]) -> tuple[set[str], set[str], dict[str, int], dict[str, Expr]]:
    """Collect the accesses of statements to global memory.

    Returns:
        The tensors that are read; the tensors that are written; the widest access of each tensor in bytes; for each
        array of subscripts the smallest extent that its elements must stay below.
    """
    read: set[str] = set()
    written: set[str] = set()
    align: dict[str, int] = {}
    below: dict[str, Expr] = {}
    for statement in walk(body):
        match statement:
            case Call(atom, views):
                for operand, view in zip(atom.operands, views, strict=True):
                    if operand.access != "write":
                        read.add(view.buffer.name)
                    if operand.access != "read":
                        written.add(view.buffer.name)
                    nbytes = operand.align or atom.nbytes or view.buffer.dtype.nbytes
                    align[view.buffer.name] = max(align.get(view.buffer.name, 1), nbytes)
            case FindGroup(ends=ends):
                read.add(ends.buffer.name)
                align[ends.buffer.name] = ends.buffer.dtype.nbytes
            case Fetch(var=var, view=view):
                name = view.buffer.name
                read.add(name)
                if var.extent is not None:
                    below[name] = minimum(below[name], var.extent) if name in below else var.extent
                align[view.buffer.name] = max(align.get(view.buffer.name, 1), view.buffer.dtype.nbytes)
            case Compute(dst, _, inputs):
                written.add(dst.buffer.name)
                for view in inputs:
                    read.add(view.buffer.name)
                for view in (dst, *inputs):
                    align[view.buffer.name] = max(align.get(view.buffer.name, 1), view.buffer.dtype.nbytes)
            case Micro(roles=roles, views=views, written=outputs):
                for role, view in zip(roles, views, strict=True):
                    (written if role in outputs else read).add(view.buffer.name)
                    align[view.buffer.name] = max(align.get(view.buffer.name, 1), view.buffer.dtype.nbytes)
            case _:
                pass
    return read, written, align, below
