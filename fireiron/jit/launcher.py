"""The C launcher of an exported kernel, on the CUDA driver API, and a program that shows its use."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from fireiron.algebra.arch import MAX_CLUSTER
from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.jit import maps
from fireiron.jit.interface import (
    Interface,
    MapParameter,
    NumberParameter,
    PointerParameter,
    SizeParameter,
    WorkspaceParameter,
)

_OWN = """
    all arguments asked attributes blocks code config device kernel resident stream units workspace argc argv check
    context kept main module
"""
RESERVED = frozenset(_OWN.split())  # names of the launcher's own
ALIGNMENT = 256  # bytes by which parts of a workspace start

# What a number travels as: floats that C lacks go as their bits.
_C_TYPES = {
    "f64": "double", "f32": "float", "f16": "uint16_t", "bf16": "uint16_t", "tf32": "uint32_t", "e4m3": "uint8_t",
    "e5m2": "uint8_t", "i64": "int64_t", "i32": "int32_t", "i8": "int8_t", "u8": "uint8_t",
}  # fmt: skip


def c_text(text: str) -> str:
    """Write an index expression's text as C of 64-bit integers.

    Example:
        >>> c_text("((M + 127) // 128) * min(N, 4)")
        '(((M + 127) / 128) * fireiron_min(N, 4))'
    """
    return _c(ast.parse(text, mode="eval").body)


def _id(name: str) -> str:
    """Give a tensor, size or number a name in C: with `__` at its end where the launcher uses the name itself."""
    return f"{name}__" if name in RESERVED else name


_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
_COMPARE: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def _c(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return str(value) if abs(int(str(value))) < 2**31 else f"{value}ll"
        case ast.Name(id=name):
            return _id(name)
        case ast.BinOp(left=left, op=op, right=right):
            return f"({_c(left)} {_BINARY[type(op)]} {_c(right)})"
        case ast.UnaryOp(operand=operand):
            return f"(-{_c(operand)})"
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"({_c(left)} {_COMPARE[type(op)]} {_c(right)})"
        case ast.BoolOp(op=op, values=values):
            return f"({(' && ' if isinstance(op, ast.And) else ' || ').join(map(_c, values))})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({_c(test)} ? {_c(body)} : {_c(orelse)})"
        case ast.Call(func=ast.Name(id=name), args=[first, *rest]):
            text = _c(first)
            for one in rest:
                text = f"fireiron_{name}({text}, {_c(one)})"
            return text
        case _:
            raise AssertionError(ast.dump(node))


def header(interface: Interface, facts: Mapping[str, str]) -> str:
    """Write the launcher: two functions of the kernel's name, `..._prepare` and `..._launch`."""
    name = interface.entry
    guard = f"FIREIRON_{name.upper()}_H"
    said = "".join(f" * {what}: {text.splitlines()[0]}\n" for what, text in facts.items())
    parts = [
        f"/* {name}: a launcher on the CUDA driver API. All pointers are addresses on the device.\n *\n{said} */",
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <cuda.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <string.h>",
        _MIN_MAX,
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        f'#define {name.upper()}_ENTRY "{name}"',
        _workspace(interface),
        _prepare(interface),
        _launch(interface),
        "#ifdef __cplusplus\n}\n#endif",
        f"#endif /* {guard} */",
    ]
    return "\n\n".join(parts) + "\n"


_MIN_MAX = """#ifndef FIREIRON_MIN_MAX
#define FIREIRON_MIN_MAX
static inline long long fireiron_min(long long a, long long b) { return a < b ? a : b; }
static inline long long fireiron_max(long long a, long long b) { return a > b ? a : b; }
#endif"""


def _sizes(interface: Interface) -> list[str]:
    return [f"long long {_id(symbol.name)}" for symbol in interface.symbols]


def _arguments(words: list[str]) -> str:
    return ", ".join(words) or "void"


def _workspace(interface: Interface) -> str:
    """Write the function that says how many bytes the kernel keeps for itself."""
    total = "0"
    for parameter in interface.workspaces:
        nbytes = find_dtype(parameter.dtype).nbytes
        total = f"{total} + (({c_text(parameter.count)} * {nbytes} + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT})"
    unused = "".join(f"    (void){_id(symbol.name)};\n" for symbol in interface.symbols)
    return (
        "/* Bytes of device memory that launches share: zeroed before the first, and of one launch at a time. */\n"
        f"static inline size_t {interface.entry}_workspace_nbytes({_arguments(_sizes(interface))}) {{\n{unused}"
        f"    return (size_t)({total});\n}}"
    )


def _prepare(interface: Interface) -> str:
    """Write the function that a program calls once for a loaded kernel."""
    lines = [
        "/* Opt in to the kernel's shared memory and cluster: once, before the first launch. */",
        f"static inline CUresult {interface.entry}_prepare(CUfunction kernel) {{",
    ]
    wanted: list[tuple[str, int]] = []
    if interface.cluster > MAX_CLUSTER:
        wanted.append(("CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1))
    if interface.shared_nbytes > 48 * 1024:
        wanted.append(("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", interface.shared_nbytes))
    if not wanted:
        lines += ["    (void)kernel;", "    return CUDA_SUCCESS;"]
    for what, value in wanted[:-1]:
        lines += [f"    CUresult done = cuFuncSetAttribute(kernel, {what}, {value});", "    if (done) return done;"]
    for what, value in wanted[-1:]:
        lines.append(f"    return cuFuncSetAttribute(kernel, {what}, {value});")
    return "\n".join([*lines, "}"])


def _launch(interface: Interface) -> str:
    """Write the function that launches."""
    outputs = {p.name for p in interface.outputs}
    words = ["CUfunction kernel", "CUstream stream"]
    words += [f"{'' if p.name in outputs else 'const '}void *{_id(p.name)}" for p in interface.pointers]
    words += _sizes(interface)
    words += [f"{_C_TYPES[n.dtype]} {_id(n.name)}" for n in interface.numbers]
    words += ["void *workspace"] * bool(interface.workspaces)
    lines = [
        "/* Launch. Arrays are dense unless the extents and strides below say more; sizes are in elements. */",
        f"static inline CUresult {interface.entry}_launch({', '.join(words)}) {{",
    ]
    for symbol in interface.symbols:
        size = _id(symbol.name)
        test = f"{size} < {symbol.minimum} || {size} > {symbol.maximum}"
        test += f" || {size} % {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
        lines.append(f"    if ({test}) return CUDA_ERROR_INVALID_VALUE;")
    for demand in interface.preconditions:
        lines.append(f"    if (!{c_text(demand.condition)}) return CUDA_ERROR_INVALID_VALUE;  /* {demand.message} */")
    for pointer in interface.pointers:
        shape = " x ".join(map(c_text, pointer.shape)) or "1"
        lines.append(
            f"    /* {pointer.name}: {pointer.dtype}, {shape}, strides {', '.join(map(c_text, pointer.strides))} */"
        )
        if pointer.align > 1:
            lines.append(
                f"    if ((uintptr_t){_id(pointer.name)} % {pointer.align}) return CUDA_ERROR_MISALIGNED_ADDRESS;"
            )
    lines += [f"    long long blocks = {c_text(interface.grid)};", "    if (!blocks) return CUDA_SUCCESS;"]
    values: list[str] = []
    if interface.maps:
        lines.append("    CUresult code;")
    offset = "0"
    for parameter in interface.parameters:
        match parameter:
            case PointerParameter(name=name):
                lines.append(f"    CUdeviceptr {name}_at = (CUdeviceptr)(uintptr_t){_id(name)};")
                values.append(f"&{name}_at")
            case SizeParameter(name=name):
                lines.append(f"    int {name}_size = (int){_id(name)};")
                values.append(f"&{name}_size")
            case NumberParameter(name=name):
                values.append(f"&{_id(name)}")
            case MapParameter():
                lines += _map(interface, parameter)
                values.append(f"&{parameter.name}")
            case WorkspaceParameter(name=name, dtype=kind, count=count):
                lines.append(f"    CUdeviceptr {name}_at = (CUdeviceptr)(uintptr_t)workspace + ({offset});")
                nbytes = find_dtype(kind).nbytes
                offset = f"{offset} + (({c_text(count)} * {nbytes} + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT})"
                values.append(f"&{name}_at")
    lines.append(f"    void *arguments[] = {{{', '.join(values)}}};")
    lines += _configured(interface)
    return "\n".join([*lines, "}"])


def _map(interface: Interface, parameter: MapParameter) -> list[str]:
    """Encode a tensor map from the array's extents and strides."""
    pointer = next(p for p in interface.pointers if p.name == parameter.pointer)
    kind, nbytes = maps.TYPES[parameter.dtype]
    rank, name = len(parameter.axes), parameter.name
    extents = [c_text(extent) for extent in parameter.extents(pointer.shape)]
    strides = [c_text(pointer.strides[axis]) for axis in parameter.axes[1:]]
    bytes_of = [
        f"({extent} > 1 ? {stride} * {nbytes} : {maps.UNIT})"
        for extent, stride in zip(extents[1:], strides, strict=True)
    ]
    form, shape = "Tiled", f"{name}_box"
    corners: list[str] = []
    if parameter.lower:
        form, shape = "Im2col", f"{name}_lower, {name}_upper, {parameter.box[0]}, {parameter.box[1]}"
        corners = [
            f"    const int {name}_{which}[] = {{{', '.join(map(str, corner))}}};"
            for which, corner in (("lower", parameter.lower), ("upper", parameter.upper))
        ]
    promotion = "CU_TENSOR_MAP_L2_PROMOTION_L2_256B"
    if strides and not parameter.lower:  # as maps.Recipe.promotion says
        torn = " || ".join(f"{name}_strides[{i}] % {maps.LINE}" for i in range(len(strides)))
        long = f"{name}_strides[0] >= {2 * maps.LINE} && ({torn})"
        promotion = f"{long}\n            ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : {promotion}"
    boxes = [f"    const cuuint32_t {name}_box[] = {{{', '.join(map(str, parameter.box))}}};"]
    return [
        f"    CUtensorMap {name};",
        f"    const cuuint64_t {name}_extents[] = {{{', '.join(f'(cuuint64_t)({e})' for e in extents)}}};",
        f"    const cuuint64_t {name}_strides[] = {{{', '.join(f'(cuuint64_t)({s})' for s in bytes_of) or '0'}}};",
        *(corners or boxes),
        f"    const cuuint32_t {name}_steps[] = {{{', '.join(map(str, parameter.steps or (1,) * rank))}}};",
        f"    code = cuTensorMapEncode{form}(&{name}, (CUtensorMapDataType){kind}, {rank}, "
        f"(void *){_id(pointer.name)}, {name}_extents, {name}_strides,",
        f"        {shape}, {name}_steps, CU_TENSOR_MAP_INTERLEAVE_NONE, "
        f"(CUtensorMapSwizzle){maps.SWIZZLES[parameter.swizzle]},",
        f"        {promotion}, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);",
        "    if (code) return code;",
    ]


def _configured(interface: Interface) -> list[str]:
    """Write the launch: with attributes for clusters, dependent and cooperative launches, and as many blocks as fit."""
    lines = [
        "    CUlaunchAttribute attributes[3];",
        "    CUlaunchConfig config;",
        "    memset(attributes, 0, sizeof attributes);",
        "    memset(&config, 0, sizeof config);",
        "    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;",
        f"    config.blockDimX = {interface.threads};",
        f"    config.sharedMemBytes = {interface.shared_nbytes};",
        "    config.hStream = stream;",
        "    config.attrs = attributes;",
    ]
    if interface.cluster > 1:
        lines += [
            "    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;",
            f"    attributes[config.numAttrs].value.clusterDim.x = {interface.cluster};",
            "    attributes[config.numAttrs].value.clusterDim.y = 1;",
            "    attributes[config.numAttrs++].value.clusterDim.z = 1;",
        ]
    if interface.persistent:
        lines += ["    int resident = 0;", f"    config.gridDimX = {interface.cluster};"]
        if interface.cluster > 1:
            lines += [
                "    CUresult asked = cuOccupancyMaxActiveClusters(&resident, kernel, &config);",
                f"    if (asked) return asked;\n    resident *= {interface.cluster};",
            ]
        else:
            lines += [
                "    CUdevice device;",
                "    int units = 0;",
                "    CUresult asked = cuOccupancyMaxActiveBlocksPerMultiprocessor("
                f"&resident, kernel, {interface.threads}, {interface.shared_nbytes});",
                "    if (!asked) asked = cuCtxGetDevice(&device);",
                "    const CUdevice_attribute all = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;",
                "    if (!asked) asked = cuDeviceGetAttribute(&units, all, device);",
                "    if (asked) return asked;",
                "    resident *= units;",
            ]
        lines += [
            "    if (!resident) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;",
            "    blocks = fireiron_min(blocks, resident);",
        ]
    if interface.dependent:
        lines += [
            "    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;",
            "    attributes[config.numAttrs++].value.programmaticStreamSerializationAllowed = 1;",
        ]
    if interface.cooperative:
        lines += [
            "    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;",
            "    attributes[config.numAttrs++].value.cooperative = 1;",
        ]
    return [
        *lines,
        "    config.gridDimX = (unsigned)blocks;",
        "    return cuLaunchKernelEx(&config, kernel, arguments, NULL);",
    ]


def example(interface: Interface, arch: str) -> tuple[str, str]:
    """Write a C program that loads and launches the kernel on arrays of zeros, and its CMake file."""
    name = interface.entry
    sizes = [f"    const long long {_id(s.name)} = {max(s.minimum, s.multiple_of * 256)};" for s in interface.symbols]
    lines = [*sizes]
    for pointer in interface.pointers:
        nbytes, place = find_dtype(pointer.dtype).nbytes, _id(pointer.name)
        steps = [
            f"({c_text(n)} - 1) * {c_text(s)}" for n, s in zip(pointer.shape, pointer.strides, strict=True)
        ]  # the place of the last element
        lines += [
            f"    const size_t {place}_nbytes = (size_t)({' + '.join([*steps, '1'])}) * {nbytes};",
            f"    CUdeviceptr {place};",
            f"    CHECK(cuMemAlloc(&{place}, {place}_nbytes));",
            f"    CHECK(cuMemsetD8({place}, 0, {place}_nbytes));",
        ]
    names = ", ".join(s.name for s in interface.symbols)
    arguments = [
        "kernel",
        "0",
        *(f"(void *){p.name}" for p in interface.pointers),
        *(s.name for s in interface.symbols),
    ]
    arguments += ["0" if n.default is None else str(n.default) for n in interface.numbers]
    if interface.workspaces:
        lines += [
            "    CUdeviceptr workspace;",
            f"    const size_t kept = {name}_workspace_nbytes({names});",
            "    CHECK(cuMemAlloc(&workspace, kept));",
            "    CHECK(cuMemsetD8(workspace, 0, kept));",
        ]
        arguments.append("(void *)workspace")
    body = "\n".join(lines)
    program = f"""/* Loads {name} and launches it once on arrays of zeros. */
#include <stdio.h>
#include <stdlib.h>

#include "{name}.h"

#define CHECK(call) check((call), #call)

static void check(CUresult code, const char *what) {{
    const char *said = "?";
    if (!code) return;
    cuGetErrorName(code, &said);
    fprintf(stderr, "%s: %s\\n", what, said);
    exit(1);
}}

int main(int argc, char **argv) {{
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoad(&module, argc > 1 ? argv[1] : "{name}.{arch}.cubin"));
    CHECK(cuModuleGetFunction(&kernel, module, {name.upper()}_ENTRY));
    CHECK({name}_prepare(kernel));
{body}
    CHECK({name}_launch({", ".join(arguments)}));
    CHECK(cuCtxSynchronize());
    puts("{name} ran");
    return 0;
}}
"""
    cmake = f"""cmake_minimum_required(VERSION 3.18)
project({name} LANGUAGES C)
find_package(CUDAToolkit REQUIRED)
add_executable({name} main.c)
target_link_libraries({name} PRIVATE CUDA::cuda_driver)
"""
    return program, cmake
