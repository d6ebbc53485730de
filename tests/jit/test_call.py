"""Calls without a GPU: NumPy arrays run on a simulator, and device arrays are only described."""

import threading

import attrs
import numpy as np
import pytest
from tiny_kernel import SOURCE, make_kernel

from fireiron.algebra.arch import arch
from fireiron.base.errors import CallError
from fireiron.jit import kernel as jit_kernel
from fireiron.jit.arrays import ArrayFacts, describe
from fireiron.jit.bind import bind, check_address, check_overlap
from fireiron.jit.compile import compile_source
from fireiron.jit.driver import DriverFacts, Loaded, require
from fireiron.jit.interface import Interface
from fireiron.jit.kernel import CompiledKernel
from fireiron.jit.launch import encode_number, plan
from fireiron.jit.streams import stream_handle


@pytest.fixture(scope="module")
def binary():
    return compile_source(SOURCE, "axpy", arch(80))


def simulate(arrays, sizes, numbers):
    arrays["Y"][...] = numbers["alpha"] * arrays["X"]
    assert sizes == {"M": arrays["X"].shape[0], "N": arrays["X"].shape[1]}


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    monkeypatch.setattr(jit_kernel, "probe", lambda: DriverFacts(None, 0, "libcuda.so.1 does not load"))


@pytest.fixture
def kernel(binary):
    return CompiledKernel(binary, Interface.of(make_kernel()), simulator=simulate)


@pytest.fixture
def x():
    return np.arange(32, dtype=np.float32).reshape(4, 8)


def refused(kernel, *inputs, **keywords):
    with pytest.raises(CallError) as error:
        kernel(*inputs, **keywords)
    assert error.value.fix
    return error.value.code, error.value.message


def test_runs_on_the_simulator(kernel, x):
    assert np.array_equal(kernel(x), 2 * x)
    out = np.empty_like(x)
    assert kernel(x, out=out, alpha=3) is out
    assert np.array_equal(out, 3 * x)


def test_what_a_kernel_tells(kernel):
    assert kernel.name == "axpy"
    assert kernel.arch is arch(80)
    assert kernel.source == SOURCE
    assert "EXIT" in kernel.sass
    assert kernel.resources.registers > 0
    assert repr(kernel) == "<axpy for sm_80: kernel(X, *, out=None, stream=None, alpha=2.0)>"


def test_without_a_simulator(binary, x):
    code, message = refused(CompiledKernel(binary, Interface.of(make_kernel())), x)
    assert code == "no-gpu"
    assert message == "axpy cannot run here: libcuda.so.1 does not load"


def test_wrong_count(kernel, x):
    assert refused(kernel) == ("wrong-count", "axpy takes 1 arrays (X), 0 were given")
    assert refused(kernel, x, x)[0] == "wrong-count"
    assert refused(kernel, x, out=(x, x))[0] == "wrong-count"


def test_an_update_needs_out(binary, x):
    kernel = CompiledKernel(binary, Interface.of(make_kernel("update")), simulator=simulate)
    assert refused(kernel, x) == ("wrong-count", "axpy reads Y before writing, and no out was given")
    assert np.array_equal(kernel(x, out=x.copy()), 2 * x)


def test_a_number_without_default(binary, x):
    kernel = CompiledKernel(binary, Interface.of(make_kernel(default=None)), simulator=simulate)
    assert refused(kernel, x) == ("missing-scalar", "axpy needs alpha")
    assert np.array_equal(kernel(x, alpha=5), 5 * x)


def test_wrong_scalars(kernel, x):
    assert refused(kernel, x, alpha="2")[0] == "wrong-dtype"
    assert refused(kernel, x, beta=1)[0] == "unknown-argument"


def test_wrong_dtype(kernel, x):
    assert refused(kernel, x.astype(np.float64)) == ("wrong-dtype", "X is float64, the kernel takes f32")
    assert refused(kernel, x, out=np.empty((4, 8), np.float16))[0] == "wrong-dtype"


def test_wrong_shape(kernel, x):
    assert refused(kernel, x[0]) == ("wrong-shape", "X has 1 dimensions (8,), the kernel takes MxN")


def test_sizes_that_disagree(kernel, x):
    found = refused(kernel, x, out=np.empty((4, 12), np.float32))
    assert found == ("size-mismatch", "N is 8 in dimension 1 of X, but 12 in dimension 1 of Y")


def test_wrong_stride(kernel, x):
    found = refused(kernel, np.asfortranarray(x))
    assert found == ("wrong-stride", "X has element strides (1, 4), the kernel takes (8, 1)")


def test_a_stride_of_one_element_says_nothing(binary):
    kernel = CompiledKernel(binary, attrs.evolve(Interface.of(make_kernel()), preconditions=()), simulator=simulate)
    wide = np.ones((3, 8), np.float32)[:1]
    assert np.array_equal(kernel(np.lib.stride_tricks.as_strided(wide, (1, 8), (999 * 4, 4))), 2 * wide)


def test_preconditions(kernel, x):
    assert refused(kernel, x[:3]) == ("precondition", "M must be even (M = 3)")
    assert refused(kernel, np.ones((4, 6), np.float32)) == (
        "precondition",
        "N is 6 in dimension 1 of X, and must be a multiple of 4",
    )
    assert kernel(np.ones((0, 8), np.float32)).shape == (0, 8)  # nothing to write: no precondition holds it back


def test_overlap(kernel, x):
    assert refused(kernel, x, out=x)[0] == "overlap"
    memory = np.zeros(64, np.float32)
    a, b = memory[:32].reshape(4, 8), memory[16:48].reshape(4, 8)
    assert refused(kernel, a, out=b)[0] == "overlap"
    assert kernel(a, out=memory[32:].reshape(4, 8)) is not None


def test_read_only(kernel, x):
    out = np.empty_like(x)
    out.flags.writeable = False
    assert refused(kernel, x, out=out)[0] == "read-only"


def test_no_array(kernel):
    assert refused(kernel, [[1.0, 2.0]]) == ("not-an-array", "X is a list, which is no array")


class Fake:
    """Device memory in name only."""

    def __init__(self, address, shape, typestr="<f4", strides=None, device=0, stream=None):
        self.device = device
        self.__cuda_array_interface__ = {
            "data": (address, False), "shape": shape, "typestr": typestr,
            "strides": strides, "version": 3, "stream": stream,
        }  # fmt: skip


def test_mixed_devices(kernel, x):
    found = refused(kernel, Fake(256, (4, 8)), out=x)
    assert found == ("wrong-device", "X lies on GPU 0, but Y lies in host memory")
    found = refused(kernel, Fake(256, (4, 8)), out=Fake(4096, (4, 8), device=1))
    assert found == ("wrong-device", "X lies on GPU 0, but Y lies on GPU 1")


def test_device_arrays_are_checked_before_the_driver_is_needed(kernel):
    a = Fake(4096, (4, 8))
    assert refused(kernel, a, out=Fake(4096 + 16, (4, 8)))[0] == "overlap"
    assert refused(kernel, a, out=Fake(8196, (4, 8))) == (
        "misaligned",
        "Y starts at address 0x2004, 4 bytes past a multiple of 16",
    )
    assert refused(kernel, a, out=Fake(8192, (4, 8), "<f2"))[0] == "wrong-dtype"
    assert refused(kernel, a, out=Fake(8192, (4, 8), strides=(4, 16)))[0] == "wrong-stride"
    assert refused(kernel, a, out=Fake(8192, (4, 8)))[0] == "no-gpu"
    assert refused(kernel, a)[0] == "wrong-count"  # nothing to allocate the output with


def test_interleaved_columns_do_not_overlap():
    interface = Interface.of(make_kernel())
    left = ArrayFacts(4096, (4, 8), (16, 1), "float32", 0, "other")
    right = attrs.evolve(left, address=4096 + 32)
    check_overlap(interface, {"X": left, "Y": right})
    with pytest.raises(CallError):
        check_overlap(interface, {"X": left, "Y": attrs.evolve(right, address=4096 + 28)})


def test_bfloat16_through_the_interface():
    assert describe(Fake(256, (2,), "<V2"), "X").dtype == "bfloat16"


def test_a_driver_older_than_the_compiler(binary):
    with pytest.raises(CallError) as error:
        require(binary, DriverFacts((12, 4), 1))
    assert error.value.code == "old-driver"
    assert "runs CUDA 12.4, and NVRTC 13." in error.value.message


def test_streams():
    class Protocol:
        def __cuda_stream__(self):
            return 0, 77

    class Torch:
        cuda_stream = 78

    assert [stream_handle(s) for s in (5, Protocol(), Torch())] == [5, 77, 78]
    with pytest.raises(CallError) as error:
        stream_handle("fast")
    assert error.value.code == "not-a-stream"


class FakeDriver:
    """Record launches, reading the arguments as the driver would."""

    def __init__(self, current=7, device=0):
        self.current, self.device, self.launches, self.events = current, device, [], []

    def current_context(self, address):
        address._obj.value = self.current
        return 0

    def current_device(self):
        return self.device

    def push(self, context):
        self.events.append(("push", context))

    def pop(self):
        self.events.append("pop")

    def launch(self, handle, gx, gy, gz, bx, by, bz, shared, stream, table, extra):
        import ctypes

        kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int32, ctypes.c_float)
        values = tuple(kind.from_address(table[i]).value for i, kind in enumerate(kinds))
        self.launches.append(((handle.value, gx, bx, shared, stream.value), values))
        return 0


def planned(driver, rows=4):
    interface = Interface.of(make_kernel())
    x = ArrayFacts(4096, (rows, 8), (8, 1), "float32", 0, "other")
    return plan(interface, bind(interface, {"X": x}, {}), driver, Loaded(99, 0, 7))


def test_a_launch_passes_every_argument():
    driver = FakeDriver()
    planned(driver).run([4096, 8192], [2.5], 13)
    assert driver.launches == [((99, 1, 128, 0, 13), (4096, 8192, 4, 8, 2.5))]
    assert driver.events == []


def test_a_launch_in_another_devices_context_borrows_the_right_one():
    driver = FakeDriver(current=8, device=1)
    planned(driver).run([4096, 8192], [2.5], 13)
    assert driver.events == [("push", 7), "pop"]
    driver = FakeDriver(current=8, device=0)  # another context of the same device will do
    planned(driver).run([4096, 8192], [2.5], 13)
    assert driver.events == []


def test_suspicion_misses_nothing():
    made = planned(FakeDriver())
    assert not made.suspicious([4096, 8192])
    assert not made.suspicious([4096, 4096 + 128])
    assert made.suspicious([4096, 8196])
    assert made.suspicious([4096, 4096 + 112])
    assert made.suspicious([4096, 4096 - 112])
    assert not made.suspicious([4096, 4096 - 128])


def test_threads_do_not_share_arguments():
    driver = FakeDriver()
    made = planned(driver)

    def work(base):
        for _ in range(300):
            made.run([base, base + 4096], [float(base)], base)

    threads = [threading.Thread(target=work, args=(i * 65536,)) for i in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(driver.launches) == 1200
    for (_, _, _, _, stream), (a, b, _, _, alpha) in driver.launches:
        assert stream == a == b - 4096 == alpha


def test_bfloat16_numbers_travel_as_bits():
    assert encode_number(1.0, "bf16") == 0x3F80
    assert encode_number(-2.0, "bf16") == 0xC000
    assert encode_number(1e6, "e4m3") == 0x7E  # the largest number
    assert encode_number(-2.0, "e5m2") == 0xC0
    assert encode_number(1 + 2.0**-11, "tf32") == 0x3F802000
    assert encode_number(float("nan"), "bf16") == 0x7FC0
    assert encode_number(1.00390625, "bf16") == 0x3F80  # half a unit up: to even


def test_misaligned_names_the_array():
    pointer = Interface.of(make_kernel()).pointers[0]
    with pytest.raises(CallError) as error:
        check_address(pointer, ArrayFacts(4100, (4, 8), (8, 1), "float32", 0, "other"))
    assert error.value.code == "misaligned"
