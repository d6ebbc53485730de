"""Differences of two schedules in words: of their specs, links and kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from fireiron.base.text import count
from fireiron.kernel.ir.statements import Kernel
from fireiron.language.decompositions import Decomposition, Each, EachStep, Epilog, Load, Prolog, Results, Split, Tile
from fireiron.language.pointwise import Value
from fireiron.language.programs import Layers, Products
from fireiron.language.residual import Residual
from fireiron.language.specs import Init, MatMul, Move, Pointwise, Spec, Task, tensors_of
from fireiron.language.steps import Program
from fireiron.language.tensor import Tensor
from fireiron.show import page
from fireiron.show.align import align
from fireiron.show.consequences import AccessRow, Difference, Part, arrow, consequences, traffic
from fireiron.show.page import LINK, NOTEBOOK_WIDTH, SPEC, WIDTH, Row
from fireiron.show.scheduled import Scheduled, origin_of
from fireiron.show.tree import result
from fireiron.show.words import by, coefficient, computed, head, refinements, words

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.tree import Tree


@attrs.frozen
class Diff:
    """List the differences of two schedules; it is true if there are any."""

    differences: tuple[Difference, ...]

    def __bool__(self) -> bool:
        return bool(self.differences)

    def tree(self) -> Tree:
        """Return the differences as a tree of rich."""
        from rich.text import Text
        from rich.tree import Tree

        if not self.differences:
            return Tree(Text("no difference"))
        top = Tree(Text(""), hide_root=True)
        parts: dict[Part, None] = dict.fromkeys(d.part for d in self.differences)
        for part in parts:
            node = top.add(Text(part, SPEC))
            for d in (d for d in self.differences if d.part == part):
                node.add(Row(Text.assemble((d.place, LINK), ": " if d.place else "", d.what), Text()))
        return top

    def text(self, width: int = WIDTH) -> str:
        """Print as plain text."""
        return page.plain(self.tree(), width)

    def __repr__(self) -> str:
        return f"<Diff of {count(len(self.differences), 'difference')}>"

    def __str__(self) -> str:
        return self.text().rstrip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.tree()

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return page.bundle(self.tree(), NOTEBOOK_WIDTH)


def diff(
    a: Scheduled,
    b: Scheduled,
    kernels: tuple[Kernel, Kernel] | None = None,
    rows: tuple[Sequence[AccessRow], Sequence[AccessRow]] | None = None,
) -> Diff:
    """List the differences from schedule a to schedule b.

    Args:
        a, b: the schedules.
        kernels: both schedules lowered, to compare the kernels; None leaves this out.
        rows: accesses of both kernels, to compare bank conflicts and sectors.
    """
    found = [*_sizes(origin_of(a), origin_of(b)), *_programs(a.program, b.program), *_links(a.links, b.links)]
    if kernels is not None:
        found += consequences(a, b, kernels)
    if rows is not None:
        found += traffic(*rows)
    return Diff(tuple(found))


def _sizes(a: Residual, b: Residual) -> Iterable[Difference]:
    for dim, old in a.sizes:
        new = b.extents.get(dim, old)
        if old != new:
            yield Difference("spec", "", arrow(dim, old, new))


def _programs(a: Task, b: Task) -> Iterable[Difference]:
    if type(a.spec) is not type(b.spec):
        yield Difference("spec", "", arrow("", type(a.spec).__name__, type(b.spec).__name__))
        return
    for x, y in zip(tensors_of(a.spec), tensors_of(b.spec), strict=False):
        yield from (Difference("spec", x.name, what) for what in _tensors(x, y))
    yield from _coefficients(a.spec, b.spec)


def _tensors(a: Tensor, b: Tensor) -> Iterable[str]:
    facts = (
        ("named", a.name, b.name),
        ("", f"{len(a.shape)} dimensions", f"{len(b.shape)} dimensions"),
        ("", a.dtype, b.dtype),
        ("", a.order, b.order),
        ("in", a.memory, b.memory),
    )
    changed = [arrow(name, old, new) for name, old, new in facts if old != new]
    if not changed and a.shape == b.shape and a.strides != b.strides:
        changed = [arrow("strides", by(a.strides), by(b.strides))]
    return changed


def _coefficients(a: Spec, b: Spec) -> Iterable[Difference]:
    match a, b:
        case MatMul(), MatMul():
            for name, old, new in (("alpha", a.alpha, b.alpha), ("beta", a.beta, b.beta)):
                if old != new:
                    yield Difference("spec", "", arrow(name, coefficient(old), coefficient(new)))
        case Init(), Init() if a.value != b.value:
            yield Difference("spec", "", arrow("value", f"{a.value:g}", f"{b.value:g}"))
        case Pointwise(), Pointwise() if a.op != b.op:
            yield Difference("spec", "", "another op")
        case ((MatMul() | Move() | Init() | Pointwise() | Products() | Layers()), _):
            pass
        case (Program(), Program()) if a != b:
            yield Difference("spec", "", "other steps")
        case (Program(), _):
            pass


def _links(a: Sequence[Decomposition], b: Sequence[Decomposition], within: str = "") -> Iterable[Difference]:
    for old, new in align(a, b):
        if old is None and new is not None:
            yield Difference("links", within, f"added: {words(new)}")
        elif new is None and old is not None:
            yield Difference("links", within, f"removed: {words(old)}")
        elif old is not None and new is not None and old != new:
            place = f"{within} > {_place(old, new)}" if within else _place(old, new)
            changed = tuple(_changes(old, new))
            yield from (Difference("links", place, what) for what in changed)
            for name, chains in _inner(old, new).items():
                yield from _links(*chains, f"{place}'s {name}")


def _place(old: Decomposition, new: Decomposition) -> str:
    """Name a pair of links by the words that they share."""
    if head(old) == head(new):
        return head(old)
    kind = head(old).split(" ", 1)[0]
    both = isinstance(old, Tile) and isinstance(new, Tile) and old.level is not None and old.level == new.level
    return f"{kind} {refinements(old)['to']}" if both else kind


Chains = tuple[tuple[Decomposition, ...], tuple[Decomposition, ...]]


def _inner(old: Decomposition, new: Decomposition) -> dict[str, Chains]:
    """Pair the nested chains of two links by their purposes."""
    before, after = _chains(old), _chains(new)
    return {name: (before.get(name, ()), after.get(name, ())) for name in dict.fromkeys((*before, *after))}


def _chains(link: Decomposition) -> dict[str, tuple[Decomposition, ...]]:
    match link:
        case Load(move=move):
            return {"Move": move}
        case Epilog(store=store, outputs=outputs, loads=loads):
            stores = {f"store of {o.tensor.name}": o.store for o in outputs}
            return {"store": store} | stores | {f"load of {load.role}": load.move for load in loads}
        case Results(stores=stores):
            return {f"store of {name}": links for name, links in stores}
        case Each(chains=chains, store=store, hold=hold):
            layers = {f"layer {i}": links for i, links in enumerate(chains)}
            return layers | {"store": store, "hold": (hold,)}
        case EachStep(chains=chains):
            return {f"step {chain.name}": chain.links for chain in chains}
        case _:
            return {}


# Fields whose chains are compared link by link.
_HELD = ("move", "store", "stores", "chains", "hold", "value", "outputs")


# What a refinement is where a link does without it.
_WITHOUT = {
    "to": "loops",
    "stages": "1",
    "pad": "0",
    "layout": "RowMajor",
    "init": "0",
    "units": "all",
    "inflight": "0",
    "specialize": "registers as launched",
    "storage": "the source's",
    "dtype": "the source's",
}
_PREFIX = {"stages": "pipeline", "memory": "in ", "dtype": "as "}
_FLAGS = ("unroll", "reuse", "sync", "persistent", "dependent", "share", "drain", "specialize", "online", "prefetch")


def _changes(old: Decomposition, new: Decomposition) -> Iterable[str]:
    """Yield the differences of two links of one kind, without those of their Moves."""
    if head(old) != head(new):
        # The kind's word stands in the place already.
        kind = head(old).split(" ", 1)[0]
        yield arrow("", *(head(link).removeprefix(kind).strip() or "the first match" for link in (old, new)))
    before, after = refinements(old), refinements(new)
    for name in before:
        x, y = before[name], after.get(name, "")
        if x == y:
            continue
        if name in _FLAGS and not (x and y):
            yield f"{y} added" if y else f"{x} removed"
            continue
        values = [v.removeprefix(_PREFIX.get(name, name)).strip() or _WITHOUT.get(name, "none") for v in (x, y)]
        yield arrow(name, *values)
    if isinstance(old, Epilog) and isinstance(new, Epilog) and old.value != new.value:
        yield arrow("stores", result(old) or "acc", result(new) or "acc")
    if isinstance(old, Epilog) and isinstance(new, Epilog):
        yield from _outputs(old, new)
    yield from _unsaid(old, new)


def _outputs(old: Epilog, new: Epilog) -> Iterable[str]:
    """Yield the differences of two epilogs' outputs other than C."""
    before, after = ({o.tensor.name: o for o in link.outputs} for link in (old, new))
    if list(before) != list(after):
        yield arrow("beside", *(", ".join(names) or "nothing" for names in (before, after)))
    for name in (x for x in before if x in after):
        x, y = before[name], after[name]
        if x.value != y.value:
            yield arrow(f"stores to {name}", *(computed(o.value, "acc") for o in (x, y)))
        yield from (f"{name}: {what}" for what in _tensors(x.tensor, y.tensor))
        x_fold, y_fold = (None if o.fold is None else o.fold.name for o in (x, y))
        for what, a, b in (("rows", x_fold, y_fold), ("apart", x.apart, y.apart)):
            if a != b:
                yield f"{name}: {arrow(what, a or 'none', b or 'none')}"


def _unsaid(old: Decomposition, new: Decomposition) -> Iterable[str]:
    """Yield the names of fields that differ but that the words of the links do not show."""
    if type(old) is not type(new):
        return
    if isinstance(old, Split) and isinstance(new, Split) and old.ways != new.ways:
        old = attrs.evolve(old, size=new.size)  # the number of chunks says it
    for field in attrs.fields(type(old)):
        x, y = getattr(old, field.name), getattr(new, field.name)
        held = field.name in _HELD and not isinstance(old, Prolog)
        if not field.eq or held or x == y or words(attrs.evolve(old, **{field.name: y})) != words(old):
            continue
        said = [computed(v, "x") if isinstance(v, Value) else "none" if v is None else str(v) for v in (x, y)]
        if callable(x) or said[0] == said[1]:
            yield "another function or layout under the same name"
        else:
            yield arrow(field.name, *said)
