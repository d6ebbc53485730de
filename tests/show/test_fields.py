"""Every field of every link is seen: a difference names it, and the tree of a schedule shows it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any, get_args

import attrs
import pytest

import fireiron as fi
from fireiron import (
    FR,
    RF,
    SH,
    A,
    B,
    Block,
    ColMajor,
    Matrix,
    Swizzle,
    Thread,
    Warp,
    matmul,
    relu,
    save,
)
from fireiron.algebra.dtypes import f16, f32, f64
from fireiron.language.decompositions import (
    ByAtomics,
    ByCluster,
    Decomposition,
    Done,
    Each,
    EachStep,
    Epilog,
    InOrder,
    Load,
    Output,
    Own,
    Prolog,
    Results,
    Specialised,
    Split,
    StepLinks,
    StreamK,
    Tile,
)
from fireiron.language.folds import max_of
from fireiron.language.pointwise import Value, accumulator
from fireiron.language.residual import after
from fireiron.show.diff import diff
from fireiron.show.tree import text

# What a change of a field means is said elsewhere: a place in a file, and what follows from the links above.
UNSEEN = {"link", "claimed", "StepLinks.origin"}


@attrs.frozen
class Shown:
    """Be a schedule of some links, right or not."""

    program: Any
    links: tuple[Decomposition, ...]
    _origin: Any
    _path: str = ""

    @property
    def _trail(self) -> tuple[Any, ...]:
        return tuple(after(self.program.spec, self.links[: i + 1]) for i in range(len(self.links)))


def inner(chain: Any) -> Any:
    chain = chain.load(A, SH).load(B, SH).tile(4, 4).to(Thread).split(1).unroll().load(A, RF).load(B, RF)
    return chain.tile(1, 1).unroll().done()


def product() -> Any:
    chain = matmul(64, 64, 64).prolog(A, relu).tile(32, 32).to(Block)
    return inner(chain.epilog(save(Matrix(64, 64, name="h")), relu).split(32))


def parallel() -> Any:
    return inner(matmul(64, 64, 64).tile(32, 32).to(Block).epilog().split(ways=2).parallel(Block).split(16))


def stack() -> Any:
    x, y, w = Matrix(64, 32, "f16", name="X"), Matrix(64, 32, "f16", name="Y"), Matrix(32, 32, "f16", name="W", batch=3)

    def layer(one: Any) -> Any:
        one = one.epilog().split(32).load(B, SH, fi.cp_async()).tile(16, 32).to(Warp).split(16).unroll()
        return one.load(A, FR, fi.ldmatrix()).load(B, FR, fi.ldmatrix()).tile(16, 8).unroll().done()

    return fi.layers(y, x, (w, relu)).tile(32).to(Block).load(A, SH, fi.cp_async()).each(layer)


def two_steps() -> Any:
    @fi.program(x="m k", w="k n")
    def summed(x: Any, w: Any) -> Any:
        return fi.relu(fi.einsum("mk,kn->mn", x, w, name="s"))

    def multiply(step: Any) -> Any:
        step = step.split(16).unroll().load("x", FR).load("w", FR)
        return step.tile(16, 8).unroll().done()

    spec = summed(Matrix(64, 32, "f16"), Matrix(32, 16, "f16")).tile(m=32).to(Block).epilog(memory=FR).split(k=32)
    return spec.tile(m=16).to(Warp).each(s=multiply)


def twice(x: Value) -> Value:
    return x * 2


def tilted(x: Any) -> Any:
    return x


SOME = accumulator(f32)
STORE = (Own(Thread), Done("copy.4B.RF.GL"))
MADE: dict[str, Any] = {}


def made(make: Callable[[], Any]) -> Any:
    if make.__name__ not in MADE:
        MADE[make.__name__] = make()
    return MADE[make.__name__]


# A schedule that has the link, and another value of each of its fields: a value, or a function of the present one.
CHANGES: dict[type[Any], tuple[Callable[[], Any], dict[str, Any]]] = {
    Tile: (product, {
        "sizes": (("M", 16), ("N", 32)), "level": Warp, "units": 2, "unrolled": True, "order": ColMajor, "resident": 2,
        "wanted": 4,
        "persistent": True, "share": StreamK(), "staggered": 2, "stages": 2, "permute": tilted, "dependent": True,
    }),
    StreamK: (product, {"units": 3}),
    Split: (parallel, {
        "size": 16, "unrolled": True, "stages": 2, "inflight": 1, "specialised": Specialised(), "drain": True,
        "together": 2, "ways": None, "level": Warp, "reduce": ByAtomics(), "promoted": f32, "dim": "N", "online": True,
        "slack": 8.0, "speculative": True,
        "further": (("N", 8),), "skewed": "s", "skewed_before": "o", "order": ("s",),
    }),
    Specialised: (parallel, {"producers": 2, "registers": (24, 240), "prefetch": 1}),
    InOrder: (parallel, {"nbytes": 4096, "two_levels": True, "shared": True}),
    ByCluster: (parallel, {"shares": 2, "at_once": True}),
    Load: (product, {
        "role": "B", "memory": RF, "move": STORE, "pad": 4, "swizzle": Swizzle(2, 3, 3), "storage": ColMajor,
        "reuse": True, "no_sync": True, "dtype": f16, "ops": twice(SOME),
    }),
    Prolog: (product, {"role": "B", "value": twice(SOME)}),
    Epilog: (product, {
        "value": twice(SOME), "memory": FR, "dtype": f64, "init": 1.0, "store": STORE, "outputs": (),
        "early": (Matrix(64, 64, name="r"),), "addends": True, "loads": (Load("r", SH, STORE),), "slots": 2,
        "behind": True,
    }),
    Output: (product, {
        "value": twice(SOME), "tensor": Matrix(64, 64, "f16", name="g"), "store": STORE, "apart": True,
        "fold": max_of(f32),
    }),
    Results: (two_steps, {"memory": RF, "stores": lambda old: ((old[0][0], STORE),), "early": ("x",)}),
    Own: (product, {"level": Warp}),
    Done: (product, {"atom": "fma"}),
    Each: (stack, {
        "chains": lambda old: ((Split(16), *old[0]),), "store": STORE, "hold": lambda old: attrs.evolve(old, pad=8),
        "prefetch": True,
    }),
    EachStep: (two_steps, {"chains": ()}),
    StepLinks: (two_steps, {"name": "t", "links": lambda old: (Split(8), *old)}),
}  # fmt: skip


def held(record: Any, kind: type[Any]) -> Any:
    """Find the first record of a class in a link."""
    if isinstance(record, kind):
        return record
    if isinstance(record, tuple):
        return next((x for x in (held(y, kind) for y in record) if x is not None), None)
    if attrs.has(type(record)) and not isinstance(record, Value):
        return next((x for x in (held(getattr(record, f.name), kind) for f in attrs.fields(type(record))) if x), None)
    return None


def put(record: Any, old: Any, new: Any, done: list[bool]) -> Any:
    """Put another record in the place of the first that is the given one."""
    if record is old and not done:
        done.append(True)
        return new
    if isinstance(record, tuple):
        return tuple(put(x, old, new, done) for x in record)
    if attrs.has(type(record)) and isinstance(record, (*get_args(Decomposition), Output, StepLinks)):
        named = {f.name: put(getattr(record, f.name), old, new, done) for f in attrs.fields(type(record))}
        return attrs.evolve(record, **named)
    return record


# Records that a link holds only where it is refined: the link's field, and a record to begin with.
PLACED: dict[type[Any], tuple[type[Any], str, Any]] = {
    StreamK: (Tile, "share", StreamK()),
    Specialised: (Split, "specialised", Specialised()),
    InOrder: (Split, "reduce", InOrder()),
    ByCluster: (Split, "reduce", ByCluster()),
}


def pair(kind: type[Any], field: str) -> tuple[Shown, Shown]:
    """Give a schedule, and the same with one field changed."""
    make, changes = CHANGES[kind]
    chain = made(make)
    links = chain.links
    if kind in PLACED:
        owner, name, start = PLACED[kind]
        old = held(links, owner)
        links = put(links, old, attrs.evolve(old, **{name: start}), [])
    old = held(links, kind)
    change = changes[field]
    present = getattr(old, field)
    new = attrs.evolve(old, **{field: change(present) if isfunction(change) and field != "permute" else change})
    assert getattr(new, field) != present
    other = put(links, old, new, [])
    return Shown(chain.program, links, chain._origin), Shown(chain.program, other, chain._origin)


FIELDS = [
    (kind, field.name)
    for kind in CHANGES
    for field in attrs.fields(kind)
    if field.name not in UNSEEN and f"{kind.__name__}.{field.name}" not in UNSEEN
]


def test_every_class_of_links_is_walked() -> None:
    assert set(get_args(Decomposition)) <= set(CHANGES)
    for kind, field in FIELDS:
        assert field in CHANGES[kind][1], f"{kind.__name__}.{field} has no other value here"


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=lambda x: getattr(x, "__name__", x))
def test_a_changed_field_is_a_difference(kind: type[Any], field: str) -> None:
    one, other = pair(kind, field)
    assert not diff(one, one)
    found = [d.what for d in diff(one, other).differences]
    assert found
    for what in found:
        before, arrow, after_ = what.partition(" → ")
        assert not (arrow and before.endswith(after_)), f"{what} names no difference"
        assert "another function" not in what or field == "permute"


@pytest.mark.parametrize(("kind", "field"), FIELDS, ids=lambda x: getattr(x, "__name__", x))
def test_a_tree_shows_a_changed_field(kind: type[Any], field: str) -> None:
    one, other = pair(kind, field)
    assert text(one) != text(other)
