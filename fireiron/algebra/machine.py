"""Machines: a record for each GPU that stands for an architecture, with what was measured and fitted on it.

Rates are those of data sheets. Latencies and the time of a launch were measured on an H200, or guessed between
measurements; other machines take the same until somebody measures them.
"""

from __future__ import annotations

from typing import Final

import attrs

KIB = 1024
MIB = 1024 * KIB


@attrs.frozen
class ProductClocks:
    """Hold the constants of `schedules/_clocks.py`, the model of products by bulk copies and asynchronous products.

    `python -m fireiron.bench fit FILE` fits them to timings, one line of JSON each.

    Args:
        latency: clocks from asking for a chunk to having it.
        emptying: of the chunks in a ring, those that are not yet asked for again.
        store_rate: bytes of C a clock.
        parts: what stores cost of rows that end between the multiples of 32 bytes.
        vectors_rate: where rows of groups are stored by vectors, each under a predicate.
        small_tile: of its products that a tile half as large as 128x256 loses, in the long run.
        smaller: with which power of the missing part that loss grows.
        most_missing: as of a tenth of 128x256.
        long_run: waves after which all of it is lost: the chip's power is.
        rows_cost: what products of so many rows are taken to cost.
        turns: clocks of staggered warpgroups' turns.
        cluster: clocks.
        dram_rate: bytes of A and B a clock, all SMs together.
        gpc_rate: bytes a clock that the SMs of a GPC are sent, what several of them ask for counted once.
        repeated_rate: bytes a clock that blocks are sent again, from the L2 cache, beside them.
        torn: what bytes cost in lines that start between the multiples of 128 bytes; scaled with the rate
            above.
        torn_row: clocks in which a block is sent 128 bytes of such lines, which are in two lines of the L2 cache, while
            all SMs ask for them.
        drifting_row: clocks in which a block is sent 128 bytes while others are at other chunks of K.
        meeting: clocks in which blocks count in at a tile; set by hand, as NEAR is: few of the timings have
            sums.
        handing: clocks in which a block learns that another has left its sum; not fitted.
        sums_rate: bytes of partial sums a clock.
        near: clocks in which the blocks of a cluster wait for each other's sums, before and behind.
        near_rate: bytes of sums a clock that a block reads of the others.
        handling: clocks of a chunk beside those of its panels, whatever they hold.
        panel: of a panel at least.
        outside: clocks of a row of 128 bytes outside a tensor, where tiles are small and all edges are in one
            wave.
        fragments: clocks in which a unit takes 64 rows of a chunk through a prolog, and as many before: 8
            timings.
        promotion: clocks from a chunk's last product to the first of its sums' additions; a guess, not fitted.
        stream: what shares of K are taken to cost beside what is counted: a caution, not fitted.
        timings: what they were fitted to.
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
        clusters: how many clusters of so many blocks are resident at once, one block an SM, where they leave SMs idle;
            a cluster lies within one graphics processing cluster.
        gpc_sms: SMs of a graphics processing cluster, on which neighbours in the order of tiles run.
        launch_us: time of an empty kernel between two events.
        l2_nbytes_per_clock: bytes that one SM gets from the L2 cache in a clock.
        latency: clocks from a load to its data, a miss of the L2 cache on an idle machine.
        busy_latency: the same while all SMs load.
        round_clocks: clocks of a barrier, and the first read of shared memory after it.
        products: what the model of products was fitted to; None where no timings are known.
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
        """Count the SMs that clusters of so many blocks occupy at once.

        Example:
            >>> [MACHINES[90].sms_of_clusters(n) for n in (1, 2, 4, 8)]
            [132, 132, 120, 120]
        """
        return dict(self.clusters).get(blocks, self.sms // blocks) * blocks

    @property
    def fp32_tflops(self) -> float:
        """Give the peak rate of fp32 multiply-adds, two operations each, in 1e12 a second."""
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
    torn_row=4.2,
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
    "torn lines by 88 of 11",
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
        clusters=((2, 66), (4, 30), (8, 15)),
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
