"""The product as a foreign function of XLA: the Python function of its handler."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fireiron.front import multiply
from fireiron.front.epilog_text import function_of, operands_of
from fireiron.front.xla import Array, handler
from fireiron.jit.kernel import as_tuple

TARGET = "fireiron_gemm"


def attributes(epilog: str, layout: str, dtype: str | None, numbers: Sequence[float]) -> dict[str, str]:
    """Write a call's arguments that are no arrays as attributes of XLA, which are texts."""
    return {"epilog": epilog, "layout": layout, "dtype": dtype or "", "numbers": json.dumps(list(map(float, numbers)))}


def gemm(inputs: Sequence[Array], outputs: Sequence[Array], told: Mapping[str, str], stream: int | None) -> None:
    """Multiply the first two inputs, with the others as the epilog's operands, and write the outputs.

    Args:
        inputs: NumPy arrays, or views of a GPU's memory.
        outputs: arrays to write, likewise.
        told: result of `attributes`.
        stream: the GPU's stream; None on the CPU, where the product is simulated.
    """
    a, b, *rest = inputs
    epilog = function_of(told["epilog"]) if told["epilog"] else None
    named = operands_of(told["epilog"], rest, json.loads(told["numbers"]))
    common: dict[str, Any] = {"epilog": epilog, "layout": told["layout"], "dtype": told["dtype"] or None, **named}
    if stream is None:
        made = as_tuple(multiply.gemm(a, b, **common))
        for array, result in zip(outputs, made, strict=True):
            np.copyto(array, result)
    else:
        multiply.gemm(a, b, out=outputs[0] if len(outputs) == 1 else tuple(outputs), stream=stream, **common)


# XLA holds the addresses of these for as long as the process runs.
HANDLERS = {"cpu": handler(gemm, device=False), "CUDA": handler(gemm, device=True)}
