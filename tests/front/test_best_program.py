"""best() of programs: the preset for each form, and what no preset takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fireiron as fi
from fireiron import FireironError, Matrix, Vector, best, program, tensor
from fireiron.front.best_program import best_program
from fireiron.schedules import akg, conv, conv_gradients, pointwise, reductions, rows

x = Matrix(64, 512, "bf16")
FORMS: dict[str, tuple[Any, Any, Any]] = {
    "pointwise": (lambda x: fi.exp(x), x, pointwise.pointwise),
    "softmax": (lambda x: fi.softmax(x, "n"), x, rows.row),
    "sum": (lambda x: fi.sum(x, "m"), x, reductions.reduction),
    "two sums": (lambda x: (fi.sum(x, "n"), fi.max(x, "n")), x, reductions.reduction),
    "a value of rows that are folded twice": (lambda x: fi.logsumexp(x, "n"), x, rows.row),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_preset_for_each_form(form: str) -> None:
    function, given, preset = FORMS[form]
    spec = program(x="m n")(function)(given)
    counted = fi.fuse(spec, mn="m n") if form == "pointwise" else spec
    assert best(spec) == preset(counted)
    assert best(spec, "sm_80").program.arch == "sm_80"


def test_a_pointwise_spec_goes_as_the_program_of_its_steps() -> None:
    a, bias, b = Matrix(64, 512, "f16", name="a"), Vector(512, name="bias"), Matrix(64, 512, "f16", name="b")
    made = best(fi.Pointwise(lambda x, y: fi.relu(x + fi.cast(y, "f16")), a, bias, b), "sm_80")
    assert "copy_16B(&a_rf[0], &a[" in made.cuda()
    assert made.program.arch == "sm_80"
    out = made.simulate(np.ones((64, 512), np.float16), np.full(512, -3, np.float32)).arrays["b"]
    assert not out.any()


def test_a_move_takes_the_preset_for_moves() -> None:
    copied = fi.Move(Matrix(64, 512, "f16"), Matrix(64, 512, "f16", fi.ColMajor))
    assert best(copied, "sm_80").links == pointwise.move(copied).links


def test_an_init_is_refused() -> None:
    with pytest.raises(FireironError, match="a product, a program, a Pointwise or a Move"):
        best(fi.Init(Matrix(64, 64)))  # pyright: ignore[reportArgumentType]


IMAGES, FILTERS = tensor(32, 14, 14, 64, dtype="f16"), tensor(64, 3, 3, 64, dtype="f16", name="f")
OUT, DEPTHWISE = tensor(32, 14, 14, 64, dtype="f16", name="y"), tensor(64, 3, 3, 1, dtype="f16", name="f")
CONVOLUTIONS: dict[str, Any] = {
    "images": conv.conv2d(IMAGES, FILTERS, pad=1),
    "gradient of images": conv_gradients.data_gradients(OUT, FILTERS, IMAGES, 1, 1)[0].spec,
    "gradient of filters": conv_gradients.conv2d_filter_gradient(OUT, IMAGES, 3, pad=1),
    "pooling": conv.max_pool2d(IMAGES, 3, 2, 1),
    "depthwise": conv.conv2d(IMAGES, DEPTHWISE, pad=1, groups=64),
    "groups": conv.conv2d(IMAGES, tensor(64, 3, 3, 16, dtype="f16", name="f"), pad=1, groups=4),
    "few channels": conv.conv2d(tensor(32, 14, 14, 3, dtype="f32"), tensor(64, 3, 3, 3, name="f"), pad=1),
}
NEWEST = {"sm_90a": conv.wgmma, "sm_80": conv.mma, "sm_120": conv.mma, "sm_70": akg.conv}


@pytest.mark.parametrize("arch", NEWEST)
def test_convolutions_take_the_newest_preset_that_fits(arch: str) -> None:
    def links(schedule: Any) -> Any:
        return schedule.links

    assert links(best(CONVOLUTIONS["images"], arch)) == links(NEWEST[arch](CONVOLUTIONS["images"]))
    gradient = {"sm_90a": conv_gradients.filters_wgmma, "sm_70": conv_gradients.filters_simt}
    filters = gradient.get(arch, conv_gradients.filters_mma)
    assert links(best(CONVOLUTIONS["gradient of filters"], arch)) == links(filters(CONVOLUTIONS["gradient of filters"]))
    part = CONVOLUTIONS["gradient of images"]
    assert links(best(part, arch)) == links((conv.simt if arch == "sm_70" else NEWEST[arch])(part))
    lines = conv.conv2d_packed(tensor(2, 9, 24, dtype="f16"), tensor(8, 3, 9, dtype="f16", name="f"))
    assert links(best(lines, arch)) == links((conv.simt if arch == "sm_70" else conv.packed)(lines))
    for form in ("pooling", "depthwise"):
        assert links(best(CONVOLUTIONS[form], arch)) == links(conv.channelwise(CONVOLUTIONS[form]))
    for form in ("few channels", "groups"):
        assert links(best(CONVOLUTIONS[form], arch)) == links(conv.simt(CONVOLUTIONS[form]))


def test_one_of_several_kernels_begins_early_where_its_preset_can() -> None:
    part = CONVOLUTIONS["gradient of images"]
    assert "griddepcontrol" in best_program(part, "sm_90a", dependent=True).cuda("sm_90a")
    assert "griddepcontrol" not in best_program(part, "sm_90a").cuda("sm_90a")
    assert best_program(part, "sm_80", dependent=True).links == best(part, "sm_80").links


def test_presets_are_found_once() -> None:
    spec = rows.softmax(x)
    assert best(spec) is best(spec)


def test_what_no_preset_takes() -> None:
    product = program(a="m k", b="k n")(lambda a, b: fi.einsum("mk,kn->nm", a, b).named("s") * fi.index("n"))
    with pytest.raises(FireironError, match=r"no preset takes .*: ") as caught:
        best(product(Matrix(8, 8), Matrix(8, 8)))
    assert caught.value.code == "nothing-legal"
    with pytest.raises(FireironError) as caught:
        best(tensor(8, 8))  # type: ignore[arg-type]
    assert caught.value.code == "argument-kind"
