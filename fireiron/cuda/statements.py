"""Statements of the kernel IR as C++ statements."""

from __future__ import annotations

from typing import assert_never

import attrs
import numpy as np

from fireiron.algebra.expr import (
    Const,
    Expr,
    Extremum,
    FloorDiv,
    Symbol,
    Var,
    as_expr,
    as_int,
    evaluate,
    free,
    gt,
    le,
    maximum,
    proves,
    terms,
)
from fireiron.algebra.index.printing import fits_int32
from fireiron.algebra.scalar import Custom, Debug, parts, without_coordinates
from fireiron.atoms.flights import FENCES
from fireiron.base.errors import CheckError
from fireiron.base.link import Link
from fireiron.base.text import Writer
from fireiron.cuda import micro
from fireiron.cuda.coordinates import apart
from fireiron.cuda.helpers import COUNT_IN, COUNT_IN_PART
from fireiron.cuda.memory import Element, Numbers, integer_type
from fireiron.cuda.pairs import pair_text
from fireiron.cuda.scalars import custom, printing, scalar
from fireiron.kernel.ir.statements import (
    THREAD,
    Advance,
    Arrive,
    Ask,
    Await,
    Call,
    Commit,
    Compute,
    CountIn,
    Cursor,
    Draw,
    Fence,
    Fetch,
    FindGroup,
    For,
    If,
    InitBarriers,
    Leave,
    Let,
    Lower,
    Meet,
    Micro,
    Prefetch,
    Raise,
    Region,
    Role,
    Roles,
    Statement,
    Sync,
    Turn,
    Vote,
    Wait,
    walk,
)
from fireiron.kernel.passes.pairs import pair_of
from fireiron.language.levels import Block, Cluster, Level

WARP_THREADS = 32
HARDWARE_BARRIERS = 16
INT = 32  # bits
VOTES = {
    "any": "__any_sync(0xffffffff, {flag})",
    "count": "__popc(__ballot_sync(0xffffffff, {flag}))",
    "first": "__clz(__brev(__ballot_sync(0xffffffff, {flag})))",
}


@attrs.define
class Body:
    """Collect a kernel's statements, and the device functions that they call.

    Args:
        threads: of a block.
        writer: takes the statements.
        functions: texts of wrappers and microkernels, in the order of first use.
        number: prints index expressions.
        constants: variables of unrolled loops, whose values the compiler knows.
        roles: number of roles that run at the same time here.
        bounded: whether waits on mbarriers fail after some seconds.
        role: the first thread of the role that is printed.
        named: by that thread and number of threads of a unit, the number of the named barrier of the first unit.
        counted: how many named barriers units have.
    """

    threads: int
    writer: Writer
    functions: dict[str, None] = attrs.field(factory=dict[str, None])
    number: Numbers = attrs.field(factory=Numbers)
    constants: set[str] = attrs.field(factory=set[str])
    roles: int = 1
    bounded: bool = False
    role: int = 0
    named: dict[tuple[int, int], int] = attrs.field(factory=dict[tuple[int, int], int])
    counted: int = 0

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
                text = number(value)
                if self.roles > 1 and _same_in_warps(value, self.threads):
                    # Read from one lane, so that the compiler keeps it once for the warp.
                    text = f"__shfl_sync(0xffffffff, {text}, 0)"
                write(f"const {c_type} {var.name} = {text};")
            case FindGroup(groups=groups, ends=ends, item=item):
                names = ", ".join(var.name for var in (groups.group, groups.first, groups.begin, groups.length))
                facts = ", ".join(number(e) for e in (groups.count, groups.rows, as_expr(groups.size), groups.items))
                write(f"find_group(&{Element(ends, number)}, {facts}, {number(item)}, {names});")
            case Fetch(var=var, view=view, present=present):
                bits, read = view.buffer.dtype.bits, str(Element(view, number))
                if bits > INT:  # an index fits an int; what a condition compares, or a check refuses, may not
                    read = f"saturate_i32({read})" if var.lower < 0 or self.bounded else f"(int){read}"
                elif bits < INT:
                    read = f"(int){read}"
                if var.lower < 0:  # a condition's: what is beyond all indices is as far beyond
                    assert var.extent is not None
                    read = f"max({var.lower}, min({read}, {number(var.extent - 1)}))"
                there = read if proves(present) else f"{number(present)} ? {read} : 0"
                write(f"const int {var.name} = {there};")
                if self.bounded and var.extent is not None and var.lower >= 0:
                    write(f"check_index({var.name}, {number(var.extent)}, {_what(view.buffer.name, statement.link)});")
            case Vote(var=var, flag=flag, present=present):
                asked = VOTES[statement.found].format(flag=Element(flag, number))
                write(f"const int {var.name} = {asked if proves(present) else f'{number(present)} ? {asked} : 1'};")
            case Draw(var=var, place=place, reads=True):
                # Read from one lane, so that the compiler keeps it once for the warp.
                read = f"__shfl_sync(0xffffffff, {Element(place, number)}, 0)"
                write(f"const int {var.name} = {read};")
            case Draw(var=var, trip=trip, counter=counter, place=place):
                facts = ", ".join(self._int(e) for e in (trip, statement.first, statement.units, statement.items))
                places = f"&{Element(counter, number)}, &{Element(place, number)}"
                write(f"const int {var.name} = draw_item({places}, {facts});")
            case Leave(condition=condition):
                write(f"if ({number(condition)}) break;")
            case For(pairs=True):
                pair = pair_of(statement)
                assert pair is not None
                name = pair.var.name
                write("#pragma unroll")
                with self.writer.block(f"for (int {name} = 0; {name} < {pair.count}; ++{name}) {{"):
                    write(pair_text(pair, number))
            case For(var=var, extent=extent, body=body, unroll=unroll, together=together):
                # Without the number the compiler would choose: what is written is what runs.
                write("#pragma unroll" if unroll else f"#pragma unroll {together}")
                more = "" if statement.drawn else f" {goes_on(var, extent, number)}"
                head = f"for ({integer_type(extent)} {var.name} = 0;{more}; ++{var.name}) {{"
                if unroll:
                    self.constants.add(var.name)
                else:
                    self.constants.discard(var.name)
                with self.writer.block(head):
                    self.statements(body)
            case If(condition=condition, body=body):
                with self.writer.block(f"if ({number(condition)}) {{"):
                    self.statements(body)
            case Call():
                write(self._call(statement))
            case Compute(dst=dst, expr=expr, inputs=inputs):
                tree, places = without_coordinates(apart(expr, self.constants), len(inputs))
                value = scalar(tree, (*(str(Element(view, number)) for view in inputs), *map(self._int, places)))
                self.functions |= {custom(part): None for part in parts(expr) if isinstance(part, Custom)}
                self.functions |= {printing(part): None for part in parts(expr) if isinstance(part, Debug)}
                write(f"{self._where(statement.write)}{Element(dst, number)} = {value};")
            case Sync():
                write(f"{self._sync(statement)}  // {statement.reason}")
            case CountIn():
                self._count_in(statement)
            case Meet(counter=counter, count=count, level=level):
                write(f"meet(&{Element(counter, number)}, {number(count)}, {', '.join(self._unit(level))});")
            case Raise(flag=flag, level=level):
                first, _, _ = self._unit(level)
                write(f"raise_flag(&{Element(flag, number)}, {first});")
            case Lower(flag=flag, level=level):
                write(f"lower_flag(&{Element(flag, number)}, {', '.join(self._unit(level))});")
            case Commit(group=group):
                write(f"{_name(group)}_commit();")
            case Wait(group=group, pending=pending, reads_only=reads_only, holds=holds):
                write(f"{_name(group)}_wait{'_read' if reads_only else ''}<{pending}>();")
                if holds is not None:
                    write(f"hold({holds.name});")
            case InitBarriers(barriers=barriers):
                with self.writer.block("if (threadIdx.x == 0) {"):
                    for barrier in barriers:
                        with self.writer.block(f"for (int i = 0; i < {barrier.slots}; ++i) {{"):
                            write(f"mbarrier_init(&{barrier.name}[i], {barrier.count});")
            case Await(barrier=barrier, slot=slot, parity=parity):
                place = f"&{barrier.name}[{number(slot)}], {number(parity)}"
                wide = "_cluster" if statement.wide else ""
                if self.bounded:
                    write(f"mbarrier_wait{wide}_bounded({place}, {_whose(statement)});")
                else:
                    write(f"mbarrier_wait{wide}({place});")
            case Arrive(barrier=barrier, slot=slot, nbytes=nbytes, peer=peer):
                place = f"&{barrier.name}[{number(slot)}]"
                if nbytes:
                    write(f"mbarrier_expect({place}, {nbytes});")
                elif peer is not None:
                    wide = "_release" if statement.wide else ""
                    write(f"mbarrier_arrive{wide}_at({place}, {number(peer)});")
                else:
                    write(f"mbarrier_arrive({place});")
            case Advance(cursor=cursor, by=by):
                self._advance(cursor, by)
            case Fence(kind=kind, reason=reason):
                write(f"{_FENCES[kind]}();" + (f"  // {reason}" if reason else ""))
            case Prefetch(maps=maps):
                with self.writer.block("if (threadIdx.x == 0) {"):
                    for described in maps:
                        write(f"prefetch_map(&{described.name});")
            case Ask(view=view):
                write(f"prefetch_line(&{Element(view, number)});  // it is read soon")
            case Turn(number=barrier, threads=threads, waits=waits, reason=reason):
                write(f"barrier_{'sync' if waits else 'arrive'}<{barrier}, {threads}>();  // {reason}")
            case Roles(roles=roles):
                self._roles(roles)
            case Micro():
                self.functions[micro.function(statement)] = None
                write(self._where(statement.write) + micro.call(statement, number))
            case Region(title=title, body=body):
                write()
                write(f"// {title}")
                self.statements(body)
            case _ as never:
                assert_never(never)

    def searches(self, body: tuple[Statement, ...]) -> None:
        """Declare the variables of the searches for groups in a body; the first search begins at group -1."""
        for statement in walk(body):
            if isinstance(statement, FindGroup):
                groups = statement.groups
                others = ", ".join(f"{var.name} = 0" for var in (groups.first, groups.begin, groups.length))
                self.writer.line(f"int {groups.group.name} = -1, {others};")

    def _count_in(self, statement: CountIn) -> None:
        place, count = f"&{Element(statement.counter, self.number)}", self.number(statement.count)
        size = statement.level.size
        if self.roles == 1 and size is None:
            self.functions[COUNT_IN.format(order=statement.order)] = None
            arguments = f"{place}, {count}"
        else:
            self.functions[COUNT_IN_PART.format(order=statement.order)] = None
            arguments = f"{place}, {count}, {', '.join(self._unit(statement.level))}"
        self.writer.line(f"const int {statement.var.name} = count_in({arguments});")

    def _int(self, value: Expr) -> str:
        """Print an index expression as an operand of type int."""
        text = self.number(value)
        if not fits_int32(value):
            return f"(int)({text})"
        return text if isinstance(value, Var | Symbol) else f"({text})"

    def _unit(self, level: Level) -> tuple[str, str, str]:
        """Return, as C: the condition of a unit's first thread, the unit's barrier, and its number of threads."""
        size = level.size
        if size is None or size == self.threads:
            return "thread == 0", "0", str(self.threads)
        return f"thread % {size} == 0", f"1 + thread / {size}", str(size)

    def _advance(self, cursor: Cursor, by: Expr) -> None:
        slot, parity, n = cursor.slot.name, cursor.parity.name, cursor.slots
        if as_int(by) == 1:
            self.writer.line(f"if (++{slot} == {n}) {slot} = 0, {parity} ^= 1;")
            return
        self.writer.line(f"{slot} += {self.number(by)};")
        self.writer.line(f"{parity} ^= {slot} / {n} & 1;")
        self.writer.line(f"{slot} %= {n};")

    def _roles(self, roles: tuple[Role, ...]) -> None:
        """Print roles as branches of whole warps; `thread` counts from the role's first thread."""
        write = self.writer.line
        everyone, self.roles = self.threads, len(roles)
        # Read from one lane, so that the compiler sees the branch to be uniform.
        write("const int warp_of_block = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);")
        for i, role in enumerate(roles):
            last = i == len(roles) - 1
            end = (role.first + role.threads) // WARP_THREADS
            head = (
                "} else {"
                if last
                else f"if (warp_of_block < {end}) {{"
                if i == 0
                else f"}} else if (warp_of_block < {end}) {{"
            )
            write(f"{head}  // {role.name}")
            with self.writer.indent():
                self.threads, self.role = role.threads, role.first
                place = f"threadIdx.x - {role.first}" if role.first else "threadIdx.x"
                write(f"const int thread = {place};")
                write("__builtin_assume(thread >= 0);")
                # An assertion calls the driver's function, which needs more registers than a producer keeps.
                if role.registers and not self.bounded:
                    write(f"registers_{'increase' if last else 'decrease'}<{role.registers}>();")
                for cursor in role.cursors:
                    write(f"int {cursor.slot.name} = 0, {cursor.parity.name} = 0;")
                    write(f"__builtin_assume({cursor.slot.name} >= 0);")
                self.searches(role.body)
                self.statements(role.body)
        write("}")
        self.threads, self.roles, self.role = everyone, 1, 0

    def _sync(self, sync: Sync) -> str:
        """Print the barrier of a level: `__syncthreads`, `__syncwarp`, or for each unit one of the 16 named barriers.

        Units of different sizes have barriers of their own, since some may wait while others do.

        Raises:
            CheckError: `no-barrier` where no barrier is left.
        """
        threads = self.threads
        if sync.level.name == Cluster.name:
            return "cluster_meet();" if sync.relaxed else "cluster_sync();"
        size = threads if sync.level.name == Block.name else sync.level.size
        if self.roles > 1 and size is not None and size == threads and size > WARP_THREADS:
            return f"barrier_sync<0, {threads}>();"
        if size is not None and size <= WARP_THREADS and threads > size:
            return "__syncwarp();"
        if size == threads:
            return "__syncthreads();"
        units = 0 if size is None or size % WARP_THREADS else threads // size
        # Barrier 0 is the block's own.
        first = self.named.get((self.role, size or 0), 1 + self.counted)
        if size is None or not units or first + units > HARDWARE_BARRIERS:
            raise CheckError(
                "no-barrier",
                f"no barrier waits for the threads of each {sync.level} alone in a block of {threads} threads",
                fix="wait for the whole Block or for a Warp",
                link=sync.link,
            )
        if (self.role, size) not in self.named:
            self.named[self.role, size] = first
            self.counted += units
        return f"sync_threads({first} + thread / {size}, {size});"

    def _call(self, call: Call) -> str:
        """Print an atom's call under its masks, and keep its wrapper."""
        atom = call.atom
        fields: dict[str, object] = {
            o.role: Element(v, self.number, o.role == "B", self.constants, o.descriptor)
            for o, v in zip(atom.operands, call.views, strict=True)
        }
        for view in call.views:
            if view.peer is not None:
                fields["peer"] = self.number(view.peer)
        if call.map is not None:
            far = next(v for v in call.views if v.buffer.name == call.map.buffer.name)
            fields["map"] = call.map.name
            fields["coordinates"] = ", ".join(self.number(far.origin[axis]) for axis in call.map.axes)
        if call.signal is not None:
            barrier, slot = call.signal
            fields["signal"] = f"{barrier.name}[{self.number(slot)}]"
        if call.peers is not None:
            fields["peers"] = self.number(call.peers)
        if atom.zeroes:
            fields["accumulate"] = 1 if call.accumulate is None else self.number(call.accumulate)
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
        """Print the condition around a statement that some threads skip."""
        return "" if condition is None or as_int(condition) == 1 else f"if ({self.number(condition)}) "


def _what(array: str, link: Link | None) -> str:
    """Write the text of a gather's assertion: the array, and the file, line and text of its link."""
    file, line, text = _origin(link)
    return f"{quoted(f'{array}: its elements are indices')}, {quoted(file)}, {line}, {quoted(text)}"


def _whose(wait: Await) -> str:
    """Write the text of a wait's assertion: the barrier, and the file, line and text of its link."""
    barrier = wait.barrier
    arrivals = f"{barrier.count} arrival{'' if barrier.count == 1 else 's'} a phase"
    what = f"mbarrier {barrier.name}, {barrier.slots} slots, {arrivals}: its phase completes"
    file, line, text = _origin(wait.link)
    return f"{quoted(what)}, {quoted(file)}, {line}, {quoted(text)}"


def _origin(link: Link | None) -> tuple[str, int, str]:
    """Return the file, line and text of a link, with the caller of the preset where a preset made it."""
    place = link.place if link is not None else None
    caller = link.called_from if link is not None else None
    file, line, text = (place.filename, place.line, place.underlined) if place is not None else ("", 0, "")
    return file, line, text + (f", called from {caller.where()}" if caller is not None else "")


def quoted(text: str) -> str:
    r"""Write a text as a C string.

    Example:
        >>> print(quoted('a "b"'))
        "a \042b\042"
    """
    plain = set(range(ord(" "), ord("~") + 1)) - set(b'"\\\\?')
    return '"' + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in text.encode()) + '"'


def _name(group: str) -> str:
    return group.replace(".", "_")


def _same_in_warps(value: Expr, threads: int) -> bool:
    """Say whether a value differs between threads, but is the same within each warp."""
    if {leaf.name for leaf in free(value)} != {THREAD}:
        return False
    table = np.broadcast_to(np.asarray(evaluate(value, {THREAD: np.arange(threads)})), (threads,))
    warps = table.reshape(-1, WARP_THREADS)
    return bool((warps == warps[:, :1]).all())


_FENCES = {
    "proxy.async": "fence_proxy_async",
    **FENCES,
    "barrier.init": "fence_barrier_init",
    "grid.wait": "grid_wait",
    "grid.launch": "grid_launch",
}


def goes_on(var: Var, extent: Expr, number: Numbers) -> str:
    """Print the condition for another trip of a loop, without a division by a variable, which takes 30 instructions."""
    quotient, *others = terms(extent)
    more = as_int(sum(others, as_expr(0)))
    if more is None or not isinstance(quotient, FloorDiv) or isinstance(quotient.denominator, Const):
        return f"{var.name} < {number(extent)}"
    size, behind = quotient.numerator, var + 1 - more
    if isinstance(size, Extremum) and size.op == "max" and proves(gt(behind, 0)):  # then 0 takes no part
        size = maximum(*(value for value in size.operands if value != as_expr(0)))
    return number(le(behind * quotient.denominator, size))


def _refused(call: Call, fact: str) -> CheckError:
    return CheckError("masked-atom", f"{call.atom.name} cannot run under the masks given to it: {fact}", link=call.link)
