"""Attention as one operator in torch's graphs, for inference and training.

Torch's own operator for attention differs from device to device, and may expand to products and a softmax whose weights
the forward pass keeps. In Dynamo's graph it is replaced by an operator with two results, attention and the logarithm of
each row's sum, whose gradient is one operator too. Plans have kernels for the forward operator. The gradient uses
torch's kernels where these are faster, see `ways`.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUnknownParameterType=false, reportMissingImports=false
# torch has no types that a strict checker knows.

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from fireiron.base.errors import FireironError

torch: Any = import_module("torch")

Way = Callable[..., "tuple[Any, Any, Any]"]
_refused: set[tuple[Way, bool]] = set()  # those that failed once, and whether heads shared keys
_ATTENTION = (torch.nn.functional.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention)
_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
WIDEST = 128  # most columns of a head for which cuDNN's gradient is the faster
FEW, LINE = 1024, 4  # most queries and keys for which ours is, of numbers of queries that are multiples of 4
PAD = 32  # queries: torch's memory-efficient gradient reads the sums of a multiple of them


def keep_attention(module: Any, training: bool) -> None:
    """Replace torch's attention by one operator that AOTAutograd does not expand.

    Args:
        module: the graph that Dynamo traced.
        training: whether gradients are needed. Calls with dropout, with a mask that needs a gradient, or with operands
            of several types are then left to torch.
    """
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node.target not in _ATTENTION:
            continue
        given: dict[str, Any] = dict(zip(_NAMES, node.args, strict=False)) | dict(node.kwargs)
        if training and not _has_gradient(given):
            continue
        arguments = (
            given["query"], given["key"], given["value"], given.get("attn_mask"), float(given.get("dropout_p", 0.0)),
            given.get("is_causal", False), given.get("scale"), given.get("enable_gqa", False),
        )  # fmt: skip
        with module.graph.inserting_before(node):
            both = module.graph.call_function(torch.ops.fireiron.kept_attention.default, arguments)
            first = module.graph.call_function(operator.getitem, (both, 0))
        first.meta = dict(node.meta)
        node.replace_all_uses_with(first)
        module.graph.erase_node(node)
    module.recompile()


def _has_gradient(given: Mapping[str, Any]) -> bool:
    """Say whether the operator can compute the gradient of a call of torch's attention."""
    tensors: list[Any] = [getattr(given[name], "meta", {}).get("example_value") for name in _NAMES[:3]]
    mask: Any = getattr(given.get("attn_mask"), "meta", {}).get("example_value")
    same = None not in tensors and len({x.dtype for x in tensors}) == 1 and all(x.dim() == 4 for x in tensors)
    number = isinstance(given.get("dropout_p", 0.0), float | int) and not given.get("dropout_p", 0.0)
    return same and number and not (mask is not None and mask.requires_grad)


def simplify_positions(module: Any) -> None:
    """Use what depends on no input: masks of attention that change no score, causal ones, and numbers of lines.

    A mask changes no score where all its elements are 0, or all are true. A causal mask excludes the keys behind each
    query; the call computes it from indices then (`is_causal`), so that kernels skip the excluded keys. Where an
    embedding gathered lines that follow each other, its gradient is these lines between zeros.

    Args:
        module: torch's graph; `meta["val"]` of a node describes its result.
    """
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    known: dict[Any, Any] = {}
    with unset_fake_temporarily():
        for node in module.graph.nodes:
            if isinstance(node.meta.get("val"), torch.Tensor) and (found := _known(module, node, known)) is not None:
                known[node] = found
            _without_numbers(module, node, known)
            mask, causal = _places(node)
            seen = None if mask is None else known.get(_given(node, mask))
            if mask is None or causal is None or seen is None:
                continue
            every = bool(seen.all() if seen.dtype == torch.bool else (seen == 0).all())
            if every or _is_causal(seen):
                _give(node, mask, None)
                _give(node, causal, not every or bool(_given(node, causal)))
    module.graph.eliminate_dead_code()
    module.recompile()


def _without_numbers(module: Any, node: Any, known: Mapping[Any, Any]) -> None:
    """Write the gradient of lines that follow each other in a table, such as those of positions, as lines and zeros."""
    if node.target != torch.ops.aten.embedding_dense_backward.default:
        return
    gradient, ids, rows, padding, by_frequency = node.args
    numbers = known.get(ids)
    if numbers is None or by_frequency or gradient.meta["val"].dim() < 2:
        return
    numbers = numbers.flatten()
    first, count = int(numbers[0]) if len(numbers) else 0, len(numbers)
    if not torch.equal(numbers, torch.arange(first, first + count)) or first <= padding < first + count:
        return
    value = gradient.meta["val"]
    with module.graph.inserting_before(node):
        lines = module.graph.call_function(torch.ops.aten.view.default, (gradient, [count, value.shape[-1]]))
        pads = [0, 0, first, rows - first - count]
        made = module.graph.call_function(torch.ops.aten.constant_pad_nd.default, (lines, pads, 0.0))
    lines.meta["val"], made.meta["val"] = value.reshape(count, value.shape[-1]), node.meta["val"]
    node.replace_all_uses_with(made)


def _places(node: Any) -> tuple[int | None, int | None]:
    """Return the places of the mask and of the causal flag among the arguments of attention; None for other calls."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return None, None
    names = [a.name for a in node.target._schema.arguments]
    masks = [n for n, name in enumerate(names) if name in ("mask", "attn_mask", "attn_bias")]
    flags = [n for n, name in enumerate(names) if name in ("causal", "is_causal")]
    return (masks[0], flags[0]) if masks and flags else (None, None)


def _given(node: Any, place: int) -> Any:
    """Return an argument of a call, by its place or by its name; the default where the call does not have it."""
    argument = node.target._schema.arguments[place]
    return node.args[place] if place < len(node.args) else node.kwargs.get(argument.name, argument.default_value)


def _give(node: Any, place: int, value: Any) -> None:
    """Change an argument of a call."""
    if place < len(node.args):
        node.update_arg(place, value)
    else:
        node.update_kwarg(node.target._schema.arguments[place].name, value)


def _is_causal(mask: Any) -> bool:
    """Say whether a mask lets each query see the keys up to its own number alone."""
    if mask.dim() < 2:
        return False
    seen = torch.ones(mask.shape[-2:], dtype=torch.bool).tril()
    if mask.dtype == torch.bool:
        return bool((mask == seen).all())
    return bool(torch.where(seen, mask == 0, mask == -math.inf).all())


MOST_KNOWN = 1 << 25  # elements: a larger result is known only where all its elements are one number
_FILLED = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}  # the place of the number among the arguments


def _known(module: Any, node: Any, known: Mapping[Any, Any]) -> Any:
    """Compute on the CPU a result that depends on no input of the graph; None for other results.

    A repeated number is stored as one element, with strides 0.
    """
    value = node.meta["val"]
    if node.op == "get_attr":
        held = getattr(module, node.target)
        return held.detach().cpu() if isinstance(held, torch.Tensor) and held.numel() <= MOST_KNOWN else None
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return None
    tags, inputs = node.target.tags, node.all_input_nodes
    tensors = [n for n in inputs if isinstance(n.meta.get("val"), torch.Tensor)]
    if torch.Tag.nondeterministic_seeded in tags or node.target._schema.is_mutable:
        return None
    name = str(node.target.overloadpacket).removeprefix("aten.")
    fills = [b for b in ("zeros", "ones") if name in (b, f"{b}_like", f"new_{b}")]
    number = float(fills[0] == "ones") if fills else node.args[_FILLED[name]] if name in _FILLED else None
    numbers = all(isinstance(n, int) for n in value.shape)
    if isinstance(number, float | int | bool) and numbers:
        return torch.tensor(number).to(value.dtype).expand(value.shape)
    if len(tensors) != len(inputs) or not numbers or any(n not in known for n in tensors):
        return None
    alike = all(known[n].numel() == 1 or not any(known[n].stride()) for n in tensors)
    if tensors and alike and torch.Tag.pointwise in tags:
        first = {n: known[n].reshape(-1)[0] if known[n].numel() else known[n] for n in tensors}
        made = _called(node, first)
        return None if made is None or made.dim() else made.expand(value.shape)
    views = known[tensors[0]].numel() if tensors else 0
    return _called(node, known) if max(value.numel(), 0 if alike else views) <= MOST_KNOWN else None


def _called(node: Any, known: Mapping[Any, Any]) -> Any:
    """Call a node's operator on the CPU; None where the operator raises an error."""
    named = {k: torch.device("cpu") if isinstance(v, torch.device) else v for k, v in node.kwargs.items()}
    args, named = torch.fx.node.map_arg((node.args, named), lambda n: known[n])
    try:
        made = node.target(*args, **named)
    except (RuntimeError, TypeError, NotImplementedError):
        return None
    return made if isinstance(made, torch.Tensor) else None


def _attend(
    q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, scale: float | None, grouped: bool
) -> tuple[Any, Any]:
    """Compute attention by torch's operator, and the logarithm of each row's sum."""
    made = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    out, sums = _attended(q, k, v, mask, dropout, causal, scale, grouped)
    return out.copy_(made), sums.copy_(torch.logsumexp(_scores(q, k, mask, causal, scale), -1))


def _scores(q: Any, k: Any, mask: Any, causal: bool, scale: float | None) -> Any:
    """Return the scores in f32 or f64, -inf where a query does not see a key."""
    wide = torch.promote_types(q.dtype, torch.float32)
    heads = q.shape[-3] // k.shape[-3] if q.dim() > 2 and k.dim() == q.dim() else 1
    keys = k.to(wide) if heads == 1 else k.to(wide).repeat_interleave(heads, -3)
    scores = q.to(wide) @ keys.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if mask is None:
        return scores
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def _attended(
    q: Any, k: Any, v: Any, mask: Any, dropout: float, causal: bool, scale: Any, grouped: bool
) -> tuple[Any, Any]:
    """Make the results without contents; attention's axes have the queries' order in memory, as in torch."""
    same = grouped or q.shape[:-2] == v.shape[:-2]
    lead = q.shape[:-2] if same else torch.broadcast_shapes(q.shape[:-2], v.shape[:-2])
    shape = (*lead, q.shape[-2], v.shape[-1])
    out = _like(q, shape) if len(shape) == q.dim() else q.new_empty(shape)
    return out, q.new_empty(shape[:-1], dtype=torch.promote_types(q.dtype, torch.float32))


def _like(x: Any, shape: Sequence[Any]) -> Any:
    """Make a tensor whose dims have the order in memory of another tensor's dims."""
    return x.new_empty_strided(shape, _strides(x, shape))


def _strides(x: Any, shape: Sequence[Any]) -> tuple[Any, ...]:
    """Return the strides of a dense tensor whose dims have the order in memory of another tensor's dims."""
    found, step = [0] * x.dim(), 1
    for axis in sorted(range(x.dim()), key=lambda axis: (x.stride(axis), -axis)):
        found[axis], step = step, step * shape[axis]
    return tuple(found)


def _by_cudnn(
    dy: Any, q: Any, k: Any, v: Any, o: Any, sums: Any, mask: Any, causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    seed = torch.zeros((), dtype=torch.int64, device=q.device)
    return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        dy, q, k, v, o, sums.unsqueeze(-1), seed, seed, mask, None, None, q.shape[2], k.shape[2], 0.0, causal,
        scale=scale,
    )  # fmt: skip


def _by_flash(
    dy: Any, q: Any, k: Any, v: Any, o: Any, sums: Any, mask: Any, causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    seed = torch.zeros((), dtype=torch.int64, device=q.device)
    return torch.ops.aten._scaled_dot_product_flash_attention_backward(
        dy, q, k, v, o, sums, None, None, q.shape[2], k.shape[2], 0.0, causal, seed, seed, scale=scale
    )


def _by_efficient(
    dy: Any, q: Any, k: Any, v: Any, o: Any, sums: Any, mask: Any, causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    seed = torch.zeros((), dtype=torch.int64, device=q.device)
    padded = torch.nn.functional.pad(sums, (0, -sums.shape[-1] % PAD), value=math.inf)
    o = o.transpose(1, 2).contiguous().transpose(1, 2)  # the kernel takes heads of a row side by side
    made = torch.ops.aten._scaled_dot_product_efficient_attention_backward(
        dy, q, k, v, mask, o, padded, seed, seed, 0.0, [True, True, True, False], causal, scale=scale
    )
    return made[:3]


def _of_package(
    dy: Any, q: Any, k: Any, v: Any, o: Any, sums: Any, mask: Any, causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    import_module("fireiron.front.torch_attention")
    made = torch.ops.fireiron.attention_backward(dy, None, q, k, v, o, sums, [], "", "", scale, causal, "")
    return made[0], made[1], made[2]


def _by_products(
    dy: Any, q: Any, k: Any, v: Any, o: Any, sums: Any, mask: Any, causal: bool, scale: float
) -> tuple[Any, Any, Any]:
    """Compute the gradients in f32 or f64 by products of whole matrices of scores."""
    wide, heads = sums.dtype, k.shape[1]
    dy, q_, k_, v_, o = (x.to(wide) for x in (dy, q, k, v, o))
    weights = torch.nan_to_num(torch.exp(_scores(q, k, mask, causal, scale) - sums.unsqueeze(-1)))
    keys, values = (x.repeat_interleave(q.shape[1] // heads, 1) for x in (k_, v_))
    by_scores = weights * (dy @ values.transpose(-1, -2) - (dy * o).sum(-1, keepdim=True)) * scale
    by_keys, by_values = (
        (a.transpose(-1, -2) @ b).unflatten(1, (heads, -1)).sum(2) for a, b in ((by_scores, q_), (weights, dy))
    )
    return tuple(x.to(q.dtype) for x in (by_scores @ keys, by_keys, by_values))


def ways(q: Any, k: Any, mask: bool, usable: Callable[[str], bool]) -> tuple[Way, ...]:
    """List the kinds of kernels for the gradient of attention that take these tensors, the fastest first.

    On an H200 those of `schedules.attention_gradients` take 0.85 of cuDNN's time in 39 shapes of 128 to 1024 queries
    and 64 or 128 columns (0.72 to 0.99), and 0.96 to 1.03 for 2048 queries. Numbers of queries that are no multiples of
    4 took up to 1.11 before their sums had padded lines, which was not timed since, as heads of queries that share keys
    were not. Of 4x16x4096 with 192 columns ours take 0.84 of cuDNN's time (causal 0.90), with 256 columns 1.03 (1.07),
    and 0.59 to 0.67 of flash attention's. Torch's other fused kernels take masks and f32, which this package's gradient
    does not.

    Args:
        q, k: tensors of four dims.
        mask: whether the call has a mask.
        usable: a function that says whether torch's kernel of a name ("cudnn", "flash" or "efficient") takes the
            tensors.
    """
    if not q.is_cuda or q.dtype == torch.float64:
        return (_by_products,)
    alone, short = q.shape[1] == k.shape[1], q.dtype in (torch.float16, torch.bfloat16)
    few = alone and q.shape[2] % LINE == 0 and max(q.shape[2], k.shape[2]) <= FEW
    ours = short and not mask
    asked = (
        (_of_package, ours and few, ""),
        (_by_cudnn, short and q.shape[-1] <= WIDEST, "cudnn"),
        (_of_package, ours and not few, ""),
        (_by_flash, alone and short and not mask, "flash"),
        (_by_efficient, alone, "efficient"),
        (_by_products, True, ""),
    )
    return tuple(way for way, fits, name in asked if fits and (not name or usable(name)))


def _backward(
    dy: Any, q: Any, k: Any, v: Any, mask: Any, o: Any, sums: Any, causal: bool, scale: float | None
) -> tuple[Any, Any, Any]:
    factor = float(q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None and q.is_cuda:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=q.dtype).masked_fill_(~mask, -math.inf)
        mask = mask.to(q.dtype).expand(*q.shape[:-1], k.shape[-2])

    def usable(name: str) -> bool:
        asked = torch.backends.cuda.SDPAParams(q, k, v, mask, 0.0, causal, q.shape[1] != k.shape[1])
        return getattr(torch.backends.cuda, f"can_use_{name}_attention")(asked, False)

    made: tuple[Any, ...] = ()
    shared = q.shape[1] != k.shape[1]
    *several, last = (way for way in ways(q, k, mask is not None, usable) if (way, shared) not in _refused)
    for way in several:
        try:
            made = way(dy, q, k, v, o, sums, mask, causal, factor)
            break
        except (RuntimeError, FireironError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            _refused.add((way, shared))
            said = str(error).partition("\n")[0]
            warnings.warn(f"the gradient of attention takes other kernels than {way.__name__}: {said}", stacklevel=2)
    made = made or last(dy, q, k, v, o, sums, mask, causal, factor)
    results: list[Any] = []
    for x, like in zip(made, (q, k, v), strict=True):
        same = x.stride() == _strides(like, like.shape)
        results.append(x if same else _like(like, like.shape).copy_(x))
    return results[0], results[1], results[2]


def _gradients(
    dy: Any, q: Any, k: Any, v: Any, mask: Any, o: Any, sums: Any, causal: bool, scale: float | None
) -> tuple[Any, Any, Any]:
    return _like(q, q.shape), _like(k, k.shape), _like(v, v.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    q, k, v, mask, _, causal, scale, _ = inputs
    ctx.save_for_backward(q, k, v, mask, *output)
    ctx.causal, ctx.scale = causal, scale
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx: Any, dy: Any, _: Any) -> tuple[Any, ...]:
    q, k, v, mask, o, sums = ctx.saved_tensors
    made = torch.ops.fireiron.kept_attention_backward(dy, q, k, v, mask, o, sums, ctx.causal, ctx.scale)
    return *made, None, None, None, None, None


_kept = torch.library.custom_op(
    "fireiron::kept_attention",
    _attend,
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, Tensor? mask, float dropout, bool causal, float? scale, bool grouped)"
    " -> (Tensor, Tensor)",
)
_kept.register_fake(_attended)
_kept.register_autograd(_gradient, setup_context=_keep)
torch.library.custom_op(
    "fireiron::kept_attention_backward",
    _backward,
    mutates_args=(),
    schema="(Tensor dy, Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor o, Tensor sums, bool causal, float? scale)"
    " -> (Tensor, Tensor, Tensor)",
).register_fake(_gradients)
