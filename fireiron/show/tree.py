"""Trees: print a schedule as its specs and decompositions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fireiron.algebra.dtypes import DType
from fireiron.algebra.scalar import Arg
from fireiron.base.text import count
from fireiron.kernel.ir.statements import Kernel
from fireiron.language.as_steps import steps_of
from fireiron.language.decompositions import ByAtomics, ByCluster, ByTma, Done, Each, Epilog, Load, Split
from fireiron.language.levels import SH, Block, Memory
from fireiron.language.specs import tensors_of
from fireiron.language.words import steps_in_words
from fireiron.show import lowered, page
from fireiron.show.page import ATOM, LINK, MEMORY, NOTEBOOK_WIDTH, OPEN, SPEC, WIDTH, Row
from fireiron.show.scheduled import Scheduled, origin_of
from fireiron.show.steps import Nested, Step, layers, left, nested, shared_nbytes, steps, stores
from fireiron.show.words import amount, by, computed, infix, tensor, words

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

_WIDEST = 34


def tree(schedule: Scheduled, kernel: Kernel | None = None) -> Tree:
    """Draw a schedule as a tree: each link with the spec after it, and Moves and buffers below their loads.

    Args:
        schedule: a schedule, finished or not.
        kernel: the lowered schedule, for registers, atoms and counts; None leaves these out.
    """
    from rich.text import Text
    from rich.tree import Tree

    top = Tree(Text(str(origin_of(schedule)), SPEC))
    for said in steps_in_words(steps_of(schedule.program.spec, schedule.links)):
        top.add(Row(Text(said), Text()))
    for operand in tensors_of(schedule.program.spec):
        top.add(Row(Text(tensor(operand)), Text()))
    if kernel is not None:
        for said in (summary(kernel), parted(kernel)):
            if said:
                top.add(Row(Text(said, MEMORY), Text()))
    _grow(top, steps(schedule), kernel, None)
    rest = left(schedule)
    if not rest.closed:
        top.add(Row(Text(f"… left to do: {rest}", OPEN), Text()))
    return top


def text(schedule: Scheduled, width: int = WIDTH, kernel: Kernel | None = None) -> str:
    """Draw a schedule as plain text."""
    return page.plain(tree(schedule, kernel), width)


def mimebundle(schedule: Scheduled, width: int = NOTEBOOK_WIDTH, kernel: Kernel | None = None) -> dict[str, str]:
    """Draw a schedule for a notebook, as plain text and as HTML."""
    return page.bundle(tree(schedule, kernel), width)


def summary(kernel: Kernel) -> str:
    """Describe a kernel in a line: blocks, threads, shared memory, registers of tensors, barriers."""
    shared = f"{amount(kernel.shared_nbytes)} of SH" if kernel.shared_nbytes else "no SH"
    counted = sum(barrier.slots for barrier in kernel.barriers)
    return (
        f"{_blocks(kernel)}, {shared}, "
        f"{count(lowered.register_total(kernel), 'register')} a thread for tensors, "
        f"{count(len(lowered.barriers(kernel)), 'barrier')}" + (f", {count(counted, 'mbarrier')}" if counted else "")
    )


def parted(kernel: Kernel) -> str:
    """Describe the roles of a kernel's blocks; "" where all threads do the same."""
    return "; ".join(
        f"role {role.name}: {count(role.threads, 'thread')}"
        + (f", {count(role.registers, 'register')} each" if role.registers else "")
        for role in lowered.roles(kernel)
    )


def held(step: Step, kernel: Kernel | None) -> str:
    """Describe the buffer of a load or an epilog: extents, element type, memory, slots, bytes or registers."""
    if isinstance(step.link, Load) and step.after.operand(step.link.role) is None:
        return _of_result(step.link, kernel)
    memory, dtype, role = _target(step)
    operand = step.before.operand(role) if role != "C" else step.before.playing("C")[0]
    assert operand is not None
    buffer = None if kernel is None else lowered.buffer(kernel, step)
    said = f"{by(tuple(step.before.extents[dim] for dim in operand.dims))} {dtype} in {memory}"
    if buffer is not None and memory.registers:
        said += f", {count(lowered.registers(buffer), 'register')} a thread"
    elif memory.registers:
        said += f" over the {step.before.level}"
    else:
        size = shared_nbytes(step) if buffer is None else buffer.nbytes
        said += f", {count(step.slots, 'slot')}" if step.slots > 1 else ""
        said += f", {amount(size)}" if size is not None and memory == SH else ""
    name = buffer.name if buffer else "acc" if isinstance(step.link, Epilog) else ""
    return f"{name}: {said}" if name else said


def _of_result(link: Load, kernel: Kernel | None) -> str:
    """Describe the memory of a step's result."""
    name = f"{link.role.lower()}_{str(link.memory).lower()}"
    buffer = None if kernel is None else next((b for b in kernel.buffers if b.name == name), None)
    if buffer is None:
        return f"{link.role} in {link.memory}"
    size = (
        f"{count(lowered.registers(buffer), 'register')} a thread" if link.memory.registers else amount(buffer.nbytes)
    )
    return f"{name}: {buffer.dtype} in {link.memory}, {size}"


def result(link: Epilog) -> str:
    """Describe an epilog's computation; "" where it stores the accumulator without ops."""
    if link.value.tree == Arg(0, link.dtype):
        return ""
    return infix(link.value.tree, link.value.tensors)


def _grow(parent: Tree, chain: tuple[Step, ...], kernel: Kernel | None, within: tuple[Nested, Step] | None) -> None:
    """Add the steps of a chain below a node; `within` is the Move that they execute, with its step."""
    from rich.text import Text

    said = [(step, closing(step, kernel, within)) for step in chain]
    column = 2 + max((len(first) for _, first in said if len(first) <= _WIDEST), default=0)
    for step, first in said:
        done = isinstance(step.link, Done)
        after = Text() if done else Text.assemble("→ ", (str(step.after), SPEC))
        node = parent.add(Row(_coloured(step, first), after, column))
        if isinstance(step.link, Load):
            node.add(Row(Text(held(step, kernel), MEMORY), Text()))
            if step.link.ops is not None:
                node.add(Row(Text(f"each element: {computed(step.link.ops, step.link.role)}"), Text()))
        if isinstance(step.link, Each):
            node.add(Row(Text(f"held by: {words(step.link.hold)}", MEMORY), Text()))
        if isinstance(step.link, Split) and step.link.level is not None:
            node.add(Row(Text(reduction(step, step.link, kernel), MEMORY), Text()))
        if isinstance(step.link, Epilog):
            _epilog(node, step, step.link, kernel)
        for layer in layers(step):
            _grow(node.add(Text(str(layer.origin), SPEC)), layer.steps, kernel, None)
        for name, store in stores(step):
            _grow(node.add(Text(f"store {name}: {store.origin}", SPEC)), store.steps, kernel, (store, step))
        inner = nested(step)
        if inner is not None:
            result = isinstance(step.link, Epilog | Each)
            label = f"store {_stored(step)}: {inner.origin}" if result else str(inner.origin)
            _grow(node.add(Text(label, SPEC)), inner.steps, kernel, (inner, step))


def _epilog(node: Tree, step: Step, link: Epilog, kernel: Kernel | None) -> None:
    from rich.text import Text

    node.add(Row(Text(held(step, kernel), MEMORY), Text()))
    node.add(Text(f"start: acc = {link.init:g}"))
    for value, out in zip(link.values, step.before.playing("C"), strict=False) if step.before.sums else ():
        node.add(Row(Text(f"end: {out.tensor.name} = {infix(value.tree, value.tensors)}"), Text()))
    for output in link.outputs if not step.before.sums else ():
        made = computed(output.value, "acc")
        made = made if output.fold is None else f"{output.fold.name} of each row of {made}"
        node.add(Row(Text(f"{'apart' if output.apart else 'store'} {output.tensor.name}: {made}"), Text()))
    if result(link) and not step.before.sums:
        node.add(Row(Text(f"end: acc = {result(link)}"), Text()))


def _stored(step: Step) -> str:
    outputs = step.before.playing("C")
    return outputs[-1].tensor.name if step.before.sums or isinstance(step.link, Each) else "C"


def reduction(step: Step, link: Split, kernel: Kernel | None) -> str:
    """Describe how the sums of a parallel split's units are combined."""
    if isinstance(link.reduce, ByTma):
        return f"reduce: {step.trips} sums by bulk additions to C"
    how = "by atomics" if isinstance(link.reduce, ByAtomics) else "in order"
    if kernel and lowered.shuffled(kernel, step):
        return f"reduce: {step.trips} sums by shuffles"
    name, size = lowered.meeting(kernel, step) if kernel else ("", None)
    place = f"{name} in SH" if name else "SH"
    if isinstance(link.reduce, ByCluster):
        place += " of the cluster"
    elif link.level == Block:
        place = f"workspace {name}".rstrip()
    bytes_ = f", {amount(size)}" if size is not None else ""
    return f"reduce: {step.trips} sums {how} through {place}{bytes_}"


def closing(step: Step, kernel: Kernel | None, within: tuple[Nested, Step] | None) -> str:
    """Describe a link; at the end of a chain, also the instructions that execute the spec."""
    said = words(step.link)
    # A name that was chosen may be a family's: what executes the spec is one of its atoms.
    if not isinstance(step.link, Done) or not isinstance(step.link.atom, str | None) or kernel is None:
        return said
    names = lowered.move_atoms(kernel, *within) if within else (lowered.compute_name(kernel),)
    named = "" if step.before.kind == "Program" else " and ".join(name for name in names if name)
    return f"done by {named}" if named else said


def _coloured(step: Step, said: str) -> Text:
    from rich.text import Text

    head, by_, atom = said.partition(" by ")
    return Text.assemble((head, LINK), by_, (atom, ATOM)) if isinstance(step.link, Done) else Text(said, LINK)


def _target(step: Step) -> tuple[Memory, DType, str]:
    match step.link:
        case Load(role, memory):
            operand = step.after.operand(role)
            assert operand is not None
            return memory, operand.dtype, role
        case Epilog(_, memory, dtype):
            return memory, dtype, "C"
        case _:
            raise AssertionError(f"{step.link} makes no buffer")


def _blocks(kernel: Kernel) -> str:
    low, high = kernel.grid.range
    said = count(low, "block") if low is not None and low == high else f"{kernel.grid} blocks"
    said = f"at most {said}" if kernel.persistent else said
    clusters = f" in clusters of {kernel.cluster}" if kernel.cluster > 1 else ""
    return f"{said} of {count(kernel.threads, 'thread')}{clusters}"
