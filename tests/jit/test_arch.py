import pytest

from fireiron.algebra.arch import ARCHS, arch, native
from fireiron.algebra.occupancy import occupancy
from fireiron.base.errors import SpecError


@pytest.mark.parametrize("name", ["sm_90a", "90a", "compute_90a", "SM_90A"])
def test_finds_by_name(name):
    assert arch(name).name == "sm_90a"


def test_finds_by_number_and_version():
    assert arch(90).name == "sm_90"
    assert arch("8.6").number == 86
    assert arch(arch(80)) is arch(80)


@pytest.mark.parametrize("name", ["sm_60", 61, "hopper", "", "89a"])
def test_unknown_arch(name):
    with pytest.raises(SpecError) as error:
        arch(name)
    assert error.value.code == "unknown-arch"
    assert "sm_90a" in error.value.fix


def test_features_belong_to_their_targets():
    budgets = [a.name for a in ARCHS if a.has("register budgets")]
    assert budgets == ["sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"]
    assert not arch(89).has("clusters")
    assert arch(90).has("clusters")


def test_hopper_has_one_target():
    assert arch("sm_90").target is arch("sm_90a") is arch("sm_90a").target
    assert all(row.target is row for row in ARCHS if row.number != 90)


def test_native_takes_the_accelerated_target_and_the_nearest_older():
    assert native(90).name == "sm_90a"
    assert native(80).name == "sm_80"
    assert native(122).name == "sm_121"
    with pytest.raises(SpecError):
        native(62)


# Blocks, warps, limit: worked out by hand from the CUDA occupancy calculator's rules.
@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "blocks", "limit"),
    [
        (80, 256, 32, 0, 8, "threads"),
        (80, 256, 64, 0, 4, "registers"),
        (80, 256, 128, 0, 2, "registers"),
        (80, 256, 255, 0, 1, "registers"),
        (80, 128, 40, 0, 12, "registers"),
        (80, 32, 16, 0, 32, "blocks"),
        (80, 128, 32, 48 * 1024, 3, "shared memory"),
        (80, 128, 32, 163 * 1024, 1, "shared memory"),
        (80, 128, 32, 164 * 1024, 0, "shared memory"),
        (86, 256, 32, 0, 6, "threads"),
        (86, 128, 32, 32 * 1024, 3, "shared memory"),
        (86, 128, 32, 49 * 1024, 2, "shared memory"),
        (75, 256, 32, 0, 4, "threads"),
        (75, 128, 32, 32 * 1024, 2, "shared memory"),
        (90, 384, 168, 200 * 1024, 1, "registers"),
        (90, 128, 32, 113 * 1024, 2, "shared memory"),
        (89, 32, 16, 0, 24, "blocks"),
        (90, 1024, 65, 0, 0, "registers"),
        (90, 1025, 32, 0, 0, "threads"),
    ],
)
def test_occupancy(name, threads, registers, shared, blocks, limit):
    found = occupancy(arch(name), threads, registers, shared)
    assert (found.blocks, found.limit) == (blocks, limit)
    assert found.warps == blocks * -(-threads // 32)
