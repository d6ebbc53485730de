"""Reports: the counters of a simulation."""

from __future__ import annotations

import attrs

from fireiron.kernel.analysis.traffic import Traffic


@attrs.frozen
class Site:
    """Count the executions and traffic of one instruction of one spec.

    Args:
        title: of the enclosing region.
        path: the place in the decomposition tree.
        atom: the name of the instruction, `compute`, or the name of a microkernel.
        count: number of executions, one for each thread (or unit of the atom's level).
        gl_read: reads of GL; `units` are sectors.
        gl_write: writes of GL.
        sh_read: reads of SH; `units` are wavefronts.
        sh_write: writes of SH.
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
        """Return the number of 32-byte sectors of an average warp-wide GL request."""
        requests = self.gl_read.requests + self.gl_write.requests
        return (self.gl_read.units + self.gl_write.units) / requests if requests else 0.0

    @property
    def sector_ratio(self) -> float:
        """Return the ratio of GL sectors to the smallest possible number."""
        ideal = self.gl_read.ideal + self.gl_write.ideal
        return (self.gl_read.units + self.gl_write.units) / ideal if ideal else 1.0

    @property
    def conflict_degree(self) -> float:
        """Return the ratio of SH wavefronts to the smallest possible number: 1 without bank conflicts."""
        ideal = self.sh_read.ideal + self.sh_write.ideal
        return (self.sh_read.units + self.sh_write.units) / ideal if ideal else 1.0


@attrs.frozen
class Report:
    """Hold the counters of a simulation.

    Args:
        blocks: number of blocks that were simulated.
        grid: number of blocks that were launched.
        gl_read: GL reads; `units` are sectors.
        gl_write: GL writes.
        sh_read: SH reads; `units` are wavefronts.
        sh_write: SH writes.
        barriers: number of barriers passed, one for each unit.
        flops: number of arithmetic operations, without those of microkernels; a fused multiply-add is two.
        sites: one row for each instruction of a spec, in program order.
        elapsed_s: time of the simulation in seconds.
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
