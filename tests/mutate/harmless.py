"""Say why a mutant changes nothing that can be seen, where that follows from what was changed.

What asks the L2 cache for lines, and what only such statements read, is left out of both kernels before they are
compared: no thread sees a difference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import attrs

from fireiron.algebra.expr import Compare, Expr, Logic, Var, as_expr, as_int, free, substitute
from fireiron.algebra.scalar import Binary, Constant, Scalar, Select, parts
from fireiron.kernel.ir.rewrite import mentions, without
from fireiron.kernel.ir.statements import (
    Advance,
    Arrive,
    Ask,
    Await,
    Call,
    Commit,
    Compute,
    CountIn,
    Fence,
    For,
    If,
    Kernel,
    Let,
    Meet,
    Prefetch,
    Region,
    Roles,
    Statement,
    Sync,
    Turn,
    Wait,
    walk,
)
from fireiron.language.functions import STEEPEST
from fireiron.language.levels import GL, SH, Block, Level, Warp, Warpgroup
from tests.mutate.flow import Flow, forced, named, never_chosen, variables
from tests.mutate.plant import Mutant

Body = tuple[Statement, ...]
STEEP = (STEEPEST, STEEPEST * math.log2(math.e))  # of powers of e, and of 2
# Changes of a statement that concern nothing but what it writes.
ALONE = ("place: dropped", "place: doubled", "extent: - 1", "expr", "inputs", "dst: ")


# What a case cannot show, by its name and the mutant's as `flow.named` gives it, and why not.
ELSEWHERE = (
    (
        "hopper stream_k",
        r"without (block|blocks|trip|parted)$|^(If|Sync)\[",
        "blocks take one part of a tile each here",
    ),
    ("hopper stream_k, whole tiles too", r"without w$", "a tile has two parts at most here"),
    ("hopper stream_k, whole tiles too", r"^If.*body without", "the loop inside has no trip where the condition fails"),
    # Each of these is noticed at 72 x 136 x 152, of five chunks; here the ring's last slot is never filled.
    ("lstm_cell", r"_sh over the one before$", "the slot whose last bytes are overlapped holds nothing here"),
    ("lstm_cell", r"^For\[\d+\].extent: \+ 1$", "a copy more fills a slot that holds nothing yet, or is filled again"),
    ("lstm_cell", r"^Sync\[2\]", "the slots of the first loop's last chunk and of the second loop's first differ here"),
    ("lstm_cell", r"^Commit\[\d+\].*dropped$", "the loop has one trip here: nothing counts its group"),
    ("hopper stream_k", r"without whole$", "no block takes whole tiles here"),
    ("hopper stream_k", r"^Wait\[2\]", "a block stores one tile at most here: nothing is overwritten"),
    (
        "hopper stream_k, whole tiles too",
        r"without more$|end.*without block$|^Let\[33\].*block$|^Let\[19\].*block$|^Let\[(17|31)\].*parted$",
        "blocks share the chunks evenly",
    ),
    ("hopper stream_k, whole tiles too", r"without trip$", "whole tiles lie behind the parts: none begins within one"),
    ("hopper cluster", r"^Await\[1\].slot", "a peer's arrivals for the last chunk follow those for the one before"),
    ("hopper sums of a cluster", r"^Await\[2\].*exchanged with For$", "a thread reads what it has written itself"),
    ("two sums of a cluster", r"^Await\[4\].*exchanged with For$", "a thread reads what it has written itself"),
    ("two sums of a cluster", r"^If\[10\].place: doubled$", "the sums of all blocks are begun anew"),
    ("two sums of a cluster", r"^Arrive\[6\].peer: without thread$", "one block adds the sums, the first"),
    ("sgemm 3 whole", r"exchanged with Sync$", "the slot that is filled is read behind the next barrier"),
    (
        "ampere outputs",
        r"acc_rows over the one before$",
        "the last chunk lies in the first slot, and these sums over the second",
    ),
    ("sgemm", r"_sh over the one before$", "only the pad behind the last line is overlapped, which nobody reads"),
    ("ampere outputs", r"^If.*doubled$", "the sums of rows are begun anew"),
    (
        "hopper groups",
        r"^If.*exchanged with Sync$",
        "the barrier stands at the end of a trip, or at the next one's begin",
    ),
    ("sgemm 3", r"exchanged with Sync$", "the slot that is filled is read behind the next barrier"),
    ("attention, cores", r"^If\[7\].place: body without", "what no mask cuts may be masked too: it is computed anew"),
    (
        "sums of columns",
        r"^If\[0\].*without its condition|^If\[(0|1)\].*one less",
        "lanes beyond, and a line's last, have no columns here",
    ),
    ("sums of columns", r"sum_sh2 over the one before$", "columns beyond the edge are overlapped"),
    ("akg.conv", r"f_sh over the one before$", "only the pad behind the last line is overlapped, which nobody reads"),
    (
        "filters' gradient, mma",
        r"^If\[(0|1)\].*(one more|without its condition)$",
        "other threads fill the next slot, which is filled again before it is read",
    ),
    ("filters' gradient, mma", r"^Call\[(2|3)\].read: .*thread_n < 5( one more)?$", "the other factors are 0 there"),
    ("top", r"a number \+ 1 \(2.14748e\+09\)", "lines have more numbers than are kept"),
    (
        "top",
        r"@ (largest|reach|other|higher|bound|bound_at|taken|last|last_at|counts|any\d*|count)$",
        "a bound that is too low costs time: points that it lets pass rank behind those that the list keeps",
    ),
    ("top", r"(eq left out \([5-7]\)|a number \+ 1 \(0\) \(4\)) @ behind$", "no line has two numbers that are none"),
    ("top", r"a number \+ 1 \(1\)( \([23]\))? @ behind$", "the number is only asked whether it is 0"),
    ("top", r"place: doubled @ (kept|kept_at)$", "a choice that is made twice is the same"),
    ("top", r"^(For\[5\]|Leave\[0\]|If\[3\])", "trips without a point insert none, and the loop ends in few trips"),
    (
        "top",
        r"^(If\[[0-2]\]|Vote\[0\])",
        "the guards of steps that change nothing; the one chunk has points for all lanes",
    ),
    ("sums of columns", r"^If\[0\].*one more", "registers of lines behind the warp's own are filled, and not added"),
    ("softmax ahead", r"^Compute\[7\].place: dropped$", "the maximum over peers includes this block's own"),
    ("softmax ahead", r"^For\[2\].place: doubled$", "a maximum that is taken twice is the same"),
    ("softmax ahead", r"total_cluster over the one before$", "only the pad behind the maxima is overlapped"),
    ("softmax ahead", r"^Sync\[(1|2)\]", "a lane reads the columns that it has copied itself"),
    (
        "softmax ahead",
        r"^If\[(1|3)\].*exchanged with Sync$",
        "the bytes are expected behind the barrier, and peers' may be counted before they are expected",
    ),
    (
        "softmax ahead",
        r"^Sync\[(3|4)\].place: (dropped|exchanged with If)$",
        "the other fold's barrier stands between the states of one trip and those of the next",
    ),
    ("softmax", r"^Compute\[8\].place: dropped$", "the maximum over warps includes this warp's own"),
    (
        "softmax",
        r"total_sh over the one before$",
        "two numbers stand at the begin of the buffer before",
    ),
    ("layernorm's gradients", r"^Call\[(2|3)\].read: .*< 48 one less$", "no lane copies that row ahead"),
    ("layernorm's gradients", r"^CountIn\[0\].level: Warpgroup$", "224 threads have one whole warpgroup"),
    ("top of few columns", r"a number \+ 1 \(-2.14748e\+09\)", "lines have more numbers than are kept"),
    (
        "top of few columns",
        r"^Call\[(17|18|19|20)\].lane: without thread$",
        "the first lane alone stores, and reads lane 1",
    ),
    ("top of few columns", r"^For\[4\].extent: - 1$", "a result is computed twice"),
    ("layernorm's gradients", r"^Sync\[3\].level: Warp$", "one block is there, whose first warp writes and reads"),
    ("attention", r"^If\[10\].*whole < j \+ 2 one more$", "what no mask cuts may be masked too: it is computed anew"),
    ("attention, cores", r"^Compute\[1\].expr: a number", "the first chunk's factor is 0: it forgets what was there"),
    ("attention, cores", r"^Compute\[(12|22)\].expr: a number", "the number multiplies sums that are 0"),
    ("attention, cores", r"^Let\[0\].*without block$", "what no mask cuts may be masked too: it is computed anew"),
    ("attention, mma", r"^For\[19\].place: doubled$", "a maximum that is taken twice is the same"),
    ("conv, mma", r"^Call\[12\].views: f at without thread_c$", "the predicate leaves the threads whose thread_c is 0"),
    ("conv, wgmma", r"^Let\[0\].*without block$", "one cluster is launched, whose number is 0"),
    (
        "conv, wgmma",
        r"exchanged with Sync$",
        "the barrier stands at the end of a trip, or at the next one's begin",
    ),
    (
        "filters' gradient, wgmma",
        r"^(Arrive|If)\[2\]|^Wait\[1\].*exchanged with If$",
        "nobody waits for the last slot again",
    ),
    (
        "filters' gradient, wgmma",
        r"^For\[(5|8|10)\].extent: - 1$",
        "the columns lie beyond the edge, and are not stored",
    ),
    (
        "attention",
        r"^Compute\[\d+\].expr: a number \+ 1 \(0\)( \(2\))? @ (top_(factor|finite)|inverse)_rf$",
        "a query that has seen no key has sums that are 0, and exponentials of -inf are 0",
    ),
    (
        "attention",
        r"^Compute\[\d+\].expr: a number \+ 1 \(0\) @ (o|total)$",
        "the first chunk's factor is 0: it forgets what was there",
    ),
    (
        "attention",
        r"^Compute\[\d+\].expr: a number \+ 1 \(0\) @ (part_a_fr|wide2?)$",
        "values of keys that are not there are 0",
    ),
    (
        "attention, (cores|mma|32 .*)",
        r"^Compute\[\d+\].expr: a number \+ 1 \(0\) @ s$",
        "all scores of a query grow alike",
    ),
    (
        "attention, cores",
        r"v_sh over the one before$",
        "only the pad behind the last line is overlapped, which nobody reads",
    ),
    (
        "attention, mma",
        r"^For\[[12]\].extent: \+ 1$",
        "a copy more brings the next chunk's first lines to where they go",
    ),
    (
        "attention's gradient",
        r"^For\[1\].extent: \+ 1 @ dy_sh$",
        "a copy more brings the next chunk's first lines to where they go",
    ),
    (
        "attention, (mma|wgmma|32 .*)",
        r"^Let\[\d+\].*without (block|block_i|tile_i) @ whole$",
        "what no mask cuts may be masked too: it is computed anew",
    ),
    ("attention, wgmma", r"^If\[1\].*> 0 one less$", "no tile has one chunk here"),
    (
        "attention, wgmma",
        r"^If\[21\].*exchanged with Advance",
        "of two slots of queries, one is said to be free a trip early: its load follows that of the other, a trip late",
    ),
    (
        "attention, (wgmma|speculating)",
        r"^Wait\[\d+\].*exchanged with If$",
        "the slot of values is awaited before that of keys, and its arrival follows this wait",
    ),
    (
        "attention, speculating",
        r"@ failed$|^Compute\[\d+\].(place: dropped|expr: a number \+ 1 \((1|256)\)).* @ (trusting|outgrown)$",
        "how often chunks are computed again changes time alone",
    ),
    (
        "attention, (wgmma|speculating)",
        r"^(Compute|For)\[\d+\].(place: dropped|extent: - 1) @ top_chunk$",
        "the chunk before is in the maximum already: it may count twice",
    ),
    (
        "attention, speculating",
        r"^For\[\d+\].(place: dropped|extent: - 1) @ top_finite_rf$",
        "it holds this value already, since the maximum was taken",
    ),
    (
        "attention, (wgmma|speculating)",
        r"^Region\[\d+\].*exchanged with Await @ (k|v)_sh$",
        "the copy starts a wait later",
    ),
    (
        "attention, speculating",
        r"^(Commit\[1\]|Wait\[1\]).place: dropped$|^Wait\[1\].pending: \+ 1$|^Region\[16\].*exchanged with Commit",
        "the wait for all groups follows, and the slot of values is awaited before that of keys",
    ),
    (
        "attention, speculating",
        r"^Arrive\[8\].slot: without k_ring_slot @ k_empty$",
        "of these arrivals one is awaited here, at slot 0",
    ),
    (
        "attention, speculating",
        r"slot: without k_ring_slot @ k_empty$",
        "the slot of values was awaited before, and its arrival follows that of these keys",
    ),
    (
        "attention, speculating",
        r"^Compute\[\d+\].expr: a number \+ 1 \((0|1|32768)\).* @ beyond$",
        "how often chunks are computed again changes time alone",
    ),
    (
        "attention, speculating",
        r"^Compute\[\d+\].expr: (lt (exchanged|left out)|a number \+ 1 \(0\)) @ (trusting|outgrown)$",
        "how often chunks are computed again changes time alone",
    ),
    (
        "attention, (wgmma|speculating)",
        r"^Compute\[\d+\].dst: top_chunk at without i\d+ @ top_chunk$",
        "the chunk before is in the maximum already: it may count twice",
    ),
    (
        "attention, speculating",
        r"^Compute\[\d+\].place: dropped @ top_finite_rf$",
        "it holds this value already, since the maximum was taken",
    ),
    (
        "attention, speculating",
        r"^For\[169\].extent: - 1 @ o$|^Call\[24\].*without k3 @ o$|^For\[130\].extent: - 1 @ part_rf",
        "the last keys of the last chunk are beyond the edge",
    ),
    (
        "attention, (wgmma|speculating)",
        r"^For\[\d+\].place: doubled @ s$",
        "the first product begins the scores anew",
    ),
    (
        "attention's gradient",
        r"^Compute\[\d+\].expr: a number \+ 1 \(0\) @ (ds|p)_a_fr$",
        "the other factors are 0 for what is beyond the edge",
    ),
    (
        "layernorm's gradients",
        r"^For\[(27|33)\].extent: - 1",
        "there are fewer blocks than warps: the last warp combines none",
    ),
    (
        "layernorm's gradients",
        r"by_(gain|bias)_sh2? over the one before$",
        "columns beyond the edge are overlapped",
    ),
    (
        "attention, speculating",
        r"body without its condition @ trusts\d* == 1$",
        "a chunk that is not trusted is computed again",
    ),
    ("softmax", r"^Call\[(5|11)\].lane: without thread", "the last exchange counts for lane 0 alone, which stores"),
    (
        "softmax ahead",
        r"^Call\[(8|14)\].views: (top|total)_cluster at without thread",
        "all lanes of a warp hold the same number",
    ),
    ("softmax ahead", r"^Sync\[0\]", "a thread reads what it has copied itself"),
    (
        "layernorm's gradients",
        r"^Wait\[0\].*exchanged with Sync$|^Sync\[0\].place",
        "a thread reads what it has copied itself",
    ),
    ("layernorm's gradients", r"sub exchanged @ part$", "the difference is only squared"),
)


def without_hints(kernel: Kernel) -> Kernel:
    """Leave out requests to the L2 cache and fetches of tensor maps, with the names and loops that only they need."""
    body = without(kernel.body, lambda s: isinstance(s, Ask | Prefetch))
    while True:
        body, before = _without_unused(body), body
        if body == before:
            return attrs.evolve(kernel, body=body)


def _without_unused(body: Body) -> Body:
    """Leave out empty statements, and names that nothing behind them says."""
    out: list[Statement] = []
    for i, s in enumerate(body):
        match s:
            case For(body=inner) | If(body=inner) | Region(body=inner):
                kept = _without_unused(inner)
                if kept:
                    out.append(attrs.evolve(s, body=kept))
            case Roles(roles=roles):
                out.append(Roles(tuple(attrs.evolve(role, body=_without_unused(role.body)) for role in roles)))
            case Let(var=var) if not any(mentions(later, var) for later in body[i + 1 :]):
                pass
            case _:
                out.append(s)
    return tuple(out)


def why(case: str, mutant: Mutant, kernel: Kernel) -> str:
    """Explain a survivor, by words that name its class; nothing where it is to be judged."""
    if without_hints(mutant.kernel) == without_hints(kernel):
        return "only requests to the L2 cache or fetches of tensor maps differ"
    before, key = mutant.before, f"{mutant.field}: {mutant.change}"
    match before:
        case Sync(level=level) | CountIn(level=level) | Meet(level=level) if mutant.field == "level" and _alone(
            level, mutant, kernel
        ):
            return "the unit of this level has all threads that run the statement"
        case If() if key.startswith("condition") and "== 0 one off" in key:
            return "another thread of the unit does it"
        case If() if key == "place: body without its condition" and _guards_loads(before):
            return "a guard that saves time: predicates hold the same loads off, or fill slots that nobody reads"
        case Compute(dst=dst) if mutant.field == "write" and dst.buffer.memory != GL and "less" not in key:
            return "registers of elements behind the edge are computed, and not stored"
        case Sync() if key == "relaxed: False":
            return "a barrier that orders more than it need"
        case Fence(kind="grid.launch") if mutant.field == "place":
            return "when the launch behind may begin: it waits for this one by itself"
        case _ if (
            key == "place: exchanged with Fence"
            and isinstance(mutant.after, Fence)
            and mutant.after.kind == "grid.launch"
        ):
            return "when the launch behind may begin: it waits for this one by itself"
        case Commit() if mutant.field == "place" and mutant.after is not None and _starts(mutant.after):
            return "copies join the group before theirs, which is awaited sooner"
        case Wait(group=group) if isinstance(mutant.after, Commit) and mutant.after.group == group:
            return "the wait counts a group more, and waits longer"
        case Turn() if key == "waits: True":
            return "a warp meets the others where it need only arrive: it waits longer"
        case Await() | Fence() if key in ("place: exchanged with Fence", "place: exchanged with Await"):
            return "a fence of registers, and a wait for other threads: either order is one"
        case Arrive(nbytes=nbytes) if nbytes and mutant.after is not None and _signals(mutant.after):
            return "a phase ends with its arrival, which says how many bytes land, whichever of them land before"
        case Sync() | Wait() if key in ("place: exchanged with Wait", "place: exchanged with Sync") and _registers(
            before
        ):
            return "the wait is for this thread's registers alone"
        case If(body=body) if key == "place: body without its condition" and all(
            isinstance(s, Wait | Commit) for s in body
        ):
            return "threads that started nothing close empty groups, and have nothing to wait for"
        case For() | If() | Compute() if key == "place: doubled" and _only_maxima(before):
            return "a maximum that is taken twice is the same"
        case Compute(dst=dst) if (
            case == "top"
            and dst.buffer.dtype.kind == "float"
            and key.startswith(("expr: lt left out", "expr: lt exchanged"))
        ):
            return "of two equal values, either is the same"
        case If() if "one more" in key and _guards_loads(before):
            return "a guard that saves time: predicates hold the same loads off, or fill slots that nobody reads"
        case Call(views=(src, dst)) if (
            mutant.field == "write" and "less" not in key and src.buffer.memory == GL != (dst.buffer.memory)
        ):
            return "a guard that saves time: predicates hold the same loads off, or fill slots that nobody reads"
        case For(var=var, extent=extent, body=body) if key == "extent: + 1" and all(
            _chosen(s, var) or _refused(s, var, extent) for s in body
        ):
            return "a trip more, for which no unit is chosen"
        case Fence(kind="registers") if case.startswith("two sums") and mutant.number > 1:
            return "the fence ahead of the first loop follows all that writes these registers"
        case Compute(expr=expr) if key.startswith("expr: min left out") and any(
            isinstance(part, Constant) and part.value in STEEP for part in parts(expr)
        ):
            return "exp of more than 80 makes a quotient that is 0 within its bound either way"
        case _ if isinstance(mutant.after, Sync | Await) and before is not None and _own(before):
            return "registers of a thread: no barrier orders them"
        case Wait() if (
            mutant.field == "place" and mutant.after is not None and _registers(before) and _own(mutant.after)
        ):
            return "the wait is for the registers of products, which the other does not touch"
        case Compute(expr=expr) if key.startswith("expr: a number + 1 (1)") and _truths(expr):
            return "the number is only asked whether it is 0"
        case Compute() if key.startswith(tuple(f"expr: a number + 1 ({number:g})" for number in STEEP)):
            return "exp of 80 and of 81 are both beyond what is added to them"
        case _ if isinstance(mutant.after, Wait) and not _uses(before, mutant.after.group):
            return "the wait comes earlier, and nothing that it waits for starts between"
        case _ if mutant.field == "place" and mutant.after is not None and _independent(before, mutant.after):
            return "neither of the two reads or orders what the other does"
        case If(condition=condition) if _more(key) and _masks(condition) and "attention" in case:
            return "what no mask cuts may be masked too, and a larger maximum serves as well: it is computed anew"
        case If() if _more(key) and _own(before):
            return "registers that nobody reads are computed in more threads"
        case Roles() if key.endswith("load of a warp less"):
            return "one thread of the role starts all copies"
        case _:
            names = (mutant.key, named(mutant))
            listed = (w for c, how, w in ELSEWHERE if _of(case, c) and any(re.search(how, name) for name in names))
            return next(listed, "") or _followed(mutant, kernel)


def _followed(mutant: Mutant, kernel: Kernel) -> str:
    """Explain a survivor by what stands ahead of its statement, and behind it."""
    if mutant.before is None:
        return ""
    flow, key, left = Flow(kernel, mutant), f"{mutant.field}: {mutant.change}", mutant.change.rpartition("without ")[2]
    match mutant.before:
        case Compute() | For() if key.startswith(ALONE) and flow.unread():
            return "nobody reads it before it is written again"
        case Compute() | For() if key.startswith((*ALONE[:3], "expr", "inputs: total")) and flow.raises():
            return "how far an old maximum rises changes time alone: sums count under any"
        case Arrive() | If() if key.startswith(("place: d", "place: exchanged", "slot")) and flow.last_arrival():
            return "all loads have begun: nobody waits for this arrival"
        case Compute() | For() | Region() if (
            key.startswith(("place: dropped", "place: doubled", "extent: - 1", "inputs", "dst", "expr: mul left out"))
            and flow.scales_zeros()
        ):
            return "sums that are still 0 are scaled: whatever the factor, and however often, they stay 0"
        case Compute() if mutant.field in ("expr", "inputs") and flow.feeds_zeros():
            return "sums that are still 0 are scaled by it: whatever the factor, they stay 0"
        case Compute() if mutant.field == "expr" and never_chosen(mutant):
            return "an alternative that a number refuses"
        case Fence(kind="registers") if mutant.field == "place" and flow.fenced_before():
            return "since the fence before, products began, and nothing else touched registers"
        case Advance() if flow.last_of_cursor():
            return "nothing behind asks for the slot"
        case Call(read=read, write=write) if any(forced(condition, left) for condition in (read, write)):
            return "the predicate leaves the threads alone for which this variable is 0"
        case Await() | Arrive() | Call() if left != mutant.change and flow.first_slot(left):
            return "the cursor has not moved yet: its slot is 0"
        case _:
            return ""


def _more(key: str) -> bool:
    """Say whether a condition lets more threads or trips in."""
    return key == "place: body without its condition" or (key.startswith("condition") and "one more" in key)


def _masks(condition: Expr) -> bool:
    """Say whether a condition tells chunks that a mask cuts from those that it leaves whole."""
    return bool(variables(condition) & {"whole", "j_pair"})


def _of(case: str, name: str) -> bool:
    """Say whether a case is the named one, or one of the presets of a name without a space."""
    return re.fullmatch(name, case) is not None or (" " not in name and case.startswith(name))


def _alone(level: Level, mutant: Mutant, kernel: Kernel) -> bool:
    """Say whether the narrower level still holds all threads of a block, or of each of its roles."""
    named = {Warpgroup.name: Warpgroup, Warp.name: Warp}.get(mutant.change)
    if named is None or named.size is None or level != Block:
        return False
    roles = [role.threads for s in walk(kernel.body) if isinstance(s, Roles) for role in s.roles]
    return all(threads <= named.size for threads in roles or [kernel.threads])


def _guards_loads(statement: If) -> bool:
    """Say whether all that a condition on a loop's trip guards brings chunks of operands, maybe by registers."""
    inside = tuple(walk(statement.body))
    calls = [s for s in inside if isinstance(s, Call)]
    trips = [
        leaf
        for leaf in free(statement.condition)
        if isinstance(leaf, Var) and leaf.name.startswith(("k", "chunk", "i", "j", "m"))
    ]
    loads = all(call.views[0].buffer.memory != SH and call.views[1].buffer.memory != GL for call in calls)
    return bool(trips and calls) and loads and all(isinstance(s, For | If | Region | Call | Let) for s in inside)


def _registers(statement: Sync | Wait) -> bool:
    return isinstance(statement, Wait) and statement.group == "wgmma"


def _own(statement: Statement) -> bool:
    """Say whether a statement touches nothing but registers, each thread its own."""
    inside = tuple(walk((statement,)))
    views = [view for s in inside if isinstance(s, Call) for view in s.views]
    views += [view for s in inside if isinstance(s, Compute) for view in (s.dst, *s.inputs)]
    plain = all(isinstance(s, For | If | Region | Let | Compute | Call) for s in inside)
    moves = all(s.atom.kind == "Move" for s in inside if isinstance(s, Call))
    return bool(views) and plain and moves and all(view.buffer.memory.registers for view in views)


def _only_maxima(statement: Statement) -> bool:
    """Say whether a statement does nothing but fold numbers into maxima."""
    inside = [s for s in walk((statement,)) if not isinstance(s, For | If | Region)]
    maxima = [s for s in inside if isinstance(s, Compute)]
    reads = [s for s in inside if isinstance(s, Call) and s.atom.kind in ("Move", "Shuffle")]
    return (
        bool(maxima)
        and len(maxima) + len(reads) == len(inside)
        and all(isinstance(s.expr, Binary) and s.expr.op == "max" and s.dst in s.inputs for s in maxima)
        and all(s.views[-1].buffer.memory.registers for s in reads)
    )


def _truths(expr: Scalar) -> bool:
    """Say whether each 1 in an expression is asked only whether it is 0, as `a or b` and `a and b` are written."""

    def arms(asked: Scalar) -> Iterator[Scalar]:
        yield asked
        if isinstance(asked, Select):
            yield from (arm for x in (asked.x, asked.y) for arm in arms(x))

    chosen = [arm for part in parts(expr) if isinstance(part, Select) for arm in arms(part.condition)]
    ones = [part for part in parts(expr) if isinstance(part, Constant) and part.value == 1]
    return bool(ones) and all(any(one is arm for arm in chosen) for one in ones)


def _chosen(statement: Statement, var: Var) -> bool:
    """Say whether a statement runs in one trip alone, for the unit of that number."""
    return (
        isinstance(statement, If)
        and isinstance(statement.condition, Compare)
        and (statement.condition.op == "==" and var in free(statement.condition))
    )


def _refused(statement: Statement, var: Var, extent: Expr) -> bool:
    """Say whether a statement's condition refuses a trip behind the last: even the first thread is beyond its end."""
    condition = statement.condition if isinstance(statement, If) else getattr(statement, "write", None)
    for part in condition.operands if isinstance(condition, Logic) and condition.op == "&&" else (condition,):
        if isinstance(part, Compare) and part.op == "<" and "-" not in str(part):
            others = {leaf: as_expr(0) for leaf in free(part) if isinstance(leaf, Var) and leaf != var}
            left, right = (substitute(side, others | {var: extent}) for side in (part.left, part.right))
            least, end = as_int(left), as_int(right)
            if least is not None and end is not None and least >= end:
                return True
    return False


def _independent(first: Statement | None, second: Statement) -> bool:
    """Say whether one of two statements that follow each other moves a cursor, and the other does not name it."""
    for one, other in ((first, second), (second, first)):
        match one, other:
            case Advance(cursor=cursor), _:
                if other is not None and not any(mentions(other, part) for part in (cursor.slot, cursor.parity)):
                    return True
            case Commit(group=group), _ if other is not None and not _uses(other, group):
                return True
            case Wait(reads_only=False), (Region() | For() | Call() | If()) if _starts(other):
                return True
            case _:
                pass
    return False


def _signals(statement: Statement) -> bool:
    """Say whether a statement starts copies whose bytes an mbarrier counts, and does nothing else."""
    inside = tuple(walk((statement,)))
    calls = [s for s in inside if isinstance(s, Call)]
    return (
        bool(calls)
        and all(call.signal is not None for call in calls)
        and not any(isinstance(s, Arrive) for s in inside)
    )


def _uses(statement: Statement | None, group: str) -> bool:
    """Say whether a statement starts copies of a group, closes one or waits for one."""
    return statement is None or any(
        (isinstance(s, Call) and s.atom.completion == group) or (isinstance(s, Commit | Wait) and s.group == group)
        for s in walk((statement,))
    )


def _starts(statement: Statement) -> bool:
    """Say whether a statement only starts copies of a group that is not closed yet."""
    calls = [s for s in walk((statement,)) if isinstance(s, Call)]
    inside = all(isinstance(s, For | If | Region | Call | Let) for s in walk((statement,)))
    return bool(calls) and inside and all(call.atom.completion == "cp.async" for call in calls)
