"""Rules of the grid: waits for the previous launch, and barriers before flags.

Agents wait for the previous launch before they access global memory. A barrier stands between a unit's writes and the
flag that publishes them to other blocks.
"""

from __future__ import annotations

from fireiron.kernel.edges.agents import Agent
from fireiron.kernel.edges.world import World
from fireiron.language.levels import Level


def global_access(world: World, agent: Agent, words: str) -> None:
    """Check that an agent has waited for the previous launch."""
    if world.kernel.dependent and not agent.launched:
        world.report("the launch before", words, "no grid.wait stands between them", "dependence")


def tell(world: World, agent: Agent, level: Level, words: str) -> None:
    """Check that a barrier stands between a unit's writes and the flag that publishes them to other blocks."""
    global_access(world, agent, words)
    if agent.since(level.size or agent.threads)[0] < agent.wrote:
        world.report("a write of global memory", words, "no barrier stands between them", "barriers")
