"""Registers of asynchronous instructions: those in use by one in flight, and those that need a fence."""

from __future__ import annotations

import attrs
import numpy as np

from fireiron.simulate.order import Array, some


@attrs.define(eq=False)
class Fragment:
    """Hold the state of a register buffer's elements (registers, threads).

    Args:
        stale: whether other instructions accessed the element since the last fence (at first, all elements).
        busy: number of instructions in flight that write the element.
        held: number of instructions in flight that read the element.
    """

    stale: Array
    busy: Array
    held: Array

    @staticmethod
    def of(rows: int, threads: int) -> Fragment:
        """Make the state of a buffer that no instruction has used."""
        shape = (rows, threads)
        return Fragment(np.ones(shape, bool), np.zeros(shape, np.int16), np.zeros(shape, np.int16))

    def begin(self) -> None:
        """Start a block."""
        self.stale[:] = True
        self.busy[:] = 0
        self.held[:] = 0

    def touch(self, rows: Array | None, flat: Array) -> tuple[int, int] | None:
        """Record another instruction's access; return the first register and thread in use by one in flight."""
        busy, held = self.busy, self.held
        if rows is not None:
            flying = (busy[rows] != 0) | (held[rows] != 0)
            self.stale[rows] = True
            if not some(flying):
                return None
            at = np.argwhere(flying)[0]
            return int(rows[tuple(at[:-1])]), int(at[-1])
        flying = (busy.reshape(-1)[flat] != 0) | (held.reshape(-1)[flat] != 0)
        self.stale.reshape(-1)[flat] = True
        if not some(flying):
            return None
        register, thread = divmod(int(flat[np.argmax(flying)]), busy.shape[1])
        return register, thread
