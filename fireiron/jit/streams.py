"""Streams: the handle of a given stream, and the stream of a call that names none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from fireiron.base.errors import CallError
from fireiron.jit.arrays import ArrayFacts


def stream_handle(stream: Any) -> int:
    """Give the handle of a stream: an int, an object with `__cuda_stream__`, or a torch or CuPy stream.

    Raises:
        CallError: `not-a-stream`.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        # cuda.core once had it as a property.
        found: Any = protocol() if callable(protocol) else protocol
        return int(found[1])
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    raise CallError(
        "not-a-stream",
        f"stream is a {type(stream).__name__}, which is no CUDA stream",
        fix="pass a handle, a torch or CuPy stream, or an object with __cuda_stream__",
    )


def torch_current_stream() -> Callable[[int], int]:
    """Return torch's fastest function from a device to the handle of its current stream."""
    torch = sys.modules["torch"]
    # The public function builds a Stream object at every call, for 1 us and more.
    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if quick is not None:
        return quick

    def slow(device: int) -> int:
        return int(torch.cuda.current_stream(device).cuda_stream)

    return slow


def default_stream(arrays: Iterable[ArrayFacts]) -> int:
    """Choose the stream of a call that names none.

    The current stream of the arrays' library comes first, then the stream that an array names, then the default stream.
    """
    named: list[int] = []
    for array in arrays:
        if array.library == "torch" and array.device is not None:
            return torch_current_stream()(array.device)
        if array.library == "cupy":
            return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
        if array.stream is not None:
            named.append(int(array.stream))
    return named[0] if named else 0
