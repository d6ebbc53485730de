"""Foreign functions of XLA: Python functions as handlers of XLA's C interface, by ctypes.

A handler gets a call frame with the buffers of a call: NumPy arrays on the CPU, views of device memory on a GPU, where
kernels run on XLA's stream. No C code is compiled.

Source: xla/ffi/api/c_api.h, which jaxlib ships; version 0 of the interface, whose structs only grow at their ends.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any, TypeAlias

import attrs
import numpy as np

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.jit.arrays import contiguous

MAJOR = 0  # major version of the interface
EXECUTE = 3  # the stage in which buffers hold values
METADATA = 1  # the extension in which a handler writes the version of its interface
BUFFER, STRING = 1, 4  # kinds of arguments, of attributes
INTERNAL = 13  # the code of an error

# XLA_FFI_DataType: xla.PrimitiveType in xla_data.proto.
DTYPES = {
    1: "bool", 2: "int8", 4: "int32", 5: "int64", 6: "uint8", 8: "uint32", 10: "float16", 11: "float32", 12: "float64",
    16: "bfloat16", 19: "float8_e5m2", 20: "float8_e4m3fn",
}  # fmt: skip

Array: TypeAlias = Any
Function: TypeAlias = Callable[[Sequence[Array], Sequence[Array], Mapping[str, str], int | None], None]


class Extension(Structure):
    """XLA_FFI_Extension_Base: the head of an extension of a struct."""


Extension._fields_ = [("struct_size", c_size_t), ("type", c_int), ("next", POINTER(Extension))]


class Version(Structure):
    """XLA_FFI_Api_Version: the version of the interface."""

    _fields_ = [("struct_size", c_size_t), ("extension", c_void_p), ("major", c_int), ("minor", c_int)]


class Metadata(Structure):
    """XLA_FFI_Metadata: the version for which a handler was written."""

    _fields_ = [("struct_size", c_size_t), ("version", Version), ("traits", c_uint32)]


class MetadataExtension(Structure):
    """XLA_FFI_Metadata_Extension: XLA's request for metadata."""

    _fields_ = [("base", Extension), ("metadata", POINTER(Metadata))]


class Span(Structure):
    """XLA_FFI_ByteSpan: a text."""

    _fields_ = [("pointer", c_void_p), ("size", c_size_t)]


class Buffer(Structure):
    """XLA_FFI_Buffer: an array."""

    _fields_ = [
        ("struct_size", c_size_t), ("extension", c_void_p), ("dtype", c_int), ("data", c_void_p), ("rank", c_int64),
        ("dims", POINTER(c_int64)),
    ]  # fmt: skip


class Arguments(Structure):
    """XLA_FFI_Args and XLA_FFI_Rets: the buffers of a call's arguments, or of its results."""

    _fields_ = [
        ("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64), ("types", POINTER(c_int)),
        ("values", POINTER(c_void_p)),
    ]  # fmt: skip


class Attributes(Structure):
    """XLA_FFI_Attrs: a call's attributes."""

    _fields_ = [
        ("struct_size", c_size_t), ("extension", c_void_p), ("size", c_int64), ("types", POINTER(c_int)),
        ("names", POINTER(POINTER(Span))), ("values", POINTER(c_void_p)),
    ]  # fmt: skip


class Failure(Structure):
    """XLA_FFI_Error_Create_Args: an error."""

    _fields_ = [("struct_size", c_size_t), ("extension", c_void_p), ("message", c_char_p), ("code", c_int)]


class StreamRequest(Structure):
    """XLA_FFI_Stream_Get_Args: a request for a call's stream."""

    _fields_ = [("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p), ("stream", c_void_p)]


class DeviceRequest(Structure):
    """XLA_FFI_DeviceOrdinal_Get_Args: a request for the ordinal of a call's device."""

    _fields_ = [("struct_size", c_size_t), ("extension", c_void_p), ("context", c_void_p), ("ordinal", c_int32)]


class Api(Structure):
    """XLA_FFI_Api: the functions of XLA for handlers; those that are not called here are plain addresses."""

    _fields_ = [
        ("struct_size", c_size_t), ("extension", c_void_p), ("version", Version), ("internal", c_void_p),
        ("error_create", CFUNCTYPE(c_void_p, POINTER(Failure))), ("error_message", c_void_p),
        ("error_destroy", CFUNCTYPE(None, c_void_p)), ("handler_register", c_void_p),
        ("stream_get", CFUNCTYPE(c_void_p, POINTER(StreamRequest))), ("type_register", c_void_p),
        ("context_get", c_void_p), ("state_set", c_void_p), ("state_get", c_void_p), ("memory_allocate", c_void_p),
        ("memory_free", c_void_p), ("pool_schedule", c_void_p), ("pool_threads", c_void_p), ("future_create", c_void_p),
        ("future_available", c_void_p), ("future_error", c_void_p), ("run_id", c_void_p),
        ("device_get", CFUNCTYPE(c_void_p, POINTER(DeviceRequest))),
    ]  # fmt: skip


class Frame(Structure):
    """XLA_FFI_CallFrame: a call."""

    _fields_ = [
        ("struct_size", c_size_t), ("extension", POINTER(Extension)), ("api", POINTER(Api)), ("context", c_void_p),
        ("stage", c_int), ("inputs", Arguments), ("outputs", Arguments), ("attributes", Attributes),
    ]  # fmt: skip


Handler = CFUNCTYPE(c_void_p, POINTER(Frame))


@attrs.frozen(eq=False)
class Lent:
    """View device memory that XLA lends to a call; the view has the interfaces of a GPU array.

    Args:
        address: address of the first element.
        shape: extents.
        dtype: element type.
        steps: strides in elements.
        device: the GPU's ordinal.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    steps: tuple[int, ...]
    device: int = 0

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Describe the memory by CuPy's protocol; types that NumPy lacks become opaque bytes."""
        size = self.dtype.itemsize
        plain = self.dtype.str if self.dtype.kind in "biufc" else f"<V{size}"
        strides = tuple(step * size for step in self.steps)
        return {"data": (self.address, False), "shape": self.shape, "typestr": plain, "strides": strides, "version": 3}

    def swapaxes(self, first: int, second: int) -> Lent:
        """View the memory with two dimensions exchanged."""
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        shape, steps = (tuple(values[i] for i in order) for values in (self.shape, self.steps))
        return attrs.evolve(self, shape=shape, steps=steps)

    def expand(self, shape: tuple[int, ...]) -> Lent:
        """View the memory with more leading dimensions, along which it is repeated."""
        return attrs.evolve(self, shape=shape, steps=(0,) * (len(shape) - self.ndim) + self.steps)

    def reshape(self, shape: tuple[int, ...]) -> Lent:
        """View dense memory with other extents."""
        assert self.steps == contiguous(self.shape)
        return attrs.evolve(self, shape=shape, steps=contiguous(shape))


def handler(function: Function, device: bool) -> Any:
    """Make a handler that calls a Python function; the caller must keep the handler alive.

    Args:
        function: a function of the inputs, outputs to write, attributes (texts by name), and the stream's handle (None
            on the CPU).
        device: whether buffers lie on a GPU.
    """

    def called(pointer: Any) -> int | None:
        frame = pointer.contents
        asked = frame.extension
        if asked and asked.contents.type == METADATA:
            answer = ctypes.cast(asked, POINTER(MetadataExtension)).contents.metadata.contents
            answer.version.major, answer.version.minor, answer.traits = MAJOR, frame.api.contents.version.minor, 0
            return None
        if frame.stage != EXECUTE:
            return None
        try:
            ordinal = _device(frame) if device else None
            inputs, outputs = (_buffers(listed, ordinal) for listed in (frame.inputs, frame.outputs))
            function(inputs, outputs, _texts(frame.attributes), _stream(frame) if device else None)
        except BaseException as error:  # an error that is raised here would be lost, since XLA calls from C
            return _failed(frame, f"{type(error).__name__}: {error}")
        return None

    return Handler(called)


def _failed(frame: Frame, message: str) -> int:
    described = Failure(ctypes.sizeof(Failure), None, message.encode(), INTERNAL)
    return frame.api.contents.error_create(ctypes.byref(described))


def _stream(frame: Frame) -> int:
    """Return the handle of a call's stream.

    Raises:
        RuntimeError: where XLA returns no stream.
    """
    request = StreamRequest(ctypes.sizeof(StreamRequest), None, frame.context, None)
    error = frame.api.contents.stream_get(ctypes.byref(request))
    if error:
        frame.api.contents.error_destroy(error)
        raise RuntimeError("XLA gives this call no stream")
    return int(request.stream or 0)


def _device(frame: Frame) -> int:
    """Return the ordinal of a call's GPU; 0 for versions of XLA that do not report the ordinal."""
    api = frame.api.contents
    if api.struct_size < ctypes.sizeof(Api) or not api.device_get:
        return 0
    request = DeviceRequest(ctypes.sizeof(DeviceRequest), None, frame.context, 0)
    error = api.device_get(ctypes.byref(request))
    if error:
        api.error_destroy(error)
        return 0
    return int(request.ordinal)


def _buffers(listed: Arguments, device: int | None) -> list[Array]:
    found: list[Array] = []
    for i in range(listed.size):
        buffer = ctypes.cast(listed.values[i], POINTER(Buffer)).contents
        shape = tuple(int(buffer.dims[axis]) for axis in range(buffer.rank))
        if buffer.dtype not in DTYPES:
            raise TypeError(f"XLA's element type {buffer.dtype} is none of fireiron's")
        kind = _numpy(DTYPES[buffer.dtype])
        if device is not None:
            found.append(Lent(int(buffer.data or 0), shape, kind, contiguous(shape), device))
            continue
        count = int(np.prod(shape, dtype=np.int64))
        if not count:
            found.append(np.empty(shape, kind))
            continue
        memory: Any = (ctypes.c_char * (count * kind.itemsize)).from_address(buffer.data)
        found.append(np.frombuffer(memory, kind).reshape(shape))
    return found


def _numpy(name: str) -> np.dtype[Any]:
    return np.dtype(name) if name in ("bool", "uint32") else find_dtype(name).numpy


def _texts(listed: Attributes) -> dict[str, str]:
    found: dict[str, str] = {}
    for i in range(listed.size):
        if listed.types[i] == STRING:
            value = ctypes.cast(listed.values[i], POINTER(Span)).contents
            found[_text(listed.names[i].contents)] = _text(value)
    return found


def _text(span: Span) -> str:
    return ctypes.string_at(span.pointer, span.size).decode() if span.size else ""
