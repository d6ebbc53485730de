"""Commands that make files or describe the machine: emit, compile, export, studio, doctor, cache."""

from __future__ import annotations

import sys

import attrs

from fireiron.base.errors import UsageError
from fireiron.base.text import count, nbytes
from fireiron.front.cli.options import Command, architecture
from fireiron.front.cli.output import Answer, pairs, plain, progress, write


def emit(command: Command) -> Answer:
    """Print the CUDA; with --json, also all that another language needs to launch it."""
    from fireiron.jit.interface import Interface

    schedule, arch = command.schedule, architecture(command.options.arch)
    kernel, source = schedule.lowered(arch), schedule.cuda(arch)
    data = Interface.of(kernel).to_json() | {"arch": arch, "source": source}
    if command.options.output:
        write(command.options.output, source)
        lines = count(len(source.splitlines()), "line")
        return Answer(data | {"file": command.options.output}, (f"{command.options.output}: {kernel.name}, {lines}",))
    return Answer(data, (source.rstrip("\n"),))


def compile(command: Command) -> Answer:
    """Compile, and print time, registers and shared memory."""
    from fireiron.front.digest import digest
    from fireiron.jit.cache import SUFFIX, cache_key
    from fireiron.jit.compile import CompileOptions

    options, schedule = command.options, command.schedule
    if options.ptx and options.sass:
        raise UsageError("one-listing", "--ptx and --sass both print to stdout", fix="ask for one of them")
    cache = not (options.no_cache or options.allow_spills or options.debug)
    chosen = CompileOptions(lineinfo=options.lineinfo, debug=options.debug, max_registers=options.max_registers)
    before = _entries() if cache else {}
    with progress(f"compiling {schedule.name}"):
        kernel = schedule.compile(
            architecture(options.arch),
            lineinfo=options.lineinfo,
            debug=options.debug,
            max_registers=options.max_registers,
            allow_spills=options.allow_spills,
            cache=cache,
        )
        listing = kernel.sass if options.sass else kernel.ptx if options.ptx else None
    # A compilation writes its entry: one that is as it was has been read.
    key = cache_key(digest(schedule.program, schedule.links, schedule.name), kernel.binary.arch, chosen)
    hit = cache and f"{key}{SUFFIX}" in before and before[f"{key}{SUFFIX}"] == _entries().get(f"{key}{SUFFIX}")
    found = kernel.resources
    interface = kernel.interface
    if options.output:
        write(options.output, kernel.cubin)
    facts = {
        "kernel": kernel.name,
        "arch": kernel.binary.arch,
        "registers": f"{found.registers} a thread",
        "spills": f"{found.spill_stores} B stored, {found.spill_loads} B loaded" if found.spills else "none",
        "stack": nbytes(found.stack) if found.stack else "none",
        "shared": nbytes(found.shared_nbytes + interface.shared_nbytes),
        "threads": f"{interface.threads} a block",
        "cubin": nbytes(len(kernel.cubin)) + (f", {options.output}" if options.output else ""),
        "cache": "hit" if hit else "miss" if cache else "not used",
    }
    data = {
        "kernel": kernel.name,
        "arch": kernel.binary.arch,
        **attrs.asdict(found),
        "shared_nbytes": found.shared_nbytes + interface.shared_nbytes,
        "threads": interface.threads,
        "cubin_nbytes": len(kernel.cubin),
        "cache": "hit" if hit else "miss" if cache else "off",
        "interface": interface.to_json(),
        "findings": [{"code": f.code, "message": f.message, "fix": f.fix, "path": f.path} for f in kernel.findings],
    }
    if options.output:
        data["file"] = options.output
    if listing is None:
        return Answer(data, (pairs(facts), *found.warnings, *map(str, kernel.findings)))
    data["sass" if options.sass else "ptx"] = listing
    if not options.json:
        for name, value in facts.items():
            print(f"{name}: {value}", file=sys.stderr)
    return Answer(data, (listing.rstrip("\n"),))


def export(command: Command) -> Answer:
    """Write a kernel for programs without Python."""
    options, schedule = command.options, command.schedule
    archs = list(dict.fromkeys(str(architecture(name)) for name in options.archs))
    with progress(f"compiling {schedule.name}"):
        made = schedule.export(options.output, archs)
    data = {"folder": str(made.folder), "kernel": made.name, "archs": list(made.archs), "files": list(made.files)}
    return Answer(data, (pairs({"kernel": made.name, "folder": str(made.folder), "for": ", ".join(made.archs),
                                "files": "\n".join(made.files)}),))  # fmt: skip


def _entries() -> dict[str, int]:
    """Return the time at which each entry of the cache was written, by name."""
    from fireiron.jit.folder import cache_path, kept

    return {one.path.name: one.changed_ns for one in kept(cache_path())}


def studio(command: Command) -> Answer:
    """Write the studio's page, and open it in a browser."""
    import tempfile
    import webbrowser
    from pathlib import Path

    options, schedule = command.options, command.schedule
    sizes = {name: value for name, value in options.settings if isinstance(value, int)}
    with progress(f"simulating block {options.block} of {schedule.name}"):
        page = schedule.studio(architecture(options.arch), block=options.block, **sizes)
    file = options.output or str(Path(tempfile.mkdtemp(prefix="fireiron-")) / f"{schedule.name}.html")
    write(file, page.html())
    opened = not options.no_open and not options.json and webbrowser.open(Path(file).resolve().as_uri())
    data = {"file": file, "opened": opened, "steps": len(page.frames), "findings": plain(page.remarks)}
    return Answer(data, (f"{file}: {count(len(page.frames), 'step')}, {count(len(page.remarks), 'finding')}",))


def doctor(command: Command) -> Answer:
    """Print facts of this machine; the exit code is 1 where it cannot compile."""
    from rich.table import Table
    from rich.text import Text

    from fireiron.jit.doctor import facts

    found = facts()
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for fact in found:
        mark = Text("+", style="green") if fact.ok else Text("-", style="yellow")
        table.add_row(mark, Text(fact.what), Text(fact.value))
    works = all(fact.ok for fact in found if fact.what == "works")
    return Answer({"facts": [plain(fact._asdict()) for fact in found], "right": works}, (table,), int(not works))


def cache(command: Command) -> Answer:
    """Print the path of the cache, or clear it."""
    from fireiron.jit.cache import clear, usage
    from fireiron.jit.folder import cache_path

    path = str(cache_path() or "in memory: there is no home folder")
    if command.options.action == "clear":
        gone = clear()
        return Answer({"path": path, "deleted": gone}, (f"{path}: {count(gone, 'file')} deleted",))
    kernels, size = usage()
    return Answer({"path": path, "kernels": kernels, "nbytes": size}, (path,))
