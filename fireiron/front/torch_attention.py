"""Attention as an operator of torch, with gradients: torch.compile and torch.export trace it.

The operator takes masks and score functions as text. The gradients are programs of `schedules.attention_gradients`;
they have the same bits in every run. Tensors on the CPU are simulated. Only code that has torch imports this file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import product
from math import prod
from typing import Any, cast

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.base.contract import refused
from fireiron.base.errors import CallError, FireironError
from fireiron.base.link import here
from fireiron.front import attention as programs
from fireiron.front.attention import Array, Attention, entry, strides_like
from fireiron.front.attention_bounds import pays
from fireiron.front.attention_call import (
    OF_PROGRAMS,
    SINKS,
    Lengths,
    Library,
    Noise,
    Options,
    check_given,
    prepared,
    result_kind,
)
from fireiron.front.score_text import text_of
from fireiron.front.torch_bounds import called, kind_of, with_bounds
from fireiron.front.torch_ops import check_tensors, dispatched, is_tensor, learned, routed
from fireiron.front.torch_repeated import repeats, unrepeatable

torch: Any = import_module("torch")


def attend(q: Any, k: Any, v: Any, options: Options) -> Any:
    """Compute attention of tensors.

    Raises:
        CallError: as `fireiron.attention` does.
    """
    how, noise, mask, score, scale, causal, gqa, lse, arrays, scales = options
    if arrays or torch.compiler.is_compiling():
        return _located(q, k, v, options)
    return _repeated(q, k, v, *how, *noise, mask, score, scale, causal, gqa, lse, scales)


@repeats
def _repeated(q: Any, k: Any, v: Any, *options: Any) -> Any:
    """Compute attention with options one by one: tensors among them are seen."""
    how, noise = Lengths(*options[:6]), Noise(*options[6:9])
    mask, score, scale, causal, gqa, lse, scales = options[9:]
    return _located(q, k, v, Options(how, noise, mask, score, scale, causal, gqa, lse, {}, scales))


def _located(q: Any, k: Any, v: Any, options: Options) -> Any:
    if torch.compiler.is_compiling():
        return _attend(q, k, v, options)
    try:
        return _attend(q, k, v, options)
    except FireironError as error:
        raise error.located(here()) from None


def _attend(q: Any, k: Any, v: Any, options: Options) -> Any:
    check_given(q, k, v, options, is_tensor)
    how, noise, mask, score, scale, is_causal, enable_gqa, lse, arrays, scales = options
    learns = tuple(name for name, x in arrays.items() if x.requires_grad) if torch.is_grad_enabled() else ()
    given = prepared(q, k, v, mask, is_causal, enable_gqa, how, arrays, noise, LIBRARY, scales)
    if how.pages is not None and torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v)):
        refuse_gradient("keys and values in pages have no gradient, nor do their queries")
    if scales is not None and torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *scales)):
        refuse_gradient("floats of 8 bits have no gradient, nor do their scales")
    named = tuple((name, x.dim(), kind_of(x)) for name, x in given.arrays.items() if name not in OF_PROGRAMS)
    text = _text(given.masks, score, named, given.by_keys, noise.dropout)
    if learns:
        _check_learns(text, learns)
    held = {name: x.view(torch.uint8) if x.dtype == torch.bool else x for name, x in given.arrays.items()}
    if how.offsets is None and how.pages is None and pays(q.shape[2], k.shape[2]):
        gradients = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *held.values()))
        text, held = with_bounds(text, given.causal, named, q, k, held, gradients)
    beside = list(held.values())
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    call = (
        torch.ops.fireiron.attention if beside and dispatched(q, k, v, *beside) else routed("attention", _run, q, k, v)
    )
    made, sums = call(given.q, given.k, given.v, beside, ",".join(held), text, factor, given.causal)
    if how.offsets is not None:
        made, sums = made[0].transpose(0, 1), sums[0].transpose(0, 1)
    return (made, sums) if lse else made


attention = entry(attend, "Compute attention of tensors; see `fireiron.attention`.")
_unrepeated = entry(_located)  # for functions that repeat their own calls


def _listed(x: Any, debug: bool) -> Any:
    """Return the integers that a tensor holds, or None where the call is traced or would wait for the GPU."""
    plain = type(x) is torch.Tensor and not torch.compiler.is_compiling()
    if plain and debug:
        unrepeatable()
    return x.tolist() if plain and (debug or not x.is_cuda) else None


def _integers(x: Any) -> Any:
    return x.to(torch.int32)


def _places(n: int, like: Any) -> Any:
    return torch.arange(n, dtype=torch.int32, device=like.device)


def _find(edges: Any, at: Any) -> Any:
    return torch.searchsorted(edges.contiguous(), at.to(edges.dtype), right=True)


def _name(x: Any) -> str:
    return str(x.dtype).removeprefix("torch.")


def _drawn(like: Any) -> Any:
    """Draw a seed by torch's generator, which torch.manual_seed sets."""
    return torch.randint(-(2**31), 2**31, (3,), device=like.device).to(torch.int32)


def _seed(words: Sequence[int], like: Any) -> Any:
    return torch.tensor(words, dtype=torch.int32, device=like.device)


LIBRARY = Library(_listed, _places, _find, _integers, _name, _drawn, _seed)


@repeats
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Compute attention as `torch.nn.functional.scaled_dot_product_attention` does, with its arguments.

    Args:
        query, key, value: tensors of 3 dims or more; all but the last three are batches.
        attn_mask: booleans that say which keys a query sees, or floats that are added to the scores; such floats have
            gradients.
        dropout_p: fraction of the weights that are set to 0 at random, by a seed of torch's generator.
        is_causal: whether query i sees keys 0 to i only.
        scale: factor of the products of queries and keys, 1 / sqrt(D) by default.
        enable_gqa: whether several heads of queries may share one head of keys and values.

    Raises:
        CallError: as `fireiron.attention` does.
    """
    check_tensors(query=query, key=key, value=value)
    lead = query.shape[:-3]
    q, k, v = (x.reshape(prod(x.shape[:-3]), *x.shape[-3:]) if x.dim() != 4 else x for x in (query, key, value))
    options: dict[str, Any] = {"scale": scale, "is_causal": is_causal, "enable_gqa": enable_gqa, "dropout_p": dropout_p}
    if attn_mask is not None:
        _check_mask(attn_mask, (*query.shape[:-1], *key.shape[-2:-1]))
        adds = attn_mask.dtype != torch.bool
        given = attn_mask
        if query.dim() != 4 and attn_mask.dim() > 3:
            given = attn_mask.expand(*lead, *attn_mask.shape[-3:]).reshape(prod(lead), *attn_mask.shape[-3:])
        given = given.reshape((1,) * (4 - given.dim()) + tuple(given.shape))
        options |= {"attn_mask": given, "score" if adds else "mask": _OF_MASK[(*(n == 1 for n in given.shape), adds)]}
    made = _unrepeated(q, k, v, **options)
    return made if query.dim() == 4 else made.reshape(*lead, *made.shape[1:])


def _check_mask(mask: Any, scores: Sequence[int]) -> None:
    """Refuse masks that do not broadcast to the scores, and masks of integers.

    Raises:
        CallError: `not-an-array`; `attention-dtypes`; `wrong-shape`.
    """
    check_tensors(attn_mask=mask)
    if mask.dtype != torch.bool and not mask.dtype.is_floating_point:
        said = f"attn_mask of {_name(mask)}"
        raise CallError("attention-dtypes", said, fix="give bool, or floats to add to the scores", link=here())
    fits = mask.dim() <= len(scores) and all(
        n in (1, m) for n, m in zip(reversed(mask.shape), reversed(scores), strict=False)
    )
    if not fits:
        raise CallError(
            "wrong-shape",
            f"attn_mask has the shape {list(mask.shape)}, and the scores have {list(scores)}",
            fix="give a mask that broadcasts to the scores",
            link=here(),
        )


@repeats
def varlen_attn(
    query: Any,
    key: Any,
    value: Any,
    cu_seq_q: Any,
    cu_seq_k: Any,
    max_q: int,
    max_k: int,
    *,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    lse: bool = False,
) -> Any:
    """Compute attention within sequences of one packed tensor, as `torch.nn.attention.varlen.varlen_attn` does.

    Args:
        query: (T, H, D).
        key, value: (U, H, D) and (U, H, E).
        cu_seq_q: the first query of each sequence, and the end of the last sequence, in i32.
        cu_seq_k: the same for keys.
        max_q, max_k: most queries and keys of a sequence; ignored.
        scale: factor of the products of queries and keys, 1 / sqrt(D) by default.
        window_size: number of keys before and after its own position that a query sees; -1 for all. (-1, 0) is
            causal. The position of a sequence's last query is that of its last key.
        enable_gqa: whether several heads of queries may share one head of keys and values.
        lse: whether to return a second result (T, H): the logarithm of each row's sum of exponentials.

    Raises:
        CallError: as `fireiron.attention` does.
    """
    window = cast("Sequence[object]", window_size)
    if not (isinstance(window, tuple | list) and len(window) == 2 and all(isinstance(n, int) for n in window)):
        raise refused("window_size=", ("a pair of whole numbers", "(-1, 0)"), window_size, CallError)
    before, behind = (None if n < 0 else n for n in window_size)
    how = Lengths(cu_seq_q, cu_seq_k, window=(before, behind))
    return _located(query, key, value, Options(how, scale=scale, gqa=enable_gqa, lse=lse))


def _of_mask(batch: bool, head: bool, row: bool, column: bool, adds: bool) -> Callable[..., Any]:
    """Make the function that reads a mask; a dim of extent 1 is read at 0 for all indices."""

    def at(b: Any, h: Any, i: Any, j: Any, attn_mask: Any) -> Any:
        return attn_mask[0 if batch else b, 0 if head else h, 0 if row else i, 0 if column else j]

    def mask(b: Any, h: Any, i: Any, j: Any, attn_mask: Any) -> Any:
        return at(b, h, i, j, attn_mask) > 0

    def score(s: Any, b: Any, h: Any, i: Any, j: Any, attn_mask: Any) -> Any:
        return s + at(b, h, i, j, attn_mask)

    return score if adds else mask


# By `_of_mask`'s arguments: torch.compile guards functions that it finds in a dict, and none that a call has made.
_OF_MASK = {key: _of_mask(*key) for key in product((False, True), repeat=5)}

_text = torch.compiler.assume_constant_result(text_of)
_check_learns = torch.compiler.assume_constant_result(programs.check_learns)


@torch.compiler.assume_constant_result
def refuse_gradient(what: str) -> None:
    """Refuse the gradient of an input.

    Args:
        what: a sentence that says what has no gradient.

    Raises:
        CallError: `requires-grad`.
    """
    raise CallError("requires-grad", what, fix="give detached tensors, x.detach(), or call it under torch.no_grad()")


def _facts(x: Any) -> Array:
    """Describe a tensor by its shape, strides and element type."""
    return _described_once(x.shape, x.stride(), x.dtype)


@functools.lru_cache(maxsize=4096)
def _described_once(shape: tuple[int, ...], steps: tuple[int, ...], dtype: Any) -> Array:
    """Describe a tensor; a dim of one element gets the stride that it would have in a dense tensor."""
    shape = tuple(shape)
    usual = strides_like(Array(shape, steps, ""), shape)
    strides = tuple(u if n == 1 else s for n, s, u in zip(shape, steps, usual, strict=True))
    name = str(dtype).removeprefix("torch.")
    return Array(shape, strides, "u8" if name == "bool" else find_dtype(name).name)


def _taken(x: Any, as_values: bool = False) -> Any:
    """Return the tensor, or a copy where kernels cannot take its strides or its alignment."""
    taken = _facts(x).taken_as_values if as_values else _facts(x).taken
    if not taken:
        x = x.contiguous()
    return x if x.data_ptr() % programs.LINE_NBYTES == 0 else x.clone(memory_format=torch.contiguous_format)


def _lines(q: Any) -> Any:
    """Make an uninitialised number of f32 for each query, in lines that bulk copies read."""
    *lead, rows, _ = q.shape
    made = torch.empty(*lead, programs.padded(rows), dtype=torch.float32, device=q.device)
    return made[..., :rows]


def _parted(q: Any, heads: int) -> Any:
    """Split the heads of queries into a dim of the heads of keys and a dim of the queries that share one."""
    return q if q.shape[1] == heads else q.unflatten(1, (heads, q.shape[1] // heads))


def _like(q: Any, *shape: int) -> Any:
    """Make an uninitialised tensor whose dims have the order in memory that the queries' dims have."""
    return q.new_empty_strided(shape, strides_like(Array(tuple(q.shape), tuple(q.stride()), ""), shape))


def _described(
    q: Any, k: Any, v: Any, arrays: Sequence[Any], names: str, functions: str, scale: float, causal: bool
) -> Attention:
    facts = tuple((name, _facts(x)) for name, x in zip(names.split(",") if names else (), arrays, strict=True))
    return Attention(_facts(q), _facts(k), _facts(v), functions, facts, scale, causal)


def _run(
    q: Any, k: Any, v: Any, arrays: Sequence[Any], names: str, functions: str, scale: float, is_causal: bool
) -> tuple[Any, Any]:
    host = q.device.type != "cuda"
    made, sums = _fake(q, k, v, arrays, names, functions, scale, is_causal)
    if 0 in (*q.shape, *k.shape, *v.shape):
        return made.zero_(), sums.fill_(-torch.inf if k.shape[2] == 0 else 0.0)
    heads = k.shape[1]
    q, k, v = _taken(_parted(q, heads)), _taken(k), _taken(v, as_values=True)
    beside = [x.contiguous() for x in arrays]
    what = _described(q, k, v, beside, names, functions, scale, is_causal)
    out = _parted(made, heads), _parted(sums, heads)
    taken = (beside[n] for n in what.taken("forward"))
    # Kernels take column-major matrices as memory holds them.
    v = v.mT if what.v.taken_as_values and not what.v.taken else v
    called(programs.forward(what, _facts(out[0]), host), host, q, k, v, *taken, out=out)
    return made, sums


def _fake(
    q: Any, k: Any, v: Any, arrays: Sequence[Any], names: str, functions: str, scale: float, is_causal: bool
) -> tuple[Any, Any]:
    made = _like(q, *q.shape[:-1], v.shape[-1])
    kind = getattr(torch, result_kind(_name(q)))
    return made if kind == q.dtype else made.to(kind), q.new_empty(q.shape[:-1], dtype=torch.float32)


def _run_backward(
    dy: Any, by_sums: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, arrays: Sequence[Any], names: str,
    functions: str, scale: float, is_causal: bool, learns: str,
) -> list[Any]:  # fmt: skip
    host = q.device.type != "cuda"
    results = _fake_backward(dy, by_sums, q, k, v, o, lse, arrays, names, functions, scale, is_causal, learns)
    if 0 in (*q.shape, *k.shape, *v.shape):
        return [x.zero_() for x in results]
    heads = k.shape[1]
    q, k, v, dy = map(_taken, (_parted(q, heads), k, v, _parted(dy.to(q.dtype), heads)))
    beside = [x.contiguous() for x in arrays]
    what = _described(q, k, v, beside, names, functions, scale, is_causal)
    rows = _taken(_parted(o, heads)), dy
    gains = _lines(q)
    how = _facts(gains)
    called(programs.delta(_facts(rows[0]), _facts(rows[1]), host, how), host, *rows, out=(gains,))
    if by_sums is not None:
        gains -= _parted(by_sums, heads)
    sums = _parted(lse, heads)
    sums = sums if sums.stride() == gains.stride() else _lines(q).copy_(sums)
    given = q, k, v, dy, sums, gains
    made = (_parted(results[0], heads), *results[1:3])
    for each in programs.gradients(what, _facts(dy), tuple(map(_facts, made)), host, how):
        taken = (beside[n] for n in what.taken(each.role))
        called(each.kernel, host, *(given[n] for n in each.reads), *taken, out=tuple(made[n] for n in each.results))
    read = tuple(beside[n] for n in what.taken("of_array"))
    for name, result in zip(_names(learns), results[3:], strict=True):
        if name == SINKS:
            each = torch.exp(arrays[_names(names).index(name)][:, None] - lse) * gains.reshape(lse.shape)
            result.copy_(torch.nan_to_num(each).sum((0, 2)).neg())
            continue
        total = torch.zeros_like(result, dtype=torch.float32)
        for at in programs.places_of(functions, name) or ():
            made = torch.empty(programs.extents_at(at, q.shape, k.shape) or (1,), dtype=torch.float32, device=q.device)
            kernel = programs.array_gradient(what, _facts(dy), name, at, host, how)
            called(kernel, host, *given, *read, out=(made,))
            shape, order, where = programs.region(at, q.shape, k.shape)
            total[where] += made.reshape(shape).permute(order)
        result.copy_(total)
    return results


def _fake_backward(
    dy: Any, by_sums: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, arrays: Sequence[Any], names: str,
    functions: str, scale: float, is_causal: bool, learns: str,
) -> list[Any]:  # fmt: skip
    of_arrays = (arrays[_names(names).index(name)] for name in _names(learns))
    made = [torch.empty_like(x, memory_format=torch.contiguous_format) for x in of_arrays]
    return [_like(q, *q.shape), _like(k, *k.shape), _like(v, *v.shape), *made]


def _names(joined: str) -> list[str]:
    return joined.split(",") if joined else []


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    q, k, v, arrays, names, functions, scale, is_causal = inputs
    ctx.save_for_backward(q, k, v, *output, *arrays)
    ctx.names, ctx.functions, ctx.scale, ctx.is_causal = names, functions, scale, is_causal
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, dy: Any, by_sums: Any) -> tuple[Any, ...]:
    q, k, v, o, lse, *arrays = ctx.saved_tensors
    dy = torch.zeros_like(o) if dy is None else dy
    names = _names(ctx.names)
    learns = [name for name, needed in zip(names, ctx.needs_input_grad[3], strict=True) if needed] if names else []
    alone = by_sums is None and not names and not dispatched(dy, q, k, v, o, lse)
    run = _backward_alone if alone else torch.ops.fireiron.attention_backward
    made = run(
        dy, by_sums, q, k, v, o, lse, arrays, ctx.names, ctx.functions, ctx.scale, ctx.is_causal, ",".join(learns)
    )
    by_name = dict(zip(learns, made[3:], strict=True))
    return *made[:3], [by_name.get(name) for name in names], None, None, None, None


@repeats
def _backward_alone(*given: Any) -> tuple[Any, ...]:
    """Compute the gradients of attention without arrays of functions, by kernels that write all that others read."""
    return tuple(_run_backward(*given))


_BESIDE = "Tensor[] arrays, str names, str functions, float scale, bool is_causal"
_attention = torch.library.custom_op(
    "fireiron::attention",
    _run,
    mutates_args=(),
    schema=f"(Tensor q, Tensor k, Tensor v, {_BESIDE}) -> (Tensor, Tensor)",
)
_attention.register_fake(_fake)
_attention.register_autograd(_gradient, setup_context=_keep)
learned("attention", repeats(_run), _keep, _gradient)
torch.library.custom_op(
    "fireiron::attention_backward",
    _run_backward,
    mutates_args=(),
    schema="(Tensor dy, Tensor? by_sums, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, "
    f"{_BESIDE}, str learns) -> Tensor[]",
).register_fake(_fake_backward)
