"""Launches, host overhead, graphs and timing on a real GPU."""

import statistics
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "jit"))
from tiny_kernel import SOURCE, make_kernel

from fireiron.algebra.arch import native
from fireiron.base.errors import CallError
from fireiron.jit.build import build
from fireiron.jit.driver import driver


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path))
    return build("gpu", make_kernel, native(driver().compute_capability(0)), text=lambda _: SOURCE)


def test_numpy_arrays_go_through_the_gpu(kernel):
    x = np.random.default_rng(0).standard_normal((6, 8), dtype=np.float32)
    assert np.array_equal(kernel(x, alpha=3), 3 * x)


def test_wrong_arch():
    number = driver().compute_capability(0)
    other = native(75 if number != 75 else 80)
    kernel = build("other", make_kernel, other, cache=False, text=lambda _: SOURCE)
    with pytest.raises(CallError) as error:
        kernel(np.ones((2, 4), np.float32))
    assert error.value.code == "wrong-arch"


def test_torch(kernel):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.randn(64, 128, device="cuda")
    out = torch.empty_like(x)
    for _ in range(3):
        out.fill_(float("nan"))
        assert kernel(x, out=out) is out
        assert torch.equal(out, 2 * x)
    assert torch.equal(kernel(x, alpha=0.5), 0.5 * x)
    with pytest.raises(CallError, match="overlap"):
        kernel(x, out=x)
    with pytest.raises(CallError, match="misaligned"):
        kernel(x, out=torch.empty(64 * 128 + 1, device="cuda")[1:].view(64, 128))
    with pytest.raises(CallError, match="wrong-device"):
        kernel(x.cpu())


def test_dlpack_alone(kernel):
    torch = pytest.importorskip("torch", reason="torch is not installed")

    class OnlyDlpack:
        def __init__(self, tensor):
            self.tensor = tensor

        def __dlpack__(self, **keywords):
            return self.tensor.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    x = torch.randn(8, 8, device="cuda")
    out = torch.empty_like(x)
    kernel(OnlyDlpack(x), out=OnlyDlpack(out))
    torch.cuda.synchronize()
    assert torch.equal(out, 2 * x)


def test_streams_and_graph_capture(kernel):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.randn(64, 128, device="cuda")
    out = torch.zeros_like(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # the first call of this kernel: it is loaded while a capture runs
        kernel(x, out=out)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, 2 * x)
    x.mul_(3)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, 2 * x)
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    kernel(x, out=out, stream=side, alpha=5)
    side.synchronize()
    assert torch.equal(out, 5 * x)


def test_a_new_thread_has_no_context(kernel):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.randn(64, 128, device="cuda")
    out = torch.empty_like(x)
    kernel(x, out=out)
    out.zero_()
    torch.cuda.synchronize()
    thread = threading.Thread(target=lambda: kernel(x, out=out))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert torch.equal(out, 2 * x)


def test_host_overhead_over_a_bare_launch(kernel, slowness):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from cuda.core import Device, LaunchConfig, ObjectCode, launch

    x = torch.randn(4, 8, device="cuda")
    out = torch.empty_like(x)
    kernel(x, out=out)
    device = Device(0)
    device.set_current()
    stream = device.create_stream(torch.cuda.current_stream())
    bare = ObjectCode.from_cubin(kernel.cubin).get_kernel("axpy")
    config = LaunchConfig(grid=1, block=128)
    arguments = (x.data_ptr(), out.data_ptr(), np.int32(4), np.int32(8), np.float32(2))

    def batch(call):
        start = time.perf_counter()
        for _ in range(50):
            call()
        spent = time.perf_counter() - start
        torch.cuda.synchronize()
        return spent / 50 * 1e6

    # Both on one stream, and in turn: launches to the default stream cost more, and so do the first ones.
    calls = (lambda: kernel(x, out=out), lambda: launch(stream, config, bare, *arguments))
    rounds = [[*(batch(call) for call in calls), slowness(1.0)] for _ in range(40)]
    ours, theirs, slower = (statistics.median(times) for times in zip(*rounds, strict=True))
    print(f"call {ours:.2f} us, bare cuda.core launch {theirs:.2f} us, machine {slower:.2f} times slower than quiet")
    assert (ours - theirs) / slower < 5


def test_time(kernel):
    timing = kernel.time(M=1024, N=1024, flops=2**20)
    assert 0 < timing.p20 <= timing.median_us <= timing.p80
    assert timing.gbps == pytest.approx(2 * 4 * 2**20 / timing.median_us * 1e-3)
    assert timing.graph_us is not None
    assert timing.graph_us < timing.median_us
