"""Chains of Init and Pointwise."""

from __future__ import annotations

from fireiron.front.chain import Chain, TileRefinements
from fireiron.front.verbs import Verbs
from fireiron.language.decompositions import Strided


class ElementwiseChain(Verbs, Chain):
    """Decompose a spec that computes each element of its output alone."""

    def tile(self, *sizes: int | Strided, batch: int | None = None) -> TiledElementwise:
        """Cut the output into tiles of rows and columns.

        Shapes:
            (M, N) -> (m, n)

        Raises:
            DecompositionError: `tile-arguments`, `tile-extent`, `tile-too-large`, `tile-gaps`, `no-such-dimension`,
                `chain-closed`.
        """
        dims = [dim for dim, _ in self.residual.sizes][-2:]
        return self._as(TiledElementwise, self._tile_link(self._sizes(sizes, batch, (dims[0], dims[-1]))))

    def done(self) -> ElementwiseChain:
        """Close the chain: each thread computes its elements one after another.

        Raises:
            DecompositionError: `no-atom` above level Thread.
        """
        closed = self._as(ElementwiseChain, self._done_link(None))
        closed.lowered()
        return closed


class TiledElementwise(TileRefinements, ElementwiseChain):
    """An elementwise spec whose last link is a tile."""
