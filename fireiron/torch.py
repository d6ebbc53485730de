"""Operators for torch: products, convolutions, pooling, attention, softmax and norms, with gradients.

    import fireiron.torch as ft

    y = ft.gemm(x, weight, layout="row,col", epilog=lambda acc, bias: gelu(acc + bias), bias=bias)
    y = ft.layer_norm(y, y.shape[-1:], gain, offset)

The operators are registered with `torch.library` as `torch.ops.fireiron`. Tensors on the CPU are simulated.

`torch.compile(model, backend=fireiron.torch.backend)` plans the kernels of a whole network. Once the package is
installed, `backend="fireiron"` names the same backend.
"""

from typing import Any

from fireiron.front.torch_attention import attention, scaled_dot_product_attention, varlen_attn
from fireiron.front.torch_conv import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from fireiron.front.torch_losses import cross_entropy
from fireiron.front.torch_more_rows import (
    apply_rotary_emb,
    cumsum,
    dropout_add_layer_norm,
    group_norm,
    quantized_rms_norm,
    topk,
)
from fireiron.front.torch_ops import gemm
from fireiron.front.torch_pooling import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from fireiron.front.torch_rows import (
    add_layer_norm,
    add_rms_norm,
    embedding,
    layer_norm,
    log_softmax,
    rms_norm,
    softmax,
)


def backend(module: Any, inputs: Any, *, options: Any = None) -> Any:
    """Compile a graph that torch.compile traced; see `fireiron.graph.torch_backend.backend`."""
    from fireiron.graph.torch_backend import backend

    return backend(module, inputs, options=options)


__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "apply_rotary_emb",
    "attention",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "backend",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "cumsum",
    "dropout_add_layer_norm",
    "embedding",
    "gemm",
    "group_norm",
    "layer_norm",
    "log_softmax",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "quantized_rms_norm",
    "rms_norm",
    "scaled_dot_product_attention",
    "softmax",
    "topk",
    "varlen_attn",
]
