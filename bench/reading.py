"""A kernel that only reads: the rate that folds are compared with."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from fireiron.algebra.arch import native
from fireiron.jit.compile import compile_source

from .arrays import torch_module

THREADS = 512
BLOCKS = (1, 2, 4, 8)  # of an SM, at most
VECTOR_NBYTES = 16
NAME = "read_only"
# A thread has eight vectors of 16 bytes on their way. It stores only where all bits of an xor are set, which no result
# of the numbers drawn here is, and which the compiler cannot exclude.
SOURCE = """
extern "C" __global__ void __launch_bounds__(512) read_only(const uint4* from, long long count, unsigned* to) {
  const long long stride = (long long)gridDim.x * 512;
  long long i = (long long)blockIdx.x * 512 + threadIdx.x;
  unsigned x = 0, y = 0, z = 0, w = 0;
  for (; i + 7 * stride < count; i += 8 * stride) {
    uint4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = __ldcs(from + i + k * stride);
#pragma unroll
    for (int k = 0; k < 8; ++k) { x ^= v[k].x; y ^= v[k].y; z ^= v[k].z; w ^= v[k].w; }
  }
  for (; i < count; i += stride) {
    const uint4 v = __ldcs(from + i);
    x ^= v.x; y ^= v.y; z ^= v.z; w ^= v.w;
  }
  if ((x & y & z & w) == 0xffffffffu) *to = x;
}
"""


def reader(given: Any, quick: Callable[[list[Callable[[], object]]], list[float]]) -> Callable[[], object]:
    """Bind a launch that reads a tensor and writes nothing, with the number of blocks that is fastest.

    Args:
        given: a contiguous tensor on the GPU; at its end, less than 16 bytes may not be read.
        quick: function that times launches roughly.
    """
    torch, core = torch_module(), import_module("cuda.core")
    device = core.Device()
    device.set_current()
    properties = torch.cuda.get_device_properties()
    cubin = compile_source(SOURCE, NAME, native(10 * properties.major + properties.minor)).cubin
    kernel = core.ObjectCode.from_cubin(cubin).get_kernel(NAME)
    stream = device.create_stream(torch.cuda.current_stream())
    count, sink = given.numel() * given.element_size() // VECTOR_NBYTES, torch.zeros(1, device="cuda")
    wanted = {max(1, min(-(-count // THREADS), n * properties.multi_processor_count)) for n in BLOCKS}

    def bound(blocks: int) -> Callable[[], object]:
        config = core.LaunchConfig(grid=blocks, block=THREADS)
        address, to = given.data_ptr(), sink.data_ptr()
        return lambda: core.launch(stream, config, kernel, address, count, to)

    launches = [bound(blocks) for blocks in sorted(wanted)]
    times = quick(launches)
    return launches[times.index(min(times))]
