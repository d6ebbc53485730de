"""A persistent kernel that copies boxes through a tensor map, built by hand: shared with the tests on a GPU."""

from fireiron.algebra.dtypes import DType, f32, i32
from fireiron.algebra.expr import as_expr, ceil_div, symbol
from fireiron.kernel.ir.statements import Buffer, Kernel, Pointer, Size, TensorMap
from fireiron.language.levels import GL

ROWS, COLUMNS = 16, 32
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int"}

SOURCE = """
struct alignas(64) TensorMap { unsigned long long words[16]; };

extern "C" __global__ void __launch_bounds__(128) boxes(
    const WORD* X, WORD* Y, int* facts, const __grid_constant__ TensorMap X_map, int M, int N
) {
    __shared__ __align__(1024) WORD box[16 * 32];
    __shared__ __align__(8) unsigned long long landed;
    unsigned cluster;
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(cluster));
    if (blockIdx.x == 0 && threadIdx.x == 0) { facts[0] = cluster; facts[1] = gridDim.x; }
    unsigned box_sh = (unsigned)__cvta_generic_to_shared(box);
    unsigned landed_sh = (unsigned)__cvta_generic_to_shared(&landed);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(landed_sh) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int columns = (N + 31) / 32, work = (M + 15) / 16 * columns;
    unsigned parity = 0;
    for (int item = blockIdx.x; item < work; item += gridDim.x) {
        int row = item / columns * 16, column = item % columns * 32;
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                :: "r"(landed_sh), "n"(sizeof(box)) : "memory");
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                " [%0], [%1, {%2, %3}], [%4];"
                :: "r"(box_sh), "l"(&X_map), "r"(column), "r"(row), "r"(landed_sh) : "memory");
        }
        unsigned done = 0;
        while (!done) {
            asm volatile(
                "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                : "=r"(done) : "r"(landed_sh), "r"(parity) : "memory");
        }
        parity ^= 1;
        for (int i = threadIdx.x; i < 16 * 32; i += 128) {
            unsigned at = i * sizeof(WORD);
            at ^= ((at >> 7) & (SPAN >> 4) - 1) << 4;
            Y[(long long)(row + i / 32) * (columns * 32) + column + i % 32] = box[at / sizeof(WORD)];
        }
        // The next box overwrites through the asynchronous proxy what was read here.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
    }
}
"""


def source(dtype: DType = f32, swizzle: int = 0) -> str:
    """Give the CUDA C++; the swizzles of 32 and 64 bytes repeat after fewer rows, and are not written down here."""
    assert swizzle in (0, 128)
    return SOURCE.replace("WORD", WORDS[dtype.nbytes]).replace("SPAN", str(swizzle or 16))


def make_kernel(dtype: DType = f32, swizzle: int = 0, cluster: int = 1, align: int = 4, box=(COLUMNS, ROWS)) -> Kernel:
    """Give the kernel: Y is X, padded by zeros to whole boxes; facts are the cluster's and the grid's size."""
    m, n = symbol("M"), symbol("N")
    one = as_expr(1)
    rows, columns = ceil_div(m, ROWS) * ROWS, ceil_div(n, COLUMNS) * COLUMNS
    x = Buffer("X", GL, dtype, m * n, align=align)
    y = Buffer("Y", GL, dtype, rows * columns)
    facts = Buffer("facts", GL, i32, as_expr(2))
    return Kernel(
        name="boxes",
        parameters=(
            Pointer(x, (m, n), (n, one), "input"),
            Pointer(y, (rows, columns), (columns, one), "output"),
            Pointer(facts, (as_expr(2),), (one,), "output"),
            TensorMap("X_map", x, (1, 0), box, swizzle),
            Size(m),
            Size(n),
        ),
        grid=ceil_div(ceil_div(m, ROWS) * ceil_div(n, COLUMNS), cluster) * cluster,
        threads=128,
        shared_nbytes=0,
        buffers=(),
        body=(),
        cluster=cluster,
        persistent=True,
    )
