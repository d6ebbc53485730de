"""Verbs of a finished schedule: lower it, print it, check it, run it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from fireiron.front.chain import Chain

if TYPE_CHECKING:
    from fireiron.kernel.ir import Kernel


class Verbs(Chain):
    """What one can do with a schedule."""

    def lowered(self, arch: int = 90) -> Kernel:
        """Lower the schedule for an architecture; the result is kept."""
        return _lowered(self, arch)


@functools.lru_cache(maxsize=256)
def _lowered(chain: Any, arch: int) -> Kernel:
    from fireiron.kernel.lower import lower

    return lower(chain.program, chain.links, "kernel", arch)
