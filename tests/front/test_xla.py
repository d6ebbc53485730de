"""Foreign functions of XLA, called as XLA calls them: by frames in its C layout, which stand in for it here."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from fireiron import bf16, gelu, relu
from fireiron.front import attention as attention_module
from fireiron.front import host, multiply, xla, xla_attention, xla_gemm
from fireiron.front.epilog_text import text_of
from fireiron.front.score_text import text_of as text_of_scores
from fireiron.front.xla_attention import BACKWARD, FORWARD, Told
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
    text = text_of(lambda acc, bias, s: (relu(acc + bias) * s, gelu(acc)), (("bias", "f32"),), (("s", float),), "f32")
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

    monkeypatch.setattr(multiply, "gemm", gemm)
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
    repeated = describe(left.expand((3, 8, 16)), "a")
    assert (repeated.shape, repeated.strides) == ((3, 8, 16), (0, 16, 1))


def heads(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def attended(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Give the weights, the result, and the logarithms of the rows' sums, where two heads share keys."""
    k, v = np.repeat(k, 2, 1), np.repeat(v, 2, 1)
    scores = np.where(np.tri(q.shape[2], k.shape[2], dtype=bool), q @ k.swapaxes(-1, -2) * 0.5, -np.inf)
    sums = np.log(np.exp(scores).sum(-1))
    weights = np.exp(scores - sums[..., None])
    return weights, weights @ v, sums


def test_attention_and_its_gradients_are_written_into_the_buffers() -> None:
    q, k, v, dy = heads(1, 4, 6, 8), heads(1, 2, 8, 8), heads(1, 2, 8, 4), heads(1, 4, 6, 4)
    weights, wanted, sums = attended(q, k, v)
    told = Told("", (), 0.5, True).attributes()
    made, found = np.zeros_like(wanted), np.zeros_like(sums)
    standin = Standin()
    assert not called(xla_attention.HANDLERS[FORWARD]["cpu"], standin.frame([q, k, v], [made, found], told))
    assert np.allclose(made, wanted, atol=1e-5)
    assert np.allclose(found, sums, atol=1e-5)

    gains = (wanted * dy).sum(-1)
    by_scores = weights * (dy @ np.repeat(v, 2, 1).swapaxes(-1, -2) - gains[..., None]) * 0.5
    want = (by_scores @ np.repeat(k, 2, 1), by_scores.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ dy)
    outputs = [np.zeros_like(x) for x in (q, k, v)]
    frame = standin.frame([q, k, v, dy, sums, gains], outputs, told)
    assert not called(xla_attention.HANDLERS[BACKWARD]["cpu"], frame)
    assert standin.errors == []
    for got, each in zip(outputs, want, strict=True):
        assert np.allclose(got, each.reshape(1, got.shape[1], -1, *got.shape[2:]).sum(2), atol=1e-4)


def test_attention_on_a_gpu_lends_memory_and_takes_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def kernel(*inputs: Any, out: Any, stream: int) -> None:
        seen.append((inputs, out, stream))

    def give(*asked: Any) -> Any:
        assert asked[-1] is False  # arrays are not in host memory
        return kernel

    def gradients(*asked: Any) -> Any:
        return tuple(attention_module.Gradient(role, give(*asked)) for role in ("of_queries", "of_keys"))

    monkeypatch.setattr(attention_module, "forward", give)
    monkeypatch.setattr(attention_module, "gradients", gradients)
    q, k, v, rows = heads(1, 4, 6, 8), heads(1, 2, 8, 8), heads(1, 2, 8, 4), heads(1, 4, 6)
    slope, made = heads(2), heads(1, 4, 6, 4)
    text = text_of_scores(None, lambda s, h, slope: s - slope[h], (("slope", 1, "f32"),))
    told = Told(text, ("slope",), 0.5, False).attributes()
    standin = Standin(stream=77, device=1)
    gpu = {target: one["CUDA"] for target, one in xla_attention.HANDLERS.items()}
    assert not called(gpu[FORWARD], standin.frame([q, k, v, slope], [made, rows], told))
    back = standin.frame([q, k, v, made, rows, rows, slope], [q, k, v], told)
    assert not called(gpu[BACKWARD], back)
    assert standin.errors == []
    parted = (1, 2, 2, 6)
    shapes = [([x.shape for x in inputs], stream) for inputs, _, stream in seen]
    given = [(*parted, 8), (1, 2, 8, 8), (1, 2, 8, 4)]
    beside = [(*parted, 4), parted, parted, (2,)]
    assert shapes == [([*given, (2,)], 77), ([*given, *beside], 77), ([*given, *beside], 77)]
    (_, out, _), (_, by_q, _), (_, by_keys, _) = seen
    assert [describe(x, "x").address for x in (*out, by_q, *by_keys)] == [x.ctypes.data for x in (made, rows, q, k, v)]
    assert [x.shape for x in (*out, by_q)] == [(*parted, 4), parted, (*parted, 8)]


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
