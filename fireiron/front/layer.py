"""Links of one layer inside a block: a MatMul whose A lies on chip, where its result is stored too."""
# pyright: reportPrivateUsage=false
# Functions of links are methods of chains, in a file of their own.

from __future__ import annotations

import attrs

from fireiron.base.link import here
from fireiron.check import layers as layer_rules
from fireiron.front import links
from fireiron.front.chain import LayerChain, Strategy
from fireiron.front.state import link_of
from fireiron.language.decompositions import Epilog
from fireiron.language.levels import FR
from fireiron.language.residual import move_of


@link_of
def epilog(chain: LayerChain, *, store: Strategy | None = None) -> Epilog:
    """Accumulate in registers; then apply the layer's op, and store the result where A lies.

    Raises:
        DecompositionError: `second-epilog`.
    """
    chain._check(layer_rules.one_epilog, chain.residual, chain.links)
    value = chain.function
    c = chain.residual.operand("C")
    assert c is not None
    move = move_of(chain.residual, "C", c.memory, c.dtype)
    src, dst = move.operands
    move = attrs.evolve(move, operands=(attrs.evolve(src, memory=FR, dtype=value.dtype), dst))
    return Epilog(value, FR, value.dtype, 0.0, links.stored(chain, move, store), link=here())


def done(chain: LayerChain, atom: object) -> None:
    """Refuse to close a layer without an epilog.

    Raises:
        DecompositionError: `no-epilog`.
    """
    chain._check(layer_rules.has_epilog, chain.residual, chain.links)
