"""Loops over K below an epilog: one for a single product, several in sequence for several products.

Products that share an operand are computed in one loop, which loads it once. Each loop is the same chain, restricted to
the loop's operands; accumulators stay in registers through all loops.
"""

from __future__ import annotations

from fireiron.algebra.expr import Expr
from fireiron.base.records import evolve
from fireiron.kernel.lower.context import Body, Context, Recur, State
from fireiron.kernel.lower.tree import Tree
from fireiron.language.levels import SH
from fireiron.language.residual import Residual


def lower_loops(rest: Tree, state: State, context: Context, recur: Recur) -> Body:
    """Lower the chain for each group of products; later loops reuse the shared memory of earlier ones."""
    spec = context.spec
    if not spec.phases:
        return recur(rest, state, context)
    roles = {o.tensor.name: o.role for o in state.residual.operands}
    body: Body = ()
    begun: frozenset[str] = frozenset()
    for number, phase in enumerate(spec.phases):
        named = tuple((roles[a.name], roles[b.name], roles[c]) for a, b, c in phase)
        mine = {role for triple in named for role in triple}
        known = set(context.storages)
        inside = _phase(state, named, phase[0][0].shape[-1], begun)
        inside = evolve(inside, loop=(number, len(spec.phases)))
        body += recur(rest.loads_where(lambda x, mine=mine: x.role in mine), inside, context)
        if number:
            for name, storage in context.storages.items():
                if name not in known and storage.memory == SH and not storage.guarded:
                    storage.reuse = True
        begun |= {c for _, _, c in named}
    return body


def _phase(state: State, named: tuple[tuple[str, str, str], ...], depth: object, begun: frozenset[str]) -> State:
    """Restrict a residual of several products to those of one loop."""
    mine = {role for triple in named for role in triple}
    assert isinstance(depth, int | Expr)
    sizes = tuple((dim, depth if dim == "K" else size) for dim, size in state.residual.sizes)
    operands = tuple(o for o in state.residual.operands if o.role in mine)
    residual: Residual = evolve(state.residual, sizes=sizes, operands=operands, depths=())
    windows = {role: window for role, window in state.windows.items() if role in mine}
    windows.setdefault("C", windows[named[0][2]])
    return evolve(state, residual=residual, windows=windows, products=named, accumulated=begun)
