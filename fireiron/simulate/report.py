"""Reports: what a simulation counts beside the outputs."""

from __future__ import annotations

import attrs

from fireiron.kernel.analysis.traffic import Traffic


@attrs.frozen
class Site:
    """Count what one instruction of one spec did.

    Args:
        title: the enclosing region's.
        path: where in the decomposition tree.
        atom: the instruction, `compute`, or a microkernel's name.
        count: executions, counted a thread (or a unit of the atom's level).
        gl_read: sectors it read.
        gl_write: sectors it wrote.
        sh_read: wavefronts it read.
        sh_write: wavefronts it wrote.
    """

    title: str
    path: str
    atom: str
    count: int
    gl_read: Traffic
    gl_write: Traffic
    sh_read: Traffic
    sh_write: Traffic

    @property
    def sectors_per_request(self) -> float:
        """Give the 32-byte sectors of an average warp-wide GL request."""
        requests = self.gl_read.requests + self.gl_write.requests
        return (self.gl_read.units + self.gl_write.units) / requests if requests else 0.0

    @property
    def sector_ratio(self) -> float:
        """Give GL sectors over the fewest that could have held the bytes."""
        ideal = self.gl_read.ideal + self.gl_write.ideal
        return (self.gl_read.units + self.gl_write.units) / ideal if ideal else 1.0

    @property
    def conflict_degree(self) -> float:
        """Give SH wavefronts over the fewest: 1 without bank conflicts."""
        ideal = self.sh_read.ideal + self.sh_write.ideal
        return (self.sh_read.units + self.sh_write.units) / ideal if ideal else 1.0


@attrs.frozen
class Report:
    """Hold the counters of a simulation.

    Args:
        blocks: how many ran.
        grid: how many were launched.
        gl_read: GL reads; `units` are sectors.
        gl_write: GL writes.
        sh_read: SH reads; `units` are wavefronts.
        sh_write: SH writes.
        barriers: barriers passed, counted a unit.
        flops: operations, without those of microkernels; a fused multiply-add is two.
        sites: one row an instruction of a spec, in program order.
        elapsed_s: how long it took.
    """

    blocks: int
    grid: int
    gl_read: Traffic
    gl_write: Traffic
    sh_read: Traffic
    sh_write: Traffic
    barriers: int
    flops: int
    sites: tuple[Site, ...]
    elapsed_s: float = 0.0

    def site(self, text: str) -> Site:
        """Find the first row whose title, path or atom contains a text.

        Raises:
            KeyError: if there is none.
        """
        for site in self.sites:
            if text in site.title or text in site.path or text in site.atom:
                return site
        raise KeyError(text)

    @property
    def conflicts(self) -> tuple[Site, ...]:
        """List the rows with bank conflicts, worst first."""
        found = [site for site in self.sites if site.conflict_degree > 1]
        return tuple(sorted(found, key=lambda site: -site.conflict_degree))
