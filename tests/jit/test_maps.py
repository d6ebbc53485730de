"""Tensor maps, clusters and persistent grids, without a GPU: a fake driver sees what the real one would."""

import ctypes
import json
from types import SimpleNamespace

import attrs
import pytest
from map_kernel import make_kernel, source

import fireiron as fi
from fireiron.algebra.arch import arch
from fireiron.algebra.dtypes import bf16, f16, f32, i8
from fireiron.base.errors import CallError
from fireiron.jit.arrays import ArrayFacts
from fireiron.jit.bind import bind, check_address
from fireiron.jit.cluster import Attribute, Configuration, configuration
from fireiron.jit.compile import compile_source
from fireiron.jit.driver import Driver, Loaded
from fireiron.jit.interface import Interface, MapParameter, PointerParameter
from fireiron.jit.launch import plan
from fireiron.jit.launcher import header
from fireiron.jit.maps import MOST_ADDRESSES, EncodedMaps, Recipe, recipes
from fireiron.kernel.ir.statements import TensorMap
from fireiron.schedules import conv

SIZES = {"M": 40, "N": 72}


def interface_of(**changes):
    return Interface.of(make_kernel(**changes))


def bound(interface, rows=40, columns=72, dtype="float32"):
    return bind(interface, {"X": ArrayFacts(4096, (rows, columns), (columns, 1), dtype, 0, "other")}, {})


def refused(interface, **sizes):
    with pytest.raises(CallError) as error:
        bound(interface, **sizes)
    assert error.value.fix
    return error.value.code, error.value.message


def with_map(interface, **changes):
    parameters = [attrs.evolve(p, **changes) if isinstance(p, MapParameter) else p for p in interface.parameters]
    return attrs.evolve(interface, parameters=tuple(parameters))


class FakeDriver:
    """Encode a map as its facts, and keep what launches were given."""

    def __init__(self, code=0, current=7):
        self.code, self.current, self.encoded, self.launches, self.events = code, current, [], [], []

    def current_context(self, address):
        address._obj.value = self.current
        return 0

    def current_device(self):
        return None

    def push(self, context):
        self.events.append("push")

    def pop(self):
        self.events.append("pop")

    def encode_map(self, place, kind, rank, address, extents, strides, box, steps, interleave, swizzle, l2, fill):
        assert place.value % 64 == 0
        self.events.append("encode")
        facts = kind, rank, address.value, *extents, *strides[: rank - 1], *box, *steps, interleave, swizzle, l2, fill
        self.encoded.append(facts)
        ctypes.memmove(place, bytes([len(self.encoded) % 256]) * 128, 128)
        return self.code

    def arguments(self, table):
        kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char * 128, ctypes.c_int, ctypes.c_int)
        return tuple(
            kind.from_address(place).value if kind is not kinds[3] else ctypes.string_at(place, 128)
            for kind, place in zip(kinds, table, strict=True)
        )

    def launch(self, handle, gx, gy, gz, bx, by, bz, shared, stream, table, extra):
        assert table[3] % 64 == 0
        self.launches.append(((handle.value, gx, bx, shared, stream.value), self.arguments(table)))
        return 0

    def launch_configured(self, address, handle, table, extra):
        given = address._obj
        said = {a.id: tuple(a.value[:3]) for a in given.attributes[: given.count]}
        facts = (tuple(given.grid), tuple(given.block), given.shared_nbytes, given.stream, said.pop(4, None))
        facts += tuple(said.items())
        self.launches.append(((handle.value, *facts), self.arguments(table)))
        return 0


def planned(driver, resident=132, **changes):
    interface = interface_of(**changes)
    return plan(interface, bound(interface), driver, Loaded(99, 0, 7, resident))


def test_the_interface_names_the_map():
    interface = interface_of(swizzle=128, cluster=2)
    assert interface.maps == (MapParameter("X_map", "X", (1, 0), (32, 16), 128, "f32"),)
    assert (interface.cluster, interface.persistent) == (2, True)
    assert [p.align for p in interface.pointers] == [16, 16, 16]  # the kernel alone relied on 4 bytes of X


def test_round_trip_through_json():
    interface = interface_of(swizzle=128, cluster=2)
    data = json.loads(json.dumps(interface.to_json()))
    assert Interface.from_json(data) == interface
    assert (data["cluster"], data["persistent"], data["block"]) == (2, True, [128, 1, 1])
    assert data["parameters"][3]["kind"] == "map"
    assert data["tensor_maps"] == [
        {
            "name": "X_map", "pointer": "X", "axes": [1, 0], "box": [32, 16], "swizzle": 128, "dtype": "f32",
            "steps": [], "lower": [], "upper": [], "merged": [], "extents": ["N", "M"], "strides": ["1", "N"],
        }
    ]  # fmt: skip
    for field in ("cluster", "persistent", "dependent"):
        with pytest.raises(KeyError):
            Interface.from_json({k: v for k, v in data.items() if k != field})


def test_a_map_is_encoded_from_the_sizes():
    driver = FakeDriver()
    planned(driver, swizzle=128).run([4096, 8192, 256], [], 13)
    #                        f32, extents, strides, box, steps, no interleaving, 128B, L2 128B, zeros
    assert driver.encoded == [(7, 2, 4096, 72, 40, 288, 32, 16, 1, 1, 0, 3, 2, 0)]
    ((facts, values),) = driver.launches
    assert facts == (99, 9, 128, 0, 13)
    assert values == (4096, 8192, 256, b"\1" * 128, 40, 72)


def test_a_map_of_every_second_row_spans_the_rows_between():
    kernel = make_kernel()
    parameters = [
        attrs.evolve(p, steps=(1, 2)) if isinstance(p, TensorMap) else p for p in kernel.parameters
    ]  # fmt: skip
    interface = Interface.of(attrs.evolve(kernel, parameters=tuple(parameters)))
    driver = FakeDriver()
    plan(interface, bound(interface), driver, Loaded(99, 0, 7, 132)).run([4096, 8192, 256], [], 0)
    assert driver.encoded == [(7, 2, 4096, 72, 40, 288, 32, 31, 1, 2, 0, 0, 2, 0)]


@pytest.mark.parametrize("steps", [(1, 9), (1, 0), (1,)])
def test_steps_that_no_map_takes(steps):
    interface = with_map(interface_of(), steps=steps)
    with pytest.raises(CallError) as error:
        recipes(interface, SIZES)
    assert error.value.code == "map-box"


@pytest.mark.parametrize(
    ("dtype", "name", "kind"), [(f16, "float16", 6), (bf16, "bfloat16", 9), (f32, "float32", 7), (i8, "int8", 0)]
)
def test_element_types(dtype, name, kind):
    interface = interface_of(dtype=dtype)
    (recipe,) = recipes(interface, bound(interface, columns=96, dtype=name).sizes)
    assert (recipe.type, recipe.strides) == (kind, (96 * dtype.nbytes,))


@pytest.mark.parametrize(
    ("strides", "lower", "promotion"),
    [
        ((512,), (), 3),
        ((528,), (), 2),  # of two lines of 528 bytes one starts within a line of the L2 cache
        ((8192, 528), (), 2),
        ((144,), (), 3),  # a short line is read with its neighbours
        ((528, 8448), (-1,), 3),
        ((), (), 3),
    ],
)
def test_what_the_l2_cache_fetches_at_once(strides: tuple[int, ...], lower: tuple[int, ...], promotion: int) -> None:
    extents = (64,) * (len(strides) + 1)
    assert Recipe("X_map", "X", 6, extents, strides, (64, 8), 3, lower=lower).promotion == promotion


def test_tf32_arrives_as_it_is_and_fp8_as_bytes():
    assert recipes(with_map(interface_of(), dtype="tf32"), SIZES)[0].type == 7
    fp8 = with_map(interface_of(dtype=i8), dtype="e4m3")
    assert recipes(fp8, {"M": 4, "N": 64})[0].type == 0


def test_axes_without_gaps_are_one():
    """Fused dims of a result are one dimension of its map, and several of the array of a call."""
    x, f = fi.tensor(2, 9, 7, 64, dtype="f16"), fi.tensor(64, 3, 3, 64, dtype="f16", name="f")
    spec = conv.conv2d(x, f, pad=1)
    kernel = conv.wgmma(spec, pixels=256, channels=64, groups=2, runs=True, persistent=True).lowered("sm_90a")
    interface = Interface.of(kernel)
    (found,) = (m for m in interface.maps if m.pointer == "y")
    assert (found.axes, found.merged, found.box) == ((3, 2), (1, 3), (64, 128))
    data = json.loads(json.dumps(interface.to_json()))
    assert Interface.from_json(data) == interface
    (described,) = (m for m in data["tensor_maps"] if m["name"] == found.name)
    assert (described["extents"], described["strides"]) == (["64", "126"], ["1", "64"])
    (recipe,) = (r for r in recipes(interface, {}) if r.array == "y")
    assert (recipe.extents, recipe.strides) == ((64, 126), (128,))
    text = header(interface, {"name": "conv"})
    assert "y_map_extents[] = {(cuuint64_t)(64), (cuuint64_t)(126)}" in text


def of_merged(outer):
    """Give an interface whose map has two axes as one; the outer one has the given stride."""
    array = PointerParameter("Y", "f16", ("A", "B", "64"), (outer, "64", "1"), "output")
    tensor_map = MapParameter("Y_map", "Y", (2, 1), (64, 16), 128, "f16", merged=(1, 2))
    return attrs.evolve(interface_of(), parameters=(array, tensor_map))


def test_gaps_between_axes_that_a_map_merges():
    assert recipes(of_merged("B * 64"), {"A": 3, "B": 5})[0].extents == (64, 15)
    assert recipes(of_merged("B * 128"), {"A": 1, "B": 5})[0].extents == (64, 5)  # no other index is reached
    with pytest.raises(CallError) as error:
        recipes(of_merged("B * 128"), {"A": 3, "B": 5})
    assert (error.value.code, error.value.message, error.value.fix) == (
        "map-stride",
        "dimensions 0 and 1 of Y have strides of 640 and 64 elements, and bulk copies take 5 elements of the second "
        "to be one of the first",
        "pass Y without gaps between these dimensions",
    )


def test_an_address_is_encoded_once():
    driver = FakeDriver()
    made = planned(driver)
    for address in (4096, 8192, 4096, 4096, 8192):
        made.run([address, 65536, 256], [], 0)
    assert [facts[2] for facts in driver.encoded] == [4096, 8192]
    assert [values[3][0] for _, values in driver.launches] == [1, 2, 1, 1, 2]


def test_what_is_kept_is_bounded():
    driver = FakeDriver()
    (recipe,) = recipes(interface_of(), SIZES)
    kept = EncodedMaps(recipe, driver)
    for address in range(0, 3 * MOST_ADDRESSES * 16, 16):
        assert len(kept[address]) == 128
        assert len(kept) <= MOST_ADDRESSES
    assert len(driver.encoded) == 3 * MOST_ADDRESSES


def test_maps_are_encoded_in_the_kernels_context():
    driver = FakeDriver(current=8)
    planned(driver).run([4096, 8192, 256], [], 0)
    assert driver.events == ["push", "encode", "pop"]


def test_the_driver_refuses_a_map():
    driver = FakeDriver(code=1, current=8)
    with pytest.raises(CallError) as error:
        planned(driver).run([4096, 8192, 256], [], 0)
    assert error.value.code == "map-refused"
    assert error.value.message == (
        "the CUDA driver refuses the tensor map X_map of X with error 1: address 0x1000, extents (72, 40), "
        "strides (288,) bytes, box (32, 16)"
    )
    assert driver.events[-1] == "pop"
    assert driver.launches == []


def test_clusters_are_launched_with_their_attribute():
    driver = FakeDriver()
    made = planned(driver, cluster=2)
    made.run([4096, 8192, 256], [], 13)
    made.run([4096, 8192, 256], [], 0)
    first, second = driver.launches
    assert first[0] == (99, (10, 1, 1), (128, 1, 1), 0, 13, (2, 1, 1))
    assert first[1] == (4096, 8192, 256, b"\1" * 128, 40, 72)
    assert second[0][4] is None  # the default stream


@pytest.mark.parametrize(("cluster", "facts"), [(1, (None, (6, (1, 0, 0)))), (2, ((2, 1, 1), (6, (1, 0, 0))))])
def test_dependent_launches_have_an_attribute_too(cluster, facts):
    driver = FakeDriver()
    interface = attrs.evolve(interface_of(cluster=cluster), dependent=True)
    plan(interface, bound(interface), driver, Loaded(99, 0, 7, 132)).run([4096, 8192, 256], [], 13)
    assert driver.launches[0][0][5:] == facts


def test_the_attribute_of_dependent_launches_is_the_drivers():
    bindings = pytest.importorskip("cuda.bindings.driver")
    attribute = bindings.CUlaunchAttribute()
    attribute.id = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    attribute.value.programmaticStreamSerializationAllowed = 1
    theirs = Attribute.from_address(int(attribute.getPtr()))
    ours = configuration(6, 128, 0, 1, dependent=True).attributes[0]
    assert (ours.id, ours.value[0]) == (theirs.id, theirs.value[0]) == (6, 1)


def test_the_attribute_of_cooperative_launches_is_the_drivers():
    bindings = pytest.importorskip("cuda.bindings.driver")
    attribute = bindings.CUlaunchAttribute()
    attribute.id = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    attribute.value.cooperative = 1
    theirs = Attribute.from_address(int(attribute.getPtr()))
    ours = configuration(6, 128, 0, 1, cooperative=True).attributes[0]
    assert (ours.id, ours.value[0]) == (theirs.id, theirs.value[0]) == (2, 1)


def test_blocks_that_wait_for_each_other_all_fit():
    interface = attrs.evolve(interface_of(), cooperative=True, persistent=False)
    driver = FakeDriver()
    plan(interface, bound(interface), driver, Loaded(99, 0, 7, 9)).run([4096, 8192, 256], [], 0)
    assert len(driver.launches) == 1
    with pytest.raises(CallError) as error:
        plan(interface, bound(interface), driver, Loaded(99, 0, 7, 8))
    assert error.value.code == "cooperative-grid"
    assert (
        str(error.value)
        == f"""\
CallError[cooperative-grid]: the 9 blocks of {interface.entry} wait for each other, and GPU 0 runs 8 at once
fix: use larger tiles or fewer ways, or drop shared=True"""
    )


def test_persistent_grids_fill_the_machine_at_most():
    for resident, blocks in ((132, 9), (4, 4)):
        driver = FakeDriver()
        planned(driver, resident).run([4096, 8192, 256], [], 0)
        assert driver.launches[0][0][1] == blocks


def test_structures_are_laid_out_as_the_drivers():
    bindings = pytest.importorskip("cuda.bindings.driver")
    config, attribute = bindings.CUlaunchConfig(), bindings.CUlaunchAttribute()
    attribute.id = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = 2, 1, 1
    config.gridDimX, config.gridDimY, config.gridDimZ = 6, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 128, 1, 1
    config.sharedMemBytes, config.hStream = 1000, bindings.CUstream(77)
    config.attrs, config.numAttrs = [attribute], 1
    ours = configuration(6, 128, 1000, 2)
    ours.stream = 77
    theirs = Configuration.from_address(int(config.getPtr()))
    for name, kind in Configuration._fields_:
        if name != "attributes":
            a, b = getattr(ours, name), getattr(theirs, name)
            assert (list(a) == list(b)) if issubclass(kind, ctypes.Array) else (a == b), name
    told = Attribute.from_address(ctypes.addressof(theirs.attributes.contents))
    assert (told.id, list(told.value[:3])) == (4, [2, 1, 1])
    assert list(ours.attributes[0].value[:3]) == [2, 1, 1]


class FakeLibrary:
    def __init__(self, number, code=0):
        self.number, self.code, self.asked = number, code, None

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, number, function, threads, shared):
        number._obj.value, self.asked = self.number, (function.value, threads.value, shared.value)
        return self.code

    def cuOccupancyMaxActiveClusters(self, number, function, config):
        given = config._obj
        number._obj.value = self.number
        self.asked = function.value, given.block[0], given.attributes[0].value[0], given.grid[0]
        return self.code


@pytest.fixture
def asked(monkeypatch):
    bindings = pytest.importorskip("cuda.bindings.driver")
    made = object.__new__(Driver)
    made.cu = SimpleNamespace(CUdevice_attribute=bindings.CUdevice_attribute, CUresult=bindings.CUresult)
    monkeypatch.setattr(made, "attribute", lambda name, device: 132, raising=False)
    return made


def test_resident_blocks(asked):
    asked._library = FakeLibrary(2)
    assert asked.resident(99, interface_of(), 0) == 264
    assert asked._library.asked == (99, 128, 0)
    asked._library = FakeLibrary(30)
    assert asked.resident(99, interface_of(cluster=4), 0) == 120
    assert asked._library.asked == (99, 128, 4, 4)


@pytest.mark.parametrize(("cluster", "what"), [(1, "block"), (4, "cluster of 4 blocks")])
def test_no_room(asked, cluster, what):
    asked._library = FakeLibrary(0)
    with pytest.raises(CallError) as error:
        asked.resident(99, interface_of(cluster=cluster), 0)
    assert error.value.code == "no-room"
    assert error.value.message == (
        f"GPU 0 has no room for one {what} of boxes: 128 threads and 0 bytes of shared memory a block"
    )


def test_the_occupancy_query_fails(asked):
    asked._library = FakeLibrary(0, code=1)
    with pytest.raises(CallError, match="CUDA_ERROR_INVALID_VALUE"):
        asked.resident(99, interface_of(), 0)


def test_clusters_of_more_than_sixteen():
    interface = interface_of(cluster=32)
    with pytest.raises(CallError) as error:
        plan(interface, bound(interface), FakeDriver(), Loaded(99, 0, 7, 132))
    assert (error.value.code, error.value.message) == (
        "cluster-size",
        "boxes has clusters of 32 blocks, a launch takes at most 16",
    )


def test_a_grid_of_part_of_a_cluster():
    assert refused(attrs.evolve(interface_of(), cluster=2)) == (
        "precondition",
        "the grid has 9 blocks, no multiple of the 2 of a cluster",
    )


def test_strides_that_no_map_takes():
    assert refused(interface_of(), columns=73) == (
        "map-stride",
        "dimension 0 of X has a stride of 73 f32, 292 bytes: bulk copies need more than 0 and less than 2^40, "
        "and a multiple of 16",
    )
    assert bound(interface_of(), rows=1, columns=73).grid == 3  # the stride of one row is never stepped
    turned = with_map(interface_of(), axes=(0, 1))
    assert refused(turned)[0] == "map-stride"
    for stride in (2**38, 0, -128):
        far = attrs.evolve(interface_of().pointers[0], strides=(str(stride), "1"))
        with pytest.raises(CallError, match="less than 2\\^40"):
            recipes(attrs.evolve(interface_of(), parameters=(far, *interface_of().parameters[1:])), SIZES)


def test_extents_that_no_map_takes():
    with pytest.raises(CallError) as error:
        recipes(interface_of(), {"M": 0, "N": 64})
    assert (error.value.code, error.value.message) == (
        "map-extent",
        "dimension 0 of X has 0 elements, a bulk copy takes 1 to 4294967296",
    )


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"dtype": "f7"}, "map-type", "cannot have f7 with a swizzle of 0 bytes"),
        ({"swizzle": 48}, "map-type", "cannot have f32 with a swizzle of 48 bytes"),
        ({"axes": (1, 0) * 3, "box": (32,) * 6}, "map-rank", "1 to 5 dimensions, that of X 6"),
        ({"box": (32,)}, "map-box", "the box 32 of X has 1 dimensions, its map 2"),
        ({"box": (32, 257)}, "map-box", "the box 32x257 of X must have 1 to 256 elements along each dimension"),
        ({"box": (33, 16)}, "map-box", "the box 33x16 of X has rows of 132 bytes, which must be a multiple of 16"),
        ({"swizzle": 64}, "map-box", "the box 32x16 of X has rows of 128 bytes, more than its swizzle of 64"),
    ],
)
def test_maps_that_no_hardware_takes(changes, code, words):
    found = refused(with_map(interface_of(), **changes))
    assert found[0] == code
    assert words in found[1]


def test_misaligned_names_the_array():
    pointer = interface_of().pointers[0]
    with pytest.raises(CallError) as error:
        check_address(pointer, ArrayFacts(4104, (40, 72), (72, 1), "float32", 0, "other"))
    assert (error.value.code, error.value.message) == (
        "misaligned",
        "X starts at address 0x1008, 8 bytes past a multiple of 16",
    )
    assert planned(FakeDriver()).suspicious([4104, 65536, 256])


@pytest.mark.parametrize("swizzle", [0, 128])
def test_the_kernel_of_the_gpu_tests_compiles(swizzle):
    binary = compile_source(source(f32, swizzle), "boxes", arch("sm_90"))
    assert binary.arch == "sm_90a"
    assert binary.resources.stack == 0


def test_runs_of_pixels_are_encoded_in_im2col_mode():
    """A kernel's map of windows: corners of the visited pixels, channels and pixels of a run, steps of the stride."""
    x, f = fi.tensor(4, 11, 9, 64, dtype="f16"), fi.tensor(64, 3, 3, 64, dtype="f16", name="f")
    kernel = conv.wgmma(conv.conv2d(x, f, stride=2, pad=1), pixels=128, channels=64, runs=True).lowered("sm_90a")
    interface = Interface.of(kernel)
    (found,) = (m for m in interface.maps if m.lower)
    assert (found.box[:2], found.steps, found.lower, found.upper) == ((64, 128), (1, 2, 2, 1), (-1, -1), (-1, -1))
    assert Interface.from_json(json.loads(json.dumps(interface.to_json()))) == interface
    (recipe,) = (r for r in recipes(interface, {}) if r.lower)

    class Driver:
        def encode_windows(self, *facts):
            self.facts = facts
            return 0

    driver = Driver()
    EncodedMaps(recipe, driver)[4096]
    _, kind, rank, address, extents, strides, lower, upper, channels, pixels, steps, *rest = driver.facts
    assert (kind, rank, address.value, channels.value, pixels.value) == (6, 4, 4096, 64, 128)
    assert [*extents] == [64, 9, 11, 4]
    assert [*strides][:3] == [128, 1152, 12672]
    assert ([*lower], [*upper], [*steps], rest) == ([-1, -1], [-1, -1], [1, 2, 2, 1], [0, 3, 3, 0])
    text = header(interface, {"name": "conv"})
    assert "cuTensorMapEncodeIm2col(&x_map" in text
    assert "x_map_lower, x_map_upper, 64, 128, x_map_steps" in text
