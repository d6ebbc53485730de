"""Measurements for a search: the session runs in another process, which is started again after a crash."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fireiron.algebra.expr import as_int
from fireiron.jit.cache import Entry
from fireiron.jit.process import Lost, Process
from fireiron.language.specs import tensors_of
from fireiron.tune.candidates import Built, Failure, failure
from fireiron.tune.machine import Board, Machine, State
from fireiron.tune.proof import Proof, is_plain, proof
from fireiron.tune.session import Session, Trial
from fireiron.verify.reference import Meaning

START_LIMIT_S = 60.0
TRIAL_LIMIT_S = 20.0
ELEMENTS_PER_S = 1e7  # that are surely made and verified in a second, whole numbers and random ones
ONE = 1  # sample, to find out who is guilty


class Measurer(Protocol):
    """An object that measures candidates."""

    machine: Machine
    notes: list[str]

    def state(self) -> State:
        """Read clocks and power, right after samples were taken."""
        ...

    def trial(self, index: int, built: Built, samples: int) -> Sequence[float] | Failure:
        """Verify a candidate, and sample it."""
        ...

    def sample(self, indices: Sequence[int], samples: int) -> tuple[Mapping[int, Sequence[float]], dict[int, Failure]]:
        """Sample candidates in interleaved rounds; return samples and failures, by candidate."""
        ...


def proof_of(built: Built, spec: Any) -> Proof:
    """Make the exact run (`Proof`) of a compiled candidate of a spec."""
    assert built.entry is not None
    assert built.meaning is not None
    return proof(built.meaning, built.entry.interface, spec.program.spec)


class GpuMeasurer:
    """Measure on a GPU, in a process of its own.

    Args:
        spec: the empty schedule.
        device: the GPU's ordinal.
        machine: the device and its software.
        session: class of the object that runs candidates in the process.
        made: function that makes the exact run of a candidate of the spec.
        trial_limit_s: seconds after which a candidate counts as hanging.
    """

    def __init__(
        self,
        spec: Any,
        device: int,
        machine: Machine,
        *,
        session: Any = Session,
        made: Callable[[Built, Any], Proof] = proof_of,
        trial_limit_s: float = TRIAL_LIMIT_S,
    ) -> None:
        self.machine = machine
        self.notes: list[str] = []
        self._session, self._spec = session, spec
        self._made, self._proofs = made, list[tuple[Meaning | None, Proof]]()
        self._known: set[int] = set()
        self._limit_s = trial_limit_s
        # The first trial makes the operands, and verifies on the host.
        self._trial_limit_s = trial_limit_s + (0.0 if spec is None else _elements(spec) / ELEMENTS_PER_S)
        # There the chosen GPU is the only one.
        visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        only = visible[device] if device < len(visible) else str(device)
        self._process = Process({"CUDA_VISIBLE_DEVICES": only} if device or visible else {})
        self._entries: dict[int, Entry] = {}
        self._board = Board(device)

    def state(self) -> State:
        """Read clocks and power."""
        return self._board.state()

    def close(self) -> None:
        """End the process."""
        self._process.kill()

    def trial(self, index: int, built: Built, samples: int) -> Sequence[float] | Failure:
        """Verify a candidate, and sample it."""
        try:
            self._ready()
            key = self._proof(built)
            plain = built.meaning is not None and is_plain(built.meaning)
            found: Trial = self._process.do(
                "trial", index, built.entry, samples, key, plain, limit_s=self._trial_limit_s
            )
        except Lost as error:
            return Failure("run", error.code, error.message)
        except Exception as error:
            # After an error the driver's context may be unusable, and would fail everyone who comes later.
            self._process.kill()
            return failure("run", error)
        if found.wrong:
            return Failure("verify", "wrong-result", found.wrong)
        assert built.entry is not None
        self._entries[index] = built.entry
        return found.times_us

    def _proof(self, built: Built) -> int:
        """Send a candidate's exact run to the session, and return its key; candidates of one meaning share one run."""
        key = next((i for i, (meaning, _) in enumerate(self._proofs) if meaning == built.meaning), len(self._proofs))
        if key == len(self._proofs):
            self._proofs.append((built.meaning, self._made(built, self._spec)))
        if key not in self._known:
            self._process.do("prove", key, self._proofs[key][1], limit_s=self._trial_limit_s)
            self._known.add(key)
        return key

    def sample(self, indices: Sequence[int], samples: int) -> tuple[Mapping[int, Sequence[float]], dict[int, Failure]]:
        """Sample candidates in interleaved rounds; after a failure, find the failing ones, and sample the others."""
        lost: dict[int, Failure] = {}
        left = list(indices)
        while left:
            try:
                self._ready()
                return self._process.do("sample", left, samples, limit_s=self._limit_s * (1 + len(left))), lost
            except Exception as error:
                self._process.kill()
                guilty = self._guilty(left)
                if not guilty:  # nobody fails alone: it was the round, and it is not tried for ever
                    why = (
                        failure("run", error) if not isinstance(error, Lost) else Failure("run", error.code, str(error))
                    )
                    guilty = dict.fromkeys(left, why)
                lost |= guilty
                left = [i for i in left if i not in lost]
        return {}, lost

    def _guilty(self, indices: Sequence[int]) -> dict[int, Failure]:
        found: dict[int, Failure] = {}
        for index in indices:
            try:
                self._begin()
                self._process.do("load", index, self._entries[index], limit_s=self._limit_s)
                self._process.do("sample", [index], ONE, limit_s=self._limit_s)
            except Lost as error:
                found[index] = Failure("run", error.code, error.message)
            except Exception as error:
                self._process.kill()
                found[index] = failure("run", error)
        for index in found:
            self._entries.pop(index, None)
        self._process.kill()
        return found

    def _ready(self) -> None:
        """Start the session if it does not run, and load the verified candidates again."""
        if not self._process.alive:
            self._begin()
            for index, entry in self._entries.items():
                self._process.do("load", index, entry, limit_s=self._limit_s)

    def _begin(self) -> None:
        if not self._process.alive:
            self._process.make(self._session, self._spec, limit_s=START_LIMIT_S)
            self._known.clear()


def _elements(spec: Any) -> int:
    """Count the elements of a product's three tensors."""
    return sum(math.prod(as_int(n) or 1 for n in tensor.shape) for tensor in tensors_of(spec.program.spec))
