"""Read an array's address, shape, strides, dtype and device, whichever library made it."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, Literal

import attrs

from fireiron.algebra.dtypes import b1, i4, u4
from fireiron.algebra.elements import pack
from fireiron.base.errors import CallError

# NumPy arrays that hold in a byte each what kernels take packed.
UNPACKED = {"int4": i4, "uint4": u4, "bool": b1}

Library = Literal["torch", "cupy", "numpy", "other"]


@attrs.frozen
class ArrayFacts:
    """Hold what a launch needs of one array.

    Args:
        address: of the first element.
        shape: extents.
        strides: in elements.
        dtype: name of the element type as its library has it (`float16`).
        device: ordinal of the GPU, or None for host memory.
        library: which library made the array (`torch`, `numpy`, ...).
        stream: the stream on which the contents become ready, None where the array names none.
        writable: whether the array may be written.
        owner: the object that keeps the memory alive while the launch is prepared. For elements that had to be packed
            (4-bit integers in an array of a byte each), the array of packed bytes.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None
    library: Library
    stream: int | None = None
    writable: bool = True
    owner: Any = attrs.field(default=None, eq=False, repr=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Return all facts that validation reads; the address is not one of them."""
        return (self.shape, self.strides, self.dtype, self.device, self.library, self.writable)

    @property
    def is_host(self) -> bool:
        """Say whether the array lies in host memory."""
        return self.device is None


def is_torch(value: object) -> bool:
    """Say whether a value is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def describe(value: Any, name: str) -> ArrayFacts:
    """Read an array's facts.

    Args:
        value: a torch tensor, a NumPy array, or anything with `__cuda_array_interface__` or DLPack.
        name: the parameter's name, for messages.

    Raises:
        CallError: `not-an-array`, `wrong-device`.
    """
    if is_torch(value):
        return _torch(value, name)
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        return _cuda_interface(value, interface)
    import numpy as np

    if isinstance(value, np.ndarray):
        return _numpy(value)
    if hasattr(value, "__dlpack__"):
        return _dlpack(value, name)
    raise CallError(
        "not-an-array",
        f"{name} is a {type(value).__name__}, which is no array",
        fix="pass a torch tensor, a CuPy or NumPy array, or anything with __cuda_array_interface__ or __dlpack__",
    )


def _torch(tensor: Any, name: str) -> ArrayFacts:
    if tensor.device.type != "cuda":
        raise CallError(
            "wrong-device",
            f"{name} is a torch tensor on {tensor.device}",
            fix=f"pass {name}.cuda(), or {name}.numpy() to simulate where there is no GPU",
        )
    dtype = str(tensor.dtype).removeprefix("torch.")
    return ArrayFacts(
        tensor.data_ptr(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        dtype,
        tensor.get_device(),
        "torch",
        owner=tensor,
    )


def _numpy(array: Any) -> ArrayFacts:
    kind = UNPACKED.get(array.dtype.name)
    if kind is not None and array.shape and array.shape[-1] % kind.pack == 0:
        array = pack(array, kind)
        array.flags.writeable = False  # nothing would bring writes back
    itemsize = max(array.itemsize, 1)
    return ArrayFacts(
        int(array.ctypes.data),
        tuple(map(int, array.shape)),
        tuple(s // itemsize if s % itemsize == 0 else -1 for s in array.strides),
        array.dtype.name,
        None,
        "numpy",
        writable=bool(array.flags.writeable),
        owner=array,
    )


def _cuda_interface(value: Any, interface: dict[str, Any]) -> ArrayFacts:
    import numpy as np

    address, read_only = interface["data"]
    shape = tuple(map(int, interface["shape"]))
    typestr = str(interface["typestr"])
    # Types of ml_dtypes have no letter of their own in the protocol: bfloat16 comes as two opaque bytes.
    own = getattr(value, "dtype", None)
    known = own.name if isinstance(own, np.dtype) else ""
    dtype = known or ("bfloat16" if typestr[1:] == "V2" else np.dtype(typestr).name)
    itemsize = int(typestr[2:])
    steps = interface.get("strides")
    strides = contiguous(shape) if steps is None else tuple(int(s) // itemsize for s in steps)
    return ArrayFacts(
        int(address or 0),
        shape,
        strides,
        dtype,
        _ordinal(value),
        "cupy" if type(value).__module__.partition(".")[0] == "cupy" else "other",
        stream=interface.get("stream"),
        writable=not read_only,
        owner=value,
    )


def _ordinal(value: Any) -> int:
    """Return the GPU's ordinal for an array whose interface does not name it: that of its `device`, else 0."""
    device = getattr(value, "device", None)
    number = getattr(device, "id", device)
    return number if isinstance(number, int) else 0


def _dlpack(value: Any, name: str) -> ArrayFacts:
    kind, ordinal = value.__dlpack_device__()
    if int(kind) not in (1, 2, 3, 13):  # kDLCPU, kDLCUDA, kDLCUDAHost, kDLCUDAManaged
        raise CallError(
            "wrong-device", f"{name} lies on a DLPack device of kind {int(kind)}", fix="move it to a CUDA GPU"
        )
    try:
        utils: Any = import_module("cuda.core.utils")
    except ImportError:
        raise CallError(
            "not-an-array", f"reading {name} through DLPack needs cuda.core", fix="pip install cuda-python"
        ) from None
    # Stream -1 of the protocol: the exporter inserts no synchronisation, so the caller's stream order stands, and
    # graph capture works.
    view: Any = utils.StridedMemoryView.from_dlpack(value, stream_ptr=-1)
    shape = tuple(map(int, view.shape))
    strides = contiguous(shape) if view.strides is None else tuple(map(int, view.strides))
    if int(kind) == 1:
        import numpy as np

        return _numpy(np.from_dlpack(value))
    return ArrayFacts(
        int(view.ptr), shape, strides, str(view.dtype), int(ordinal), "other", writable=not view.readonly, owner=view
    )


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Give the element strides of a dense row-major array.

    Example:
        >>> contiguous((2, 3, 4))
        (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Count the elements from the first to the last of an array, both included; 0 for an empty one.

    Example:
        >>> span((2, 3), (8, 1))
        11
    """
    if 0 in shape:
        return 0
    return 1 + sum((extent - 1) * abs(stride) for extent, stride in zip(shape, strides, strict=True))


def random_ends(rng: Any, count: int, rows: int) -> Any:
    """Draw the row before which each of `count` groups ends, at random; the last group ends behind the last row."""
    import numpy as np

    ends = np.sort(rng.integers(0, rows + 1, count))
    ends[-1] = rows
    return ends.astype(np.int32)


def share_elements(a: ArrayFacts, b: ArrayFacts, nbytes: tuple[int, int]) -> bool:
    """Say whether two arrays share a byte; the answer is exact: interleaved columns of one matrix share none.

    Args:
        a: one array.
        b: the other.
        nbytes: bytes of one element of each.
    """
    import numpy as np

    if 0 in a.shape or 0 in b.shape:
        return False
    shares_memory: Any = np.shares_memory
    try:
        return bool(shares_memory(_view(a, nbytes[0]), _view(b, nbytes[1]), max_work=100_000))
    except np.exceptions.TooHardError:
        return True


@attrs.frozen
class _Addressed:
    """Show an array's addresses to NumPy, whose test for overlap reads none of the memory."""

    __array_interface__: dict[str, Any]


def _view(array: ArrayFacts, nbytes: int) -> Any:
    import numpy as np

    interface = {
        "data": (array.address, True),
        "shape": array.shape,
        "strides": tuple(s * nbytes for s in array.strides),
        "typestr": f"|V{nbytes}",
        "version": 3,
    }
    return np.asarray(_Addressed(interface))
