"""All pictures: functions of schedules and atoms that return a `Picture`.

A notebook draws a `Picture`, `print` writes it as text, and `.save("name.svg")` (or `.png`) writes a file.

Example:
    >>> from fireiron import matmul
    >>> from fireiron.show import pictures
    >>> print(pictures.cuts(matmul(64, 64, 64).tile(32, 32)))
    tile 32x32: Kernel: 64x64 in 2x2 tiles, loop
"""

from __future__ import annotations

from fireiron.show.banks import banks
from fireiron.show.compare import compare
from fireiron.show.cutting import cuts
from fireiron.show.decomposition import decomposition
from fireiron.show.fragment import fragment
from fireiron.show.picture import Picture
from fireiron.show.roofline import roofline
from fireiron.show.timeline import timeline
from fireiron.show.values import values

__all__ = ["Picture", "banks", "compare", "cuts", "decomposition", "fragment", "roofline", "timeline", "values"]
