"""Lower parts to schedules: a part becomes a program, a product or a convolution, with the best schedule known.

Arrays are named by their positions, so that equal parts of a network share one kernel.

Within a part, floats are computed in f32, and are rounded only where they are stored or become an operand of a product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fireiron.graph.areas import Part
from fireiron.graph.lower_products import PartProducts
from fireiron.graph.lower_program import PartProgram
from fireiron.graph.lower_windows import PartWindows
from fireiron.graph.lowered import Lowered
from fireiron.graph.nodes import Graph
from fireiron.graph.views import View

if TYPE_CHECKING:
    from fireiron.graph.sizes import Samples


def lowered(graph: Graph, part: Part, views: Mapping[int, View], arch: str, samples: Samples | None = None) -> Lowered:
    """Return a part's schedule.

    Args:
        graph: the graph of the part.
        part: the part.
        views: the places of the elements of all nodes.
        arch: the target.
        samples: numbers that become symbols of the kernels; None for a graph without symbols.

    Raises:
        Misfit: where no kernel of this form computes the part. FireironError: where no preset takes its program.
    """
    if part.kind in ("product", "products"):
        return PartProducts(graph, part, views, samples).lowered(arch)
    if part.kind in ("convolution", "pooling"):
        return PartWindows(graph, part, views, samples).lowered(arch)
    return PartProgram(graph, part, views, samples).lowered(arch)
