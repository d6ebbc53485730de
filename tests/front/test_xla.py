"""Foreign functions of XLA, called as XLA calls them: by frames in its C layout, which stand in for it here."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from fireiron import bf16, gelu, relu
from fireiron.front import best as best_module
from fireiron.front import host, xla, xla_gemm
from fireiron.front.epilog_text import text_of
from fireiron.jit.arrays import describe

CODES = {name: code for code, name in xla.DTYPES.items()}


class Standin:
    """Build call frames, and note what handlers ask of XLA."""

    def __init__(self, stream: int | None = 77, device: int = 1) -> None:
        self.errors: list[str] = []
        self.kept: list[Any] = []
        api = xla.Api()
        api.struct_size, api.version.major, api.version.minor = ctypes.sizeof(xla.Api), 0, 3
        fields = dict(xla.Api._fields_)

        def failed(described: Any) -> int:
            self.errors.append(described.contents.message.decode())
            return 4096

        def asked(request: Any) -> int | None:
            if stream is None:
                return 4096
            request.contents.stream = stream
            return None

        def placed(request: Any) -> int | None:
            request.contents.ordinal = device
            return None

        api.error_create = fields["error_create"](failed)
        api.error_destroy = fields["error_destroy"](lambda error: None)
        api.stream_get = fields["stream_get"](asked)
        api.device_get = fields["device_get"](placed)
        self.api = api

    def keep(self, value: Any) -> Any:
        self.kept.append(value)
        return value

    def arguments(self, arrays: list[Any]) -> xla.Arguments:
        buffers = []
        for array in arrays:
            dims = self.keep((ctypes.c_int64 * array.ndim)(*array.shape))
            code = CODES[array.dtype.name]
            data = array.ctypes.data
            buffers.append(self.keep(xla.Buffer(ctypes.sizeof(xla.Buffer), None, code, data, array.ndim, dims)))
        count = len(arrays)
        kinds = self.keep((ctypes.c_int * count)(*[xla.BUFFER] * count))
        values = self.keep((ctypes.c_void_p * count)(*map(ctypes.addressof, buffers)))
        return xla.Arguments(ctypes.sizeof(xla.Arguments), None, count, kinds, values)

    def attributes(self, texts: dict[str, str]) -> xla.Attributes:
        def span(text: str) -> xla.Span:
            raw = self.keep(ctypes.create_string_buffer(text.encode(), len(text.encode()) + 1))
            return self.keep(xla.Span(ctypes.addressof(raw), len(text.encode())))

        names = [span(name) for name in sorted(texts)]
        values = [span(texts[name]) for name in sorted(texts)]
        count = len(names)
        kinds = self.keep((ctypes.c_int * count)(*[xla.STRING] * count))
        pointers = self.keep((ctypes.POINTER(xla.Span) * count)(*map(ctypes.pointer, names)))
        held = self.keep((ctypes.c_void_p * count)(*map(ctypes.addressof, values)))
        return xla.Attributes(ctypes.sizeof(xla.Attributes), None, count, kinds, pointers, held)

    def frame(
        self, inputs: list[Any], outputs: list[Any], texts: dict[str, str], stage: int = xla.EXECUTE
    ) -> xla.Frame:
        return xla.Frame(
            ctypes.sizeof(xla.Frame), None, ctypes.pointer(self.api), 8, stage, self.arguments(inputs),
            self.arguments(outputs), self.attributes(texts),
        )  # fmt: skip


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "without_gpu", lambda: True)


def called(one: Any, frame: xla.Frame) -> int | None:
    return one(ctypes.byref(frame))


def test_the_cpus_handler_computes_in_the_buffers() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((8, 16)).astype(np.float32), rng.standard_normal((12, 16)).astype(np.float32)
    bias, out, flags = np.ones(12, np.float32), np.zeros((8, 12), np.float32), np.zeros((8, 12), np.float32)
    text = text_of(lambda acc, bias, s: (relu(acc + bias) * s, gelu(acc)), ("bias",), ("s",), "f32")
    told = xla_gemm.attributes(text, "TN", None, (0.5,))
    standin = Standin()
    assert not called(xla_gemm.HANDLERS["cpu"], standin.frame([a, b, bias], [out, flags], told))
    assert standin.errors == []
    assert np.allclose(out, np.maximum(a @ b.T + 1, 0) * 0.5, atol=1e-5)
    assert flags.any()


def test_other_stages_touch_no_buffer() -> None:
    out = np.zeros((4, 4), np.float32)
    standin = Standin()
    for stage in range(xla.EXECUTE):
        assert not called(xla_gemm.HANDLERS["cpu"], standin.frame([out, out], [out], {}, stage))
    assert standin.errors == []


def test_metadata_names_the_interface() -> None:
    standin = Standin()
    frame = standin.frame([], [], {})
    data = xla.Metadata()
    asked = xla.MetadataExtension(xla.Extension(0, xla.METADATA), ctypes.pointer(data))
    frame.extension = ctypes.cast(ctypes.pointer(asked), ctypes.POINTER(xla.Extension))
    data.traits = 9
    assert not called(xla_gemm.HANDLERS["CUDA"], frame)
    assert (data.version.major, data.version.minor, data.traits) == (0, 3, 0)


def test_errors_are_told_to_xla() -> None:
    standin = Standin()
    a = np.zeros((4, 8), np.float32)
    frame = standin.frame([a, a], [np.zeros((4, 4), np.float32)], xla_gemm.attributes("", "NN", None, ()))
    assert called(xla_gemm.HANDLERS["cpu"], frame) == 4096
    (message,) = standin.errors
    assert "CallError[wrong-shape]" in message


def test_the_gpus_handler_lends_memory_and_takes_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def gemm(a: Any, b: Any, **keywords: Any) -> None:
        seen.append((a, b, keywords))

    monkeypatch.setattr(best_module, "gemm", gemm)
    a = np.zeros((8, 16), np.dtype("float32"))
    b = np.zeros((16, 8), bf16.numpy)
    out = np.zeros((8, 8), np.float32)
    told = xla_gemm.attributes("", "NN", None, ())
    assert not called(xla_gemm.HANDLERS["CUDA"], Standin(stream=77, device=1).frame([a, b], [out], told))
    ((left, right, keywords),) = seen
    assert (keywords["stream"], keywords["layout"]) == (77, "NN")
    for lent, array, name in ((left, a, "float32"), (right, b, "bfloat16"), (keywords["out"], out, "float32")):
        facts = describe(lent, "a")
        assert (facts.address, facts.shape, facts.dtype, facts.device) == (array.ctypes.data, array.shape, name, 1)
    turned = describe(left.swapaxes(-1, -2), "a")
    assert (turned.shape, turned.strides) == ((16, 8), (1, 16))
    assert describe(left.reshape((2, 4, 16)), "a").strides == (64, 16, 1)


def test_a_gpus_call_without_a_stream_is_an_error() -> None:
    a = np.zeros((8, 8), np.float32)
    standin = Standin(stream=None)
    frame = standin.frame([a, a], [a.copy()], xla_gemm.attributes("", "NN", None, ()))
    assert called(xla_gemm.HANDLERS["CUDA"], frame) == 4096
    assert "no stream" in standin.errors[0]


def test_the_structs_are_as_large_as_xlas() -> None:
    # Of a 64-bit machine, as sizeof gives them for the header of jaxlib 0.10.
    sizes = {"Buffer": 48, "Arguments": 40, "Attributes": 48, "Frame": 168, "Version": 24, "Failure": 32, "Api": 192}
    assert {name: ctypes.sizeof(getattr(xla, name)) for name in sizes} == sizes
