"""The tree between a chain and the kernel: frozen links, each with the facts that it needs of the links below.

A chain is a list, and some rules need a fact of a later link: a tile to Cluster has as many blocks as the next tile
gives, and a buffer that a bulk store reads has the layout that the store needs. `tree` walks a chain once, from its
last link up, and records these facts. Lowering then walks down the tree once: a rule reads its own link and the
recorded facts, but no later link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from fireiron.base.records import evolve
from fireiron.language.decompositions import Decomposition, Done, Load, Split, Tile


@attrs.frozen(slots=False)
class Asked:
    """Record facts of a chain's links for the links above them; None where no link has the fact.

    Args:
        tile: the first tile. Example: a tile to Cluster needs this tile for the number of blocks.
        split: the first split. Example: with parallel(Block), several blocks share a tile.
        staggered: the first tile whose units take the trips of a persistent loop in turn.
        filled: the first split whose loads belong to another role.
        online: the splits with online loops.
        loads: the loads at the head of the chain, one for each operand, which a pipeline above covers.
        done: the link that ends the chain.
    """

    tile: Tile | None = None
    split: Split | None = None
    staggered: Tile | None = None
    filled: Split | None = None
    online: tuple[Split, ...] = ()
    loads: tuple[Load, ...] = ()
    done: Done | None = None


@attrs.frozen(eq=False)
class Tree:
    """Hold a link, the tree of the links below it, and the recorded facts of all these links.

    Args:
        link: the first link; None after the last link.
        below: the tree of the links below `link`; None after the last link.
        asked: the recorded facts.
    """

    link: Decomposition | None = None
    below: Tree | None = None
    asked: Asked = Asked()

    @property
    def behind(self) -> Tree:
        """Return the tree below the loads at the head."""
        found = self
        for _ in self.asked.loads:
            assert found.below is not None
            found = found.below
        return found

    def loads_where(self, kept: Callable[[Load], bool]) -> Tree:
        """Keep only some of the loads at the head."""
        return tree([link for link in self._links() if not isinstance(link, Load) or kept(link)])

    def _links(self) -> Iterator[Decomposition]:
        at: Tree | None = self
        while at is not None and at.link is not None:
            yield at.link
            at = at.below


def tree(links: Sequence[Decomposition]) -> Tree:
    """Make the tree of a chain."""
    found = Tree()
    for link in reversed(links):
        found = Tree(link, found, _asked(link, found.asked))
    return found


def done_of(links: Sequence[Decomposition]) -> Done | None:
    """Return the link that ends a chain by an atom, None where the chain ends otherwise."""
    return links[-1] if links and isinstance(links[-1], Done) else None


def _asked(link: Decomposition, below: Asked) -> Asked:
    """Add a link's facts to the facts of the links below it."""
    asked = evolve(below, loads=()) if below.loads else below
    match link:
        case Tile(staggered=staggered):
            return evolve(asked, tile=link, staggered=link if staggered > 1 else asked.staggered)
        case Split(online=online, specialised=specialised):
            return evolve(
                asked,
                split=link,
                filled=link if specialised is not None else asked.filled,
                online=(link, *asked.online) if online else asked.online,
            )
        case Load(role=role):
            # Where an operand is loaded twice, to shared memory and then to registers, the second load is of the trip.
            first = next((i for i, x in enumerate(below.loads) if x.role == role), len(below.loads))
            return evolve(asked, loads=(link, *below.loads[:first]))
        case Done():
            return evolve(asked, done=link)
        case _:
            return asked
