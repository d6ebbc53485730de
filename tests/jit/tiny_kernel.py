"""A tiny kernel, built by hand, that the tests of this layer share."""

from fireiron.algebra.dtypes import f32
from fireiron.algebra.expr import ceil_div, eq, symbol
from fireiron.kernel.ir.statements import Buffer, Kernel, Number, Pointer, Precondition, Size
from fireiron.language.levels import GL

SOURCE = """
extern "C" __global__ void __launch_bounds__(128) axpy(const float* X, float* Y, int M, int N, float alpha) {
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < M * N) Y[i] = alpha * X[i];
}
"""


def make_kernel(role="output", default=2.0) -> Kernel:
    m, n = symbol("M"), symbol("N", multiple_of=4)
    one = m // m
    x = Buffer("X", GL, f32, m * n)
    y = Buffer("Y", GL, f32, m * n)
    return Kernel(
        name="axpy",
        parameters=(
            Pointer(x, (m, n), (n, one), "input"),
            Pointer(y, (m, n), (n, one), role),
            Size(m),
            Size(n),
            Number("alpha", f32, default),
        ),
        grid=ceil_div(m * n, 128),
        threads=128,
        shared_nbytes=0,
        buffers=(),
        body=(),
        preconditions=(Precondition(eq(m % 2, 0), "M must be even", "pad M"),),
    )
