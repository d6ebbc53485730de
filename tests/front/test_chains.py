"""One family of chain classes: each kind of spec has its links, and dims may be named in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

import fireiron as fi
from fireiron import RF, SH, A, Block, Matrix, Schedule, Thread, layers, matmul, products
from fireiron.base.errors import DecompositionError
from fireiron.front import chain, refinements
from fireiron.front.kinds import ALL, KINDS
from fireiron.front.offers import LINKS
from fireiron.front.state import State
from fireiron.schedules.rows import softmax

X, Y, W = Matrix(64, 96, name="X"), Matrix(64, 64, name="Y"), Matrix(96, 64, name="W")


def subclasses(kind: type) -> Iterator[type]:
    for below in kind.__subclasses__():
        yield below
        yield from subclasses(below)


def chains() -> dict[str, Any]:
    """Give an open chain of each kind, inside a block."""
    found: dict[str, Any] = {}

    def keep(part: Any) -> Any:
        found[part._kind.word] = part
        raise KeyError

    stack = layers(Y, Matrix(64, 64, name="X"), Matrix(64, 64, name="W")).tile(16).to(Block).load(A, SH)
    for start in (
        lambda: matmul(64, 64, 96).tile(32, 32).to(Block),
        lambda: products(Y, (X, W)).tile(32, 32).to(Block),
        lambda: fi.Move(X, Matrix(64, 96)).tile(32, 32).to(Block),
        lambda: fi.Init(X).tile(32, 32).to(Block),
        lambda: fi.Pointwise(fi.relu, X, Matrix(64, 96, name="Z")).tile(32, 32).to(Block),
        lambda: softmax(X).tile(m=32).to(Block),
        lambda: stack,
        lambda: stack.each(keep),
        lambda: product(X, W).tile(m=32, n=32).to(Block).each(s=keep),
    ):
        with suppress(KeyError):
            keep(start())
    return found


@fi.program(x="m k", w="k n")
def product(x: Any, w: Any) -> Any:
    return fi.relu(fi.einsum("mk,kn->mn", x, w, name="s"))


def test_there_is_one_family() -> None:
    assert {c.__name__ for c in subclasses(State)} == {
        "Schedule", "Chain", "FoldChain", "TileRefinements", "Tiled", "TiledFold", "TiledProgram", "SplitRefinements",
        "SplitFold", "LoadRefinements", "Loaded", "LoadedFold",
    }  # fmt: skip
    modules = (chain.__name__, refinements.__name__, Schedule.__module__)
    assert all(c.__module__ in modules for c in subclasses(State))


def test_every_kind_has_a_chain() -> None:
    assert set(chains()) == {kind.word for kind in ALL}
    assert len(KINDS) + 1 == len(ALL)


@pytest.mark.parametrize("word", [kind.word for kind in ALL])
def test_a_kind_has_the_links_of_its_table_alone(word: str) -> None:
    one = chains()[word]
    codes = {name: code_of(one, name) for name in LINKS}
    refused = {name for name, code in codes.items() if code in ("wrong-spec", "no-such-link")}
    assert refused == LINKS - one._kind.links


def code_of(one: Any, link: str) -> str:
    """Write a link with few arguments, and give the code of its error."""
    given = {"load": ("A", RF), "prolog": ("A",), "own": (Thread,), "allocate": ("p", RF)}
    try:
        getattr(one, link)(*given.get(link, ()))
    except fi.FireironError as error:
        return error.code
    return ""


def test_dims_of_products_have_names() -> None:
    spec = matmul(64, 48, 32)
    assert spec.tile(m=32, n=16) == spec.tile(32, 16)
    assert spec.split(k=8) == spec.split(8)
    assert spec.split("k", ways=4, multiple_of=8) == spec.split(ways=4, multiple_of=8)
    assert spec.tile(32, 16).to(Block).split(k=8) == spec.tile(32, 16).to(Block).split(8)
    assert fi.Move(X, Matrix(64, 96)).tile(m=16, n=8) == fi.Move(X, Matrix(64, 96)).tile(16, 8)


def test_dims_of_products_are_all_named() -> None:
    spec = matmul(64, 48, 32).tile(m=32).to(Block).tile(m=4).to(Thread).split(k=1)
    with pytest.raises(DecompositionError, match="tile-gaps"):
        spec.done()
    with pytest.raises(DecompositionError, match="no-such-dimension"):
        spec.tile(j=1)
    with pytest.raises(DecompositionError, match="tile-arguments"):
        spec.tile(k=1)


def test_a_finished_schedule_has_verbs_alone() -> None:
    made: Any = fi.Init(X).tile(32, 32).to(Block).tile(1, 1).to(Thread).done()
    assert not isinstance(made, chain.Chain)
    for name in ("tile", "split", "load", "epilog", "then", "swap", "each", "done"):
        with pytest.raises(DecompositionError, match="chain-closed"):
            getattr(made, name)()


def test_a_preset_takes_chains_of_its_kind_alone() -> None:
    @fi.preset
    def rows(spec: fi.ProgramChain) -> Schedule:
        return spec.tile(m=8).to(Block).tile(m=1).to(Thread).done()

    assert rows(softmax(Matrix(64, 64))).residual.closed
    wrong: Any = matmul(64, 64, 64)
    with pytest.raises(fi.FireironError, match="rows takes a program"):
        rows(wrong)
