"""Statements of the kernel IR as C++ statements."""

from __future__ import annotations

from typing import assert_never

import attrs

from fireiron.algebra.expr import Expr, as_int, fits_int32
from fireiron.base.errors import CheckError
from fireiron.base.text import Writer
from fireiron.cuda import micro
from fireiron.cuda.helpers import COUNT_IN
from fireiron.cuda.memory import Element, Numbers, integer_type
from fireiron.cuda.scalars import scalar
from fireiron.kernel.ir import Call, Commit, Compute, CountIn, For, If, Let, Micro, Region, Statement, Sync, Wait
from fireiron.language.levels import Block

WARP_THREADS = 32
HARDWARE_BARRIERS = 16


@attrs.define
class Body:
    """Collect a kernel's statements, and the device functions that they call.

    Args:
        threads: of a block.
        writer: takes the statements.
        functions: texts of wrappers and microkernels, in the order of first use.
        number: prints index expressions.
    """

    threads: int
    writer: Writer
    functions: dict[str, None] = attrs.field(factory=dict[str, None])
    number: Numbers = attrs.field(factory=Numbers)

    def statements(self, body: tuple[Statement, ...]) -> None:
        """Print statements in order."""
        for statement in body:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        """Print one statement."""
        write, number = self.writer.line, self.number
        match statement:
            case Let(var=var, value=value):
                # The variable may be known to be small where its value's parts are not.
                c_type = "int" if fits_int32(var) else integer_type(value)
                write(f"const {c_type} {var.name} = {number(value)};")
            case For(var=var, extent=extent, body=body, unroll=unroll, together=together):
                # Without the number the compiler would choose: what is written is what runs.
                write("#pragma unroll" if unroll else f"#pragma unroll {together}")
                head = f"for ({integer_type(extent)} {var.name} = 0; {var.name} < {number(extent)}; ++{var.name}) {{"
                with self.writer.block(head):
                    self.statements(body)
            case If(condition=condition, body=body):
                with self.writer.block(f"if ({number(condition)}) {{"):
                    self.statements(body)
            case Call():
                write(self._call(statement))
            case Compute(dst=dst, expr=expr, inputs=inputs):
                value = scalar(expr, tuple(str(Element(view, number)) for view in inputs))
                write(f"{self._where(statement.write)}{Element(dst, number)} = {value};")
            case Sync():
                write(f"{_sync(statement, self.threads)}  // {statement.reason}")
            case CountIn(var=var, counter=counter, count=count, order=order):
                self.functions[COUNT_IN.format(order=order)] = None
                write(f"const int {var.name} = count_in(&{Element(counter, number)}, {number(count)});")
            case Commit(group=group):
                write(f"{_name(group)}_commit();")
            case Wait(group=group, pending=pending):
                write(f"{_name(group)}_wait<{pending}>();")
            case Micro():
                self.functions[micro.function(statement)] = None
                write(self._where(statement.write) + micro.call(statement, number))
            case Region(title=title, body=body):
                write()
                write(f"// {title}")
                self.statements(body)
            case _ as never:
                assert_never(never)

    def _call(self, call: Call) -> str:
        """Print an atom's call under its masks, and keep its wrapper."""
        atom = call.atom
        fields: dict[str, object] = {
            o.role: Element(v, self.number) for o, v in zip(atom.operands, call.views, strict=True)
        }
        fields.update((binding.name, self.number(binding.value)) for binding in call.bindings)
        if atom.kind == "Shuffle":
            if call.lane is None or call.read is not None or call.write is not None:
                raise _refused(call, "every lane of the warp must take part, and name a source lane")
            fields["lane"] = self.number(call.lane)
        text, wrapper, where = atom.call, atom.cuda, self._where(call.write)
        if where and atom.masked_call and call.read is None:
            # The instruction's own predicate leaves no branch for others to be scheduled around.
            text, wrapper, where = atom.masked_call, atom.masked_cuda, ""
            fields["write"] = self.number(call.write)  # pyright: ignore[reportArgumentType]
        if call.read is not None and as_int(call.read) != 1:
            if not atom.guarded_call:
                raise _refused(call, "it has no form that reads nothing and writes zeros")
            text, wrapper = atom.guarded_call, atom.guarded_cuda
            fields["read"] = self.number(call.read)
        if wrapper:
            self.functions[wrapper] = None
        return where + text.format_map(fields)

    def _where(self, condition: Expr | None) -> str:
        """Print the guard of a statement that some threads skip."""
        return "" if condition is None or as_int(condition) == 1 else f"if ({self.number(condition)}) "


def _name(group: str) -> str:
    return group.replace(".", "_")


def _sync(sync: Sync, threads: int) -> str:
    """Choose the barrier of a level's units: the block's, the warp's, or one of the 16 numbered ones for each unit.

    Raises:
        CheckError: `no-barrier` where neither fits.
    """
    size = threads if sync.level.name == Block.name else sync.level.size
    if size is not None and size <= WARP_THREADS and threads > size:
        return "__syncwarp();"
    if size == threads:
        return "__syncthreads();"
    if size is None or size % WARP_THREADS or threads // size >= HARDWARE_BARRIERS:
        raise CheckError(
            "no-barrier",
            f"no barrier waits for the threads of each {sync.level} alone in a block of {threads} threads",
            fix="wait for the whole Block or for a Warp",
            link=sync.link,
        )
    # Barrier 0 is the block's own.
    return f"sync_threads(1 + thread / {size}, {size});"


def _refused(call: Call, fact: str) -> CheckError:
    return CheckError("masked-atom", f"{call.atom.name} cannot run under the masks given to it: {fact}", link=call.link)
