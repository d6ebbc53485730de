"""Operators for torch: products and convolutions with what follows, softmax, the norms; all compile and have gradients.

    import fireiron.torch as ft

    y = ft.gemm(x, weight, layout="row,col", epilog=lambda acc, bias: gelu(acc + bias), bias=bias)
    y = ft.layer_norm(y, y.shape[-1:], gain, offset)

They are registered with `torch.library` as `torch.ops.fireiron`. Tensors on the CPU are simulated.
"""

from fireiron.front.torch_conv import conv1d, conv2d, conv3d
from fireiron.front.torch_ops import gemm
from fireiron.front.torch_rows import (
    add_layer_norm,
    add_rms_norm,
    cross_entropy,
    embedding,
    layer_norm,
    log_softmax,
    rms_norm,
    softmax,
)

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "conv1d",
    "conv2d",
    "conv3d",
    "cross_entropy",
    "embedding",
    "gemm",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "softmax",
]
