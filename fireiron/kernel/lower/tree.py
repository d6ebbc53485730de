"""The tree between a chain and the kernel: its links, frozen, each with what the links below ask of those above.

A chain is a list, and some rules need a fact that stands further down it: a tile to Cluster has as many blocks as the
next tile says, and a load that a bulk store ends keeps its rows as the store needs them. `tree` walks a chain once,
from its last link up, and notes these facts. Lowering then goes down the tree once: a rule reads its own link and what
is asked of it, and no link that is not lowered yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from fireiron.base.records import evolve
from fireiron.language.decompositions import Decomposition, Done, Load, Split, Tile


@attrs.frozen(slots=False)
class Asked:
    """Say what the links of a chain ask of those above them, None for what no link asks.

    Args:
        tile: the first tile. Example: it cuts a cluster's tile into those of its blocks.
        split: the first split. Example: by parallel(Block) it has several blocks share a tile.
        staggered: the first tile whose units take the trips of a persistent loop in turn.
        filled: the first split whose loads belong to another role.
        online: the splits whose folds follow each other in one loop.
        loads: the loads that stand first, one of each operand: those that a pipeline above covers.
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
    """Hold a link, the links below it, and what all of them ask of those above.

    Args:
        link: the first link; None behind the last.
        below: the links below it; None behind the last.
        asked: what they ask.
    """

    link: Decomposition | None = None
    below: Tree | None = None
    asked: Asked = Asked()

    @property
    def behind(self) -> Tree:
        """Give the tree below the loads that stand first."""
        found = self
        for _ in self.asked.loads:
            assert found.below is not None
            found = found.below
        return found

    def loads_where(self, kept: Callable[[Load], bool]) -> Tree:
        """Leave out other loads."""
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
    """Give the link that ends a chain by an atom, None where the chain ends otherwise."""
    return links[-1] if links and isinstance(links[-1], Done) else None


def _asked(link: Decomposition, below: Asked) -> Asked:
    """Add what a link asks to what the links below it ask."""
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
