"""Resources of a compiled kernel, read from the assembler's log."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs


@attrs.frozen
class Resources:
    """Hold the resources of one kernel, as ptxas reports them.

    Args:
        registers: of one thread.
        stack: bytes of local memory of one thread, spills included.
        spill_stores: bytes stored because registers ran out.
        spill_loads: bytes loaded for the same reason.
        shared_nbytes: static shared memory of a block.
        barriers: named barriers in use.
        warnings: lines of the log that are warnings, of the compiler or the assembler.
    """

    registers: int
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    shared_nbytes: int = 0
    barriers: int = 0
    warnings: tuple[str, ...] = ()

    @property
    def spills(self) -> bool:
        """Say whether registers ran out."""
        return self.spill_stores > 0 or self.spill_loads > 0


def parse_log(log: str, entry: str) -> Resources:
    """Read the resources of one entry point from the log of a compilation with `ptxas -v`.

    Raises:
        ValueError: where the log does not mention the entry.

    Example:
        >>> log = '''ptxas info    : Compiling entry function 'k' for 'sm_90'
        ... ptxas info    : Function properties for k
        ... ptxas         .     8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
        ... ptxas info    : Used 32 registers, used 1 barriers, 512 bytes smem'''
        >>> parse_log(log, "k").registers
        32
    """
    text = "\n".join(_section(log, entry))
    if not text:
        raise ValueError(f"the compiler's log does not mention {entry}")

    def number(pattern: str) -> int:
        found = re.search(pattern, text)
        return int(found[1]) if found else 0

    return Resources(
        registers=number(r"Used (\d+) registers"),
        stack=number(r"(\d+) bytes stack frame"),
        spill_stores=number(r"(\d+) bytes spill stores"),
        spill_loads=number(r"(\d+) bytes spill loads"),
        shared_nbytes=number(r"(\d+) bytes smem"),
        barriers=number(r"used (\d+) barriers"),
        warnings=tuple(line.strip() for line in log.splitlines() if re.search(r"\bwarning\b", line, re.IGNORECASE)),
    )


def _section(log: str, entry: str) -> Iterator[str]:
    """Yield the lines from one entry's heading to the next entry's."""
    inside = False
    for line in log.splitlines():
        heading = re.search(r"Compiling entry function '([^']+)'", line)
        if heading:
            inside = heading[1] == entry
        if inside:
            yield line
