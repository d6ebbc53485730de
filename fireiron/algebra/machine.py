"""Machines: a record for each GPU that represents an architecture, with constants that were measured or fitted on it.

Rates are from data sheets. Latencies and the time of a launch were measured on an H200, or interpolated between
measurements; other machines have the H200's values, since they were not measured.
"""

from __future__ import annotations

from typing import Final

import attrs

KIB = 1024
MIB = 1024 * KIB


@attrs.frozen
class ProductClocks:
    """Hold the constants of `schedules/_clocks.py`, the model of products by bulk copies (TMA) and wgmma.

    `python -m fireiron.bench fit FILE` fits the constants to timings, one line of JSON each. Clocks and bytes per clock
    are of one SM where nothing else is said.

    Args:
        latency: clocks from starting the load of a chunk to its landing.
        emptying: number of a ring's chunks that are not yet being loaded again.
        store_rate: bytes of C stored per clock.
        parts: factor of a store's clocks where rows of C's tiles end between multiples of 32 bytes.
        vectors_rate: bytes of C stored per clock by predicated vectors, as for rows of groups.
        small_tile: fraction by which products become slower for a tile half as large as 128x256, in the long run.
        smaller: power with which this fraction grows with 128 * 256 / (m * n) - 1, the missing part of a tile.
        most_missing: upper limit of the missing part.
        long_run: number of waves after which the fraction is reached in full, since power then limits the clock.
        rows_cost: pairs (rows m of a tile, factor of its products' clocks).
        turns: clocks that staggered warpgroups add to a product for their turns.
        cluster: clocks that clusters add to a product.
        dram_rate: bytes of A and B that DRAM delivers per clock, to all SMs together.
        gpc_rate: bytes per clock that the SMs of a GPC receive; bytes for several of these SMs count once.
        repeated_rate: bytes per clock that all SMs receive again from the L2 cache.
        torn: factor of the bytes of lines that start between multiples of 128 bytes.
        torn_row: clocks for a block to receive 128 bytes that lie in two lines of the L2 cache, while all SMs load.
        whole_row: the same for 128 bytes in one line of the L2 cache, where other rows of the product lie in two.
        least_at_work: smallest part of these clocks that a block needs, however few other blocks load.
        drifting_row: clocks for a block to receive 128 bytes while other blocks load other chunks of K.
        meeting: clocks of the counter at which the blocks of a tile arrive. Set by hand, like `near`, since few of the
            timings have partial sums.
        handing: clocks until a block sees that another block has stored its sum; not fitted.
        sums_rate: bytes of partial sums stored or loaded per clock.
        near: clocks in which the blocks of a cluster wait for each other's sums, before and after reading.
        near_rate: bytes of other blocks' sums that a block of a cluster reads per clock.
        handling: clocks of a chunk besides those of its panels.
        panel: minimal clocks of a panel (128 bytes of K).
        outside: clocks of a row of 128 bytes outside a tensor, where tiles are small and all edges are in one wave.
        fragments: clocks in which a unit applies a prolog to 64 rows of a chunk, and clocks before the first row.
            Fitted to 8 timings.
        promotion: clocks from a chunk's last product to the first addition of its sums; a guess, not fitted.
        stream: factor of the time for stream-K, as a caution; not fitted.
        timings: the timings that the constants were fitted to.
    """

    latency: float
    emptying: float
    store_rate: float
    parts: float
    vectors_rate: float
    small_tile: float
    smaller: float
    most_missing: float
    long_run: int
    rows_cost: tuple[tuple[int, float], ...]
    turns: float
    cluster: float
    dram_rate: float
    gpc_rate: float
    repeated_rate: float
    torn: float
    torn_row: float
    whole_row: float
    least_at_work: float
    drifting_row: float
    meeting: float
    handing: float
    sums_rate: float
    near: float
    near_rate: float
    handling: float
    panel: float
    outside: float
    fragments: float
    promotion: float
    stream: float
    timings: str


@attrs.frozen
class Machine:
    """Describe a GPU: its parts, its rates, and what was fitted to its timings.

    Args:
        name: the product.
        sms: streaming multiprocessors.
        clock_mhz: boost clock.
        dram_gbps: peak DRAM bandwidth in 1e9 bytes a second.
        fp32_lanes: fp32 fused multiply-adds that one SM issues in one clock.
        l2_nbytes: size of the L2 cache.
        source: where the numbers were read.
        clusters: pairs (blocks of a cluster, clusters resident at once with one block on each SM), for sizes that leave
            SMs idle, since a cluster lies within one graphics processing cluster (GPC). That 15 clusters of 8 run on an
            H200 leaves room for 7 of 16.
        gpc_sms: SMs of a GPC; tiles with neighbouring numbers run on one GPC.
        launch_us: time in microseconds of an empty kernel between two events.
        l2_nbytes_per_clock: bytes that one SM gets from the L2 cache in a clock.
        latency: clocks from a load to its data, for a miss of the L2 cache on an idle machine.
        busy_latency: clocks from a load to its data while all SMs load.
        round_clocks: clocks of a barrier and the first read of shared memory after it.
        products: fitted constants of the model of products; None where no timings are known.
    """

    name: str
    sms: int
    clock_mhz: float
    dram_gbps: float
    fp32_lanes: int
    l2_nbytes: int
    source: str
    clusters: tuple[tuple[int, int], ...] = ()
    gpc_sms: int = 16
    launch_us: float = 3.2
    l2_nbytes_per_clock: float = 64
    latency: float = 600
    busy_latency: float = 1000
    round_clocks: float = 60
    products: ProductClocks | None = None

    def sms_of_clusters(self, blocks: int) -> int:
        """Return how many SMs clusters of `blocks` blocks occupy at once.

        Example:
            >>> [MACHINES[90].sms_of_clusters(n) for n in (1, 2, 4, 8, 16)]
            [132, 132, 120, 120, 112]
        """
        return dict(self.clusters).get(blocks, self.sms // blocks) * blocks

    @property
    def fp32_tflops(self) -> float:
        """Return the peak rate of fp32 multiply-adds in 1e12 operations a second (two operations each)."""
        return self.sms * self.fp32_lanes * 2 * self.clock_mhz * 1e-6


H200_PRODUCTS = ProductClocks(
    latency=2510.0,
    emptying=1.16,
    store_rate=13.3,
    parts=1.68,
    vectors_rate=2.2,
    small_tile=0.117,
    smaller=1.44,
    most_missing=9.0,
    long_run=9,
    rows_cost=((64, 1.04), (192, 1.06), (256, 1.114)),
    turns=120.0,
    cluster=2700.0,
    dram_rate=6580.0,
    gpc_rate=1295.0,
    repeated_rate=11900.0,
    torn=2.2,
    torn_row=5.0,
    whole_row=3.0,
    least_at_work=0.85,
    drifting_row=3.7,
    meeting=1600.0,
    handing=1000.0,
    sums_rate=21.7,
    near=2400.0,
    near_rate=8.5,
    handling=130.0,
    panel=130.0,
    outside=0.02,
    fragments=260.0,
    promotion=200.0,
    stream=1.2,
    timings="36504 timings of 747 sizes on an H200; panels, edges, sums and orders of tiles by 15695 of 571 others; "
    "torn lines by 386 of 25, held against 254 of 65 others",
)

# By compute capability.
MACHINES: Final[dict[int, Machine]] = {
    70: Machine("V100 SXM2 32GB", 80, 1530, 900, 64, 6 * MIB, "NVIDIA V100 data sheet; Volta whitepaper"),
    72: Machine("Jetson AGX Xavier", 8, 1377, 137, 64, 512 * KIB, "NVIDIA Jetson AGX Xavier data sheet"),
    75: Machine("T4", 40, 1590, 320, 64, 4 * MIB, "NVIDIA T4 data sheet; Turing whitepaper"),
    80: Machine("A100 80GB SXM", 108, 1410, 2039, 64, 40 * MIB, "NVIDIA A100 data sheet; Ampere whitepaper"),
    86: Machine("RTX 3090", 82, 1695, 936, 128, 6 * MIB, "NVIDIA GA102 whitepaper"),
    87: Machine("Jetson AGX Orin 64GB", 16, 1300, 204.8, 128, 4 * MIB, "NVIDIA Jetson AGX Orin technical brief"),
    88: Machine(
        "Jetson AGX Orin 64GB", 16, 1300, 204.8, 128, 4 * MIB, "no product data sheet: the 8.7 product stands in"
    ),
    89: Machine("RTX 4090", 128, 2520, 1008, 128, 72 * MIB, "NVIDIA Ada whitepaper"),
    90: Machine(
        "H200 SXM",
        132,
        1980,
        4800,
        128,
        60 * MIB,
        "NVIDIA H200 data sheet; clock, L2 and clusters as its driver reports",
        clusters=((2, 66), (4, 30), (8, 15), (16, 7)),
        products=H200_PRODUCTS,
    ),
    100: Machine(
        "B200", 148, 1965, 8000, 128, 126 * MIB, "NVIDIA Blackwell architecture brief; clock as its driver reports it"
    ),
    103: Machine(
        "B300", 148, 1920, 8000, 128, 126 * MIB, "NVIDIA Blackwell Ultra data sheet; clock as its driver reports it"
    ),
    110: Machine("Jetson T5000", 20, 1575, 273, 128, 32 * MIB, "NVIDIA Jetson Thor data sheet"),
    120: Machine("RTX 5090", 170, 2407, 1792, 128, 96 * MIB, "NVIDIA RTX Blackwell whitepaper"),
    121: Machine("GB10", 48, 2418, 273, 128, 24 * MIB, "NVIDIA DGX Spark data sheet; clock as its driver reports it"),
}
