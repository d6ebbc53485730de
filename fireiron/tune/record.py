"""Records: the times of one schedule on one device. Each field is checked, since records may come from any file."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, cast

import attrs

from fireiron.base.text import printable
from fireiron.tune.plain import every, number, words
from fireiron.tune.problem import Problem
from fireiron.tune.space import Made, Point, point

FORMAT = 1
WHEN = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?")
LEAST_US = 0.3  # of any kernel: events on a GPU are no finer
MOST_FLOPS = 5e16  # a second: more than any GPU has, for bits too
MOST_SAMPLES = 10**6
AHEAD_S = 3600.0  # that clocks of machines may differ by


def now() -> str:
    """Return the time in UTC, in the form of records."""
    return _told(time.time())


def _told(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _reason(record: object, field: attrs.Attribute[Any], value: object) -> None:
    if value is None:
        return
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if len(parts) != 3 or not all(isinstance(part, str) for part in parts):
        raise ValueError("failure is no stage, code and message")


def _clean(value: object) -> tuple[str, str, str] | None:
    """Make one printable line of each word of a failure: compilers and users' functions write the message."""
    if not isinstance(value, tuple):
        return cast("tuple[str, str, str] | None", value)  # what it is not, the validator says
    parts = cast("tuple[object, ...]", value)
    cleaned = tuple(printable(x).replace("\n", " ").replace("\t", " ") if isinstance(x, str) else x for x in parts)
    return cast("tuple[str, str, str]", cleaned)


def _date(value: object) -> None:
    if not isinstance(value, str) or not WHEN.fullmatch(value):
        raise ValueError("when is no time in UTC, as 2026-11-21T20:58:20Z")


def _keywords(value: object) -> None:
    """Refuse keywords of a record with long texts, control characters or large numbers, which no preset has."""
    left: list[object] = [value]
    while left:
        held = left.pop()
        match held:
            case Point(values):
                left += [x for pair in values for x in pair]
            case Made(name, fields):
                left += [name, *(x for pair in fields for x in pair)]
            case tuple():
                left += cast("tuple[object, ...]", held)
            case str() if len(held) > 200 or not held.isprintable():
                raise ValueError("a keyword holds a long text, or control characters")
            case int() | float() if not isinstance(held, bool) and abs(held) > 2**31:
                raise ValueError(f"a keyword is {held}, which is too large")
            case _:
                pass


@attrs.frozen
class Record:
    """Hold the measurement of one schedule on one device, or the failures of a preset's points.

    Args:
        problem: the computation.
        preset: name of the preset.
        point: values of the preset's keywords.
        device: the GPU's name.
        arch: name of the target.
        us: median of the samples in microseconds; None for a failure.
        p20: microseconds below which a fifth of the samples lie.
        p80: microseconds below which four fifths of the samples lie.
        samples: number of samples.
        modelled_us: the cost model's time in microseconds, which is not measured.
        failure: stage, code and message of a failure; None for a measurement.
        count: number of candidates that failed with this code before they were compiled.
        source: digest of the CUDA that ran.
        registers: number of registers of a thread.
        when: time of the measurement in UTC.
        machine: facts about driver, clocks and versions, by name.
        more: fields that a newer fireiron wrote; they are kept.

    Raises:
        ValueError: for a field of another type, or beyond its range.
    """

    problem: Problem = attrs.field(validator=attrs.validators.instance_of(Problem))
    preset: str = attrs.field(validator=words())
    point: Point = attrs.field(validator=[attrs.validators.instance_of(Point), every(_keywords)])
    device: str = attrs.field(validator=words())
    arch: str = attrs.field(validator=words(40))
    us: float | None = attrs.field(default=None, validator=number(0, 1e10, optional=True))
    p20: float = attrs.field(default=0.0, validator=number(0, 1e10))
    p80: float = attrs.field(default=0.0, validator=number(0, 1e10))
    samples: int = attrs.field(default=0, validator=number(0, 1e12, whole=True))
    modelled_us: float | None = attrs.field(default=None, validator=number(0, 1e15, optional=True))
    failure: tuple[str, str, str] | None = attrs.field(default=None, converter=_clean, validator=_reason)
    count: int = attrs.field(default=1, validator=number(1, 1e9, whole=True))
    source: str = attrs.field(default="", validator=words())
    registers: int = attrs.field(default=0, validator=number(0, 1024, whole=True))
    when: str = attrs.field(default="", validator=every(_date))
    machine: Mapping[str, Any] = attrs.field(factory=dict[str, Any], eq=False, repr=False)
    more: Mapping[str, Any] = attrs.field(factory=dict[str, Any], eq=False, repr=False)

    @property
    def key(self) -> tuple[object, ...]:
        """Return the key of records of one schedule, device and software, of which only the latest is kept."""
        reason = self.failure[:2] if self.failure is not None and self.count > 1 else None
        return self.problem, self.preset, self.point, self.device, self.arch, self.software, reason

    @property
    def schedule(self) -> str:
        """Write the call of the preset as Python, from the record's checked fields."""
        given = [self.problem.given] if self.problem.given else []
        values = [f"{name}={value!r}" for name, value in self.point.values]
        return f"{self.preset.partition('.py:')[2] or self.preset}({', '.join(('spec', *values, *given))})"

    @property
    def version(self) -> str:
        """Return the version of this library that made the record."""
        return self.fact("fireiron")

    @property
    def software(self) -> tuple[str, str, str]:
        """Return the versions of the driver, the compiler and this library; times of other versions may differ."""
        return self.fact("driver"), self.fact("nvrtc"), self.fact("fireiron")

    def fact(self, name: str) -> str:
        """Return one of the machine's facts; "" where the record lacks it."""
        return printable(str(self.machine.get(name, "")))[:80]

    @property
    def doubt(self) -> str:
        """Describe why the record's time is impossible; "" for a possible time."""
        if self.us is None:
            return ""
        if self.us < max(LEAST_US, self.problem.flops / MOST_FLOPS * 1e6):
            return f"{self.us:g} us is less than any GPU takes"
        if not 0 < self.samples <= MOST_SAMPLES:
            return f"{self.samples} samples were not taken"
        if (self.p20 and self.p20 > self.us) or (self.p80 and self.p80 < self.us):
            return f"the median {self.us:g} us does not lie between {self.p20:g} and {self.p80:g} us"
        if self.when > _told(time.time() + AHEAD_S):
            return f"it is from the future, {self.when}"
        return ""

    def to_json(self) -> dict[str, Any]:
        """Convert to plain data, without unknown facts."""
        facts: dict[str, Any] = {"v": FORMAT, "problem": self.problem.to_json(), "preset": self.preset}
        facts |= {"keywords": self.point.to_json(), "device": self.device, "arch": self.arch}
        for name in ("us", "p20", "p80", "samples", "modelled_us", "source", "schedule", "registers", "when"):
            value = getattr(self, name)
            if value or (name == "us" and value is not None):
                facts[name] = round(value, 4) if isinstance(value, float) else value
        if self.failure is not None:
            facts["failure"] = dict(zip(("stage", "code", "message"), self.failure, strict=True))
            facts |= {"count": self.count} if self.count > 1 else {}
        return facts | {"machine": dict(self.machine)} | dict(self.more)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Record:
        """Read the result of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: for other data.
        """
        failed = facts.get("failure")
        if failed is not None and set(failed) != {"stage", "code", "message"}:
            raise ValueError("failure is no stage, code and message")
        if ("us" in facts) == (failed is not None):
            raise ValueError("it has neither a time nor a failure")
        names = ("us", "p20", "p80", "samples", "modelled_us", "source", "registers", "when", "count")
        machine, keywords = facts.get("machine", {}), facts["keywords"]
        if not isinstance(machine, dict) or not isinstance(keywords, dict):
            raise ValueError("machine and keywords are objects")
        return cls(
            problem=Problem.from_json(facts["problem"]),
            preset=facts["preset"],
            point=point(cast("dict[str, Any]", keywords)),
            device=facts["device"],
            arch=facts["arch"],
            failure=None if failed is None else (failed["stage"], failed["code"], failed["message"]),
            machine=cast("dict[str, Any]", machine),
            more={name: value for name, value in facts.items() if name not in KNOWN},
            **{name: facts[name] for name in names if name in facts},
        )


KNOWN = frozenset({
    "v", "problem", "preset", "keywords", "device", "arch", "us", "p20", "p80", "samples", "modelled_us", "source",
    "schedule", "registers", "when", "failure", "count", "machine",
})  # fmt: skip
