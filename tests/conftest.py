"""What every test may use: texts compared whole with the files under tests/golden, drawn numbers, a measure of time."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

if TYPE_CHECKING:
    import numpy as np

    from fireiron.algebra.dtypes import DType

GOLDEN = Path(__file__).resolve().parent / "golden"
QUIET_US = 9.4  # of one `_work` on the quiet machine that limits of time were set on (EPYC, Python 3.11)
MOST_SLOW = 3.0  # above which a limit of time would say nothing
NEW_OBJECTS = 50_000  # between two looks for cycles; Python looks after 700, a tenth of the time of all tests

# The products of tests are small: threads of the BLAS would cost more than they bring. NumPy reads this when imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files, then fail the run")


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A run that writes what it compares with shows nothing.
    if session.config.getoption("--update-golden") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep, of the cases of a test marked `product`, a few that have every value of every parameter in every run.

    The others are exhaustive.
    """
    products: dict[str, list[pytest.Function]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("product"):
            products.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in products.values():
        often = [case for case in cases if case.get_closest_marker("exhaustive") is None]
        for case in set(often) - set(covering(often)):
            case.add_marker(pytest.mark.exhaustive)


def covering(cases: list[pytest.Function]) -> list[pytest.Function]:
    """Choose cases, one after another that has the most values which no earlier one has, until all values occur."""
    left = {case: {(name, id(value)) for name, value in case.callspec.params.items()} for case in cases}
    kept: list[pytest.Function] = []
    while left and (best := max(left, key=lambda case: len(left[case]))) and (new := left[best]):
        kept.append(best)
        left = {case: values - new for case, values in left.items() if case is not best}
    return kept


def pytest_collection_finish() -> None:
    """Let the search for cycles skip what collection made, and look for cycles less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, 20, 50)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file named below tests/golden; the name must stand in the test as a literal."""

    def compare(text: str, name: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        assert path.is_file(), f"tests/golden/{name} is missing: run pytest --update-golden, and read what it writes"
        assert text == path.read_bytes().decode("utf-8")

    return compare


@attrs.frozen
class _Item:
    """What `_work` looks at."""

    key: int
    shape: tuple[int, int]


ITEMS = tuple(_Item(i, (i, i + 1)) for i in range(64))


def _work() -> int:
    """Do what the interpreter does everywhere: read attributes, build tuples, hash and find them."""
    found: dict[tuple[object, ...], int] = {}
    for item in ITEMS:
        found.setdefault((item.key, *item.shape, isinstance(item, _Item)), len(found))
    return len(found)


@pytest.fixture
def slowness() -> Callable[[float], float]:
    """Measure how many times slower than when quiet the machine is, 1 to 3: what has a limit of time is divided by it.

    Right behind that, and for about as many milliseconds of the processor: a machine that others share is slow for
    some, then quick.
    """

    def measured(ms: float) -> float:
        times = round(ms * 1e3 / QUIET_US)
        begin = time.process_time()
        for _ in range(times):
            _work()
        return min(MOST_SLOW, max(1.0, (time.process_time() - begin) / times * 1e6 / QUIET_US))

    return measured


@pytest.fixture
def draw() -> Callable[[np.random.Generator, DType, int], np.ndarray[Any, Any]]:
    """Draw any bit patterns, numbers near 1, and the edges: zeros, subnormals, the largest, infinities, NaN."""
    import numpy as np

    from fireiron.algebra.dtypes import tf32
    from fireiron.algebra.elements import TF32_READ

    def drawn(rng: np.random.Generator, d: DType, count: int) -> np.ndarray[Any, Any]:
        unsigned = np.dtype(f"u{d.nbytes}")
        # Of tf32 the low bits are not read: numbers here have none.
        mask = unsigned.type(TF32_READ if d == tf32 else 2**d.bits - 1)
        wild = (rng.integers(0, 2**d.bits, count, dtype=np.uint64).astype(unsigned) & mask).view(d.numpy)
        if d.kind == "int":
            return wild
        numbers = np.clip(rng.integers(-4096, 4096, count) / rng.choice([1, 64, 4096, 3], count), *d.limits)
        tame = (numbers.astype(d.numpy).view(unsigned) & mask).view(d.numpy)
        last = 2 ** (d.bits - 1)
        below = d.bits - 1 - d.exponent  # bits below the exponent, of which tf32 reads the upper ones
        exponents = ((1 << d.exponent) - 1) << below
        one = (1.0 + np.zeros(1)).astype(d.numpy).view(unsigned)[0]
        patterns = [
            0,
            last,
            1,
            last + 1,
            exponents - 1,
            last + exponents - 1,
            exponents,
            last + exponents,
            exponents + 1,
        ]
        edges = (np.array([*patterns, one, one + 1, one - 1, 1 << below], dtype=unsigned) & mask).view(d.numpy)
        return np.choose(rng.integers(0, 3, count), [wild, tame, rng.choice(edges, count)]).astype(d.numpy)

    return drawn


@pytest.fixture
def right() -> Callable[..., Any]:
    """Simulate a MatMul's schedule with races looked for, and compare with NumPy in f64; returns the report.

    The bound of a float result is (K + 2) eps_acc |A| |B| for sums in any order, plus one rounding to C's type;
    integers are exact. A second run on whole numbers is compared bit by bit, where ops of the epilog allow it.
    """
    import numpy as np

    from fireiron.algebra.elements import read
    from fireiron.jit.interface import Interface
    from fireiron.language.decompositions import Epilog
    from fireiron.simulate import simulate
    from fireiron.verify.random_data import random_arrays
    from fireiron.verify.verification import expected, held, make

    def exactly(schedule: Any, sizes: dict[str, int], numbers: dict[str, float], blocks: Any) -> None:
        kernel = schedule.lowered()
        data = make("exact", schedule, Interface.of(kernel), sizes, numbers)
        wanted = expected(schedule, data)
        simulate(kernel, data.arrays, sizes, data.numbers, blocks=blocks, track=False)
        found = held(schedule, data, wanted, partial=blocks is not None)
        assert found.passed, f"on whole numbers {found}"

    def check(
        schedule: Any,
        expect: Callable[[Any, dict[str, Any]], Any] | None = None,
        numbers: dict[str, float] | None = None,
        blocks: Any = None,
        slack: float = 1.0,
        **sizes: int,
    ) -> Any:
        exactly(schedule, sizes, numbers or {}, blocks)
        kernel, spec = schedule.lowered(), schedule.matmul
        arrays = random_arrays(Interface.of(kernel), sizes)
        wide = np.float64 if spec.A.dtype.kind == "float" else np.int64

        def plain(tensor: Any) -> Any:
            x = read(arrays[tensor.name], tensor.dtype).astype(wide)
            return x if tensor.storage == tuple(range(len(tensor.shape))) else x.swapaxes(-1, -2)

        a, b, before = plain(spec.A), plain(spec.B), {name: x.astype(wide) for name, x in arrays.items()}
        old = plain(spec.C)
        report = simulate(kernel, arrays, sizes, numbers or {}, blocks=blocks)
        product, bound = a @ b, np.abs(a) @ np.abs(b)
        if spec.product == "xor":
            product = (a[..., :, :, None] != b[..., None, :, :]).sum(-2)
        if expect is not None:
            wanted = expect(product, before)
        else:
            values = {"": 0.0, **(numbers or {})}
            alpha, beta = (values[c.name] if c.name else c.value for c in (spec.alpha, spec.beta))
            wanted = product * alpha if beta == 0 else product * alpha + beta * old
            slack *= abs(alpha)
        got = plain(spec.C)
        assert got.shape == wanted.shape
        acc = next((x.dtype for x in schedule.links if isinstance(x, Epilog)), spec.C.dtype)
        if acc.kind == "int":
            assert np.array_equal(got, wanted)
            return report
        # Ops of the epilog round in the accumulator's type too.
        room = slack * (a.shape[-1] + 2) * acc.epsilon * bound + 4 * acc.epsilon * np.abs(wanted)
        room = room + (spec.C.dtype.epsilon * np.abs(wanted) if spec.C.dtype != acc else 0)
        excess = np.abs(got - wanted) - room
        assert not np.isnan(got).any(), f"{int(np.isnan(got).sum())} elements are NaN"
        assert (excess <= 1e-30).all(), (
            f"error {float(np.abs(got - wanted).max())} where {float(room.min())} is allowed"
        )
        return report

    return check


@attrs.frozen
class Programs:
    """Run fused programs, and hold every output against its reference, within the bound that the CLI states."""

    @staticmethod
    def arrays(schedule: Any, seed: int = 0, **sizes: int) -> dict[str, Any]:
        """Make random inputs and marked outputs; weights of layers keep activations in their range."""
        from fireiron.jit.interface import Interface
        from fireiron.verify.random_data import random_arrays, scaled

        return scaled(schedule.program, random_arrays(Interface.of(schedule.lowered()), sizes, seed))

    @staticmethod
    def compare(schedule: Any, arrays: dict[str, Any], numbers: dict[str, float] | None = None) -> None:
        """Compare every output with NumPy in f64."""
        from fireiron.verify.comparison import compare
        from fireiron.verify.reference import mathematical, references

        expected = references(schedule, arrays, numbers or {}, drawn=True)
        for t in schedule.program.spec.outputs:
            found = compare(t.name, mathematical(t, arrays[t.name]), expected[t.name], t.dtype)
            assert found.passed, str(found)

    @staticmethod
    def simulated(schedule: Any, numbers: dict[str, float] | None = None, seed: int = 0, **sizes: int) -> Any:
        """Run on the simulator, on random numbers with races looked for and on whole ones; gives the first's report."""
        from fireiron.simulate import simulate
        from fireiron.verify.verification import KINDS, verify

        reports: dict[str, Any] = {}

        def launch(data: Any) -> None:
            track = data.kind == "random"
            reports[data.kind] = simulate(schedule.lowered(), data.arrays, sizes, data.numbers, track=track)

        verdict = verify(schedule, launch, sizes, numbers, seed=seed, kinds=KINDS)
        assert verdict.passed, str(verdict)
        return reports["random"]


@pytest.fixture
def programs() -> Programs:
    """Give what tests of fused programs share."""
    return Programs()
