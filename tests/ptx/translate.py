"""Translate the PTX that NVRTC makes into C++ over ``runtime.h``: one statement an instruction.

Registers become local variables and branches become ``goto``. The forms of instructions that are understood stand in
`INSTRUCTIONS`; whatever else a text holds is a `PtxError` that names the line, so that nothing is left out silently.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

WIDTHS = {"pred": "bool", "b8": "u8", "b16": "u16", "b32": "u32", "b64": "u64", "f64": "f64"} | {
    f"{sign}{bits}": f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64)
}
"""PTX's types and those of ``runtime.h``; what has only a width counts as without a sign."""
BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "b32": 4, "u32": 4, "s32": 4, "b64": 8, "u64": 8,
         "s64": 8, "f64": 8}  # fmt: skip
SPECIAL = {
    "%tid.x": "ptx::thread", "%ntid.x": "ptx::block_size", "%ctaid.x": "ptx::block", "%nctaid.x": "ptx::n_blocks",
    "%laneid": "(ptx::thread % 32)",
}  # fmt: skip
IGNORED = (".version", ".target", ".address_size", ".pragma", ".loc", ".file")


class PtxError(Exception):
    """A text of PTX that is not understood."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"PTX line {line}: {problem}")


@dataclass(frozen=True)
class Statement:
    """One statement: its text without the semicolon, or a label, or a brace."""

    line: int
    text: str


@dataclass(frozen=True)
class Kernel:
    """One entry of a module, translated.

    Attributes
    ----------
    n_parameters
        All are of eight bytes.
    shared
        Bytes of shared memory.
    code
        A C++ function ``kernel_<name>(const u64*)``.
    """

    name: str
    n_parameters: int
    shared: int
    code: str


@dataclass
class Scope:
    """What a kernel's names stand for.

    Attributes
    ----------
    registers
        The C++ type of each register; of ``%r<7>`` under ``%r``.
    places
        Where shared and local variables lie, as C++ expressions; local ones include their base.
    """

    parameters: list[str]
    variables: frozenset[str]
    registers: dict[str, str] = field(default_factory=dict)
    shared: dict[str, int] = field(default_factory=dict)
    local: dict[str, int] = field(default_factory=dict)
    shared_size: int = 0
    local_size: int = 0
    n_sites: int = 0

    def type_of(self, register: str) -> str | None:
        """The C++ type of a register."""
        return self.registers.get(register) or self.registers.get(register.rstrip("0123456789"))


def statements(text: str, first_line: int = 1) -> Iterator[Statement]:
    """Split a text into statements, labels and the braces of scopes."""
    text = re.sub(r"//[^\n]*", "", text)
    position, line = 0, first_line
    pattern = re.compile(r'\s*(?:([$\w]+):(?!:)|([{}])|(\.(?:loc|file)\b[^\n]*)|((?:"[^"]*"|\{[^{};]*\}|[^;{}"])+;))')
    while position < len(text):
        match = pattern.match(text, position)
        if match is None:
            rest = text[position:].strip()
            if rest:
                raise PtxError(line + text.count("\n", 0, position), f"cannot read {rest.splitlines()[0]!r}")
            return
        group = next(i for i in range(1, 5) if match[i] is not None)
        begin = line + text.count("\n", position, match.start(group))
        line += text.count("\n", position, match.end())
        position = match.end()
        yield Statement(begin, match[group] + ":" if group == 1 else match[group].rstrip(";").strip())


def operands(text: str) -> list[str]:
    """Split operands at commas outside of brackets."""
    return [part.strip() for part in re.findall(r"(?:\[[^\]]*\]|\{[^}]*\}|[^,\[{])+", text)]


class Translator:
    """Translates the statements of one kernel."""

    def __init__(self, name: str, parameters: list[str], variables: frozenset[str]) -> None:
        self.name = name
        self.scope = Scope(parameters, variables)
        self.line = 0
        self.declarations: list[str] = []
        self.lines: list[str] = []
        self.depth = 0

    def kernel(self, body: str, first_line: int) -> Kernel:
        """Translate a body, which begins behind its opening brace."""
        for statement in statements(body, first_line):
            self.line = statement.line
            self.lines.append(self.statement(statement.text))
        local = f"    alignas(16) u8 local_bytes[{self.scope.local_size}];\n" if self.scope.local_size else ""
        code = (
            f"static void kernel_{self.name}([[maybe_unused]] const u64* given)\n{{\n{local}"
            + "".join(f"    {line}\n" for line in [*self.declarations, *filter(None, self.lines)])
            + "}\n"
        )
        return Kernel(self.name, len(self.scope.parameters), self.scope.shared_size, code)

    def error(self, problem: str) -> PtxError:
        return PtxError(self.line, problem)

    def statement(self, text: str) -> str:
        if text in "{}":
            self.depth += 1 if text == "{" else -1
            return text
        if text.endswith(":"):
            return f"{label(text[:-1])}:;"
        if text.startswith(".reg"):
            return self.declare(text)
        if match := re.fullmatch(r"\.(shared|local)\s+\.align\s+(\d+)\s+\.(\w+)\s+([$\w]+)(?:\[(\d+)\])?", text):
            self.place(match[1], int(match[2]), BYTES[match[3]] * int(match[5] or 1), match[4])
            return ""
        if text.startswith(IGNORED):
            return ""
        guard, match = "", re.fullmatch(r"@(!?)(%\w+)\s+(.*)", text, re.DOTALL)
        if match:
            guard, text = f"if ({match[1]}{self.read(match[2], 'pred')}) ", match[3]
        code = self.instruction(text)
        return f"{guard}{{ {code} }}" if guard else code

    def declare(self, text: str) -> str:
        match = re.fullmatch(r"\.reg\s+\.(\w+)\s+(.+)", text, re.DOTALL)
        if match is None or match[1] not in WIDTHS:
            raise self.error(f"a declaration of registers that is not understood: {text!r}")
        kind, names = WIDTHS[match[1]], []
        for item in operands(match[2]):
            many = re.fullmatch(r"(%\w+?)<(\d+)>", item)
            self.scope.registers[many[1] if many else item] = kind
            names += [f"{many[1]}{i}" for i in range(1, int(many[2]))] if many else [item]
        if not names:
            return ""
        if self.depth:  # in a scope of its own; `goto` may pass it, so it begins without a value
            return f"{kind} {', '.join(map(variable, names))};"
        self.declarations.append(f"[[maybe_unused]] {kind} {', '.join(f'{variable(name)} = 0' for name in names)};")
        return ""

    def place(self, space: str, alignment: int, size: int, name: str) -> None:
        scope = self.scope
        if space == "shared":
            scope.shared[name] = -(-scope.shared_size // alignment) * alignment
            scope.shared_size = scope.shared[name] + size
        else:
            scope.local[name] = -(-scope.local_size // alignment) * alignment
            scope.local_size = scope.local[name] + size

    # Operands

    def read(self, operand: str, kind: str) -> str:
        """A C++ expression for an operand as a value of a PTX type."""
        cpp = WIDTHS[kind]
        if operand in SPECIAL:
            return f"({cpp}){SPECIAL[operand]}"
        if operand.startswith("!") and kind == "pred":
            return f"!{self.read(operand[1:], kind)}"
        if operand.startswith("%"):
            held = self.scope.type_of(operand)
            if held is None or (held in ("bool", "f64")) != (cpp in ("bool", "f64")):
                raise self.error(f"the operand {operand} as {kind}")
            return variable(operand) if held == cpp else f"({cpp}){variable(operand)}"
        if re.fullmatch(r"0[dD][0-9A-Fa-f]{16}", operand) and kind == "f64":
            return f"ptx::float_of(0x{operand[2:]}ull)"
        if re.fullmatch(r"-?(?:\d+|0[xX][0-9A-Fa-f]+)U?", operand) and kind != "f64":
            number = int(operand.rstrip("U"), 0)
            return str(number != 0).lower() if kind == "pred" else f"({cpp}){number % 2**64}ull"
        return f"({cpp}){self.symbol(operand)}"

    def symbol(self, name: str) -> str:
        if name in self.scope.shared:
            return f"{self.scope.shared[name]}ull"
        if name in self.scope.local:
            return f"(u64)(local_bytes + {self.scope.local[name]})"
        if name in self.scope.variables:
            return f"(u64)&{variable(name)}"
        raise self.error(f"the name {name!r} stands for nothing")

    def address(self, operand: str) -> str:
        match = re.fullmatch(r"\[\s*([%$\w]+)\s*(?:\+\s*(-?\d+))?\s*\]", operand)
        if match is None:
            raise self.error(f"an address that is not understood: {operand!r}")
        base = self.read(match[1], "u64") if match[1].startswith("%") else self.symbol(match[1])
        return f"{base} + {int(match[2]) % 2**64}ull" if match[2] else base

    def write(self, register: str, value: str, kind: str | None = None) -> str:
        """Assign to a register; a value of a signed PTX type fills a wider register with its sign."""
        if register == "_":
            return f"(void)({value});"
        held = self.scope.type_of(register)
        if held is None:
            raise self.error(f"the register {register} is not declared")
        if kind is not None and kind[0] == "s" and held[0] == "u":
            value = f"(s{held[1:]})({WIDTHS[kind]})({value})"
        return f"{variable(register)} = ({held})({value});"

    # Instructions

    def instruction(self, text: str) -> str:
        opcode, _, rest = text.partition(" ") if " " in text else text.partition("\t")
        opcode, rest = opcode.strip(), rest.strip()
        if "\t" in opcode:
            opcode, _, more = opcode.partition("\t")
            rest = f"{more} {rest}".strip()
        for pattern, emit in INSTRUCTIONS:
            match = pattern.fullmatch(opcode)
            if match:
                try:
                    return emit(self, match, operands(rest))
                except (IndexError, ValueError):
                    raise self.error(f"{opcode} with operands that are not understood: {rest!r}") from None
        raise self.error(f"the instruction {opcode!r} is not known to the translator")

    def site(self) -> int:
        self.scope.n_sites += 1
        return self.scope.n_sites


Emit = Callable[[Translator, "re.Match[str]", list[str]], str]


def label(name: str) -> str:
    return "label_" + name.replace("$", "_")


def variable(name: str) -> str:
    return re.sub(r"\W", "_", name.replace("%", "r_", 1))


def unsigned(kind: str) -> str:
    return "u" + kind[1:] if kind[0] in "bs" and kind != "bool" else kind


def _infix(sign: str) -> Emit:
    """Arithmetic modulo 2^n, and on floats as it stands."""

    def emit(t: Translator, m: re.Match[str], a: list[str]) -> str:
        dst, x, y = a
        kind = m["type"] if m["type"] in ("f64", "pred") else unsigned(m["type"])
        return t.write(dst, f"{t.read(x, kind)} {sign} {t.read(y, kind)}")

    return emit


def _divide(function: str) -> Emit:
    def emit(t: Translator, m: re.Match[str], a: list[str]) -> str:
        dst, x, y = a
        kind = m["type"]
        return t.write(dst, f"ptx::{function}<{kind}>({t.read(x, kind)}, {t.read(y, kind)}, {t.line})", kind)

    return emit


def _unary(sign: str) -> Emit:
    def emit(t: Translator, m: re.Match[str], a: list[str]) -> str:
        dst, x = a
        kind = m["type"] if m["type"] in ("f64", "pred") else unsigned(m["type"])
        return t.write(dst, f"({WIDTHS[kind]})({sign}{t.read(x, kind)})")

    return emit


def _choose(sign: str) -> Emit:
    def emit(t: Translator, m: re.Match[str], a: list[str]) -> str:
        dst, x, y = a
        left, right = t.read(x, m["type"]), t.read(y, m["type"])
        return t.write(dst, f"{left} {sign} {right} ? {left} : {right}", m["type"])

    return emit


def _mov(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, src = a
    if dst.startswith("{"):
        low, high = operands(dst[1:-1])
        value = t.read(src, "b64")
        return f"{{ const u64 both = {value}; {t.write(low, '(u32)both')} {t.write(high, '(u32)(both >> 32)')} }}"
    if src.startswith("{"):
        low, high = operands(src[1:-1])
        return t.write(dst, f"(u64){t.read(high, 'b32')} << 32 | {t.read(low, 'b32')}")
    return t.write(dst, t.read(src, m["type"]))


def _wide(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, x, y, *more = a
    kind = m["type"]
    wide = f"{kind[0]}{2 * int(kind[1:])}"
    product = f"({wide})({t.read(x, kind)}) * ({wide})({t.read(y, kind)})"
    if more:
        product = f"(u64)({product}) + {t.read(more[0], 'u' + wide[1:])}"
    return t.write(dst, product)


def _mad(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, x, y, z = a
    kind = unsigned(m["type"])
    return t.write(dst, f"{t.read(x, kind)} * {t.read(y, kind)} + {t.read(z, kind)}")


def _mul_high(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, x, y = a
    wide = {"u64": "unsigned __int128", "s64": "__int128", "u32": "u64", "s32": "s64"}[m["type"]]
    product = f"({wide})({t.read(x, m['type'])}) * ({wide})({t.read(y, m['type'])})"
    return t.write(dst, f"({product}) >> {m['type'][1:]}")


def _shift(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, x, count = a
    kind = m["type"] if m["type"][0] == "s" else unsigned(m["type"])
    function = "shift_left" if m["name"] == "shl" else "shift_right"
    return t.write(dst, f"ptx::{function}<{WIDTHS[kind]}>({t.read(x, kind)}, {t.read(count, 'u32')})", kind)


def _select(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, x, y, condition = a
    return t.write(dst, f"{t.read(condition, 'pred')} ? {t.read(x, m['type'])} : {t.read(y, m['type'])}", m["type"])


COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _compare(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, x, y, *more = a
    result = f"({t.read(x, m['type'])} {COMPARISONS[m['relation']]} {t.read(y, m['type'])})"
    if m["join"]:
        (other,) = more
        result = f"({result} {dict(zip(('and', 'or', 'xor'), '&|^', strict=True))[m['join']]} {t.read(other, 'pred')})"
    elif more:
        raise ValueError
    return t.write(dst, result)


def _convert(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, src = a
    return t.write(dst, f"({WIDTHS[m['to']]})({t.read(src, m['type'])})", m["to"])


def _truncate(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, src = a
    return t.write(dst, f"ptx::truncated({t.read(src, 'f64')})", "s64")


def _bits(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, x = a
    kind = unsigned(m["type"])
    value, name = t.read(x, kind), m["name"]
    function = {
        "popc": f"__builtin_popcountll({value})", "clz": f"ptx::leading_zeros<{kind}>({value})",
        "brev": f"ptx::reversed({value})",
        # How far a shift takes the highest bit to the top; all ones where there is no bit.
        "bfind.shiftamt": f"{value} ? ptx::leading_zeros<{kind}>({value}) : ~0u",
    }  # fmt: skip
    return t.write(dst, f"(u32)({function[name]})")


def _insert(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, x, y, position, length = a
    kind = unsigned(m["type"])
    bits = f"{t.read(position, 'u32')}, {t.read(length, 'u32')}"
    return t.write(dst, f"ptx::insert_bits<{kind}>({t.read(x, kind)}, {t.read(y, kind)}, {bits})")


def _funnel(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, *values = a
    low, high, count = (t.read(value, "u32") for value in values)
    return t.write(dst, f"ptx::funnel_left({low}, {high}, {count})")


def _address(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, src = a
    value = t.read(src, "u64")
    if m["space"] == "shared":
        window = "(u64)ptx::shared_bytes"
        value = f"{value} - {window}" if m["to"] else f"{value} + {window}"
    return t.write(dst, value)


def _parameter(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, src = a
    return t.write(dst, f"({WIDTHS[m['type']]})given[{t.scope.parameters.index(src[1:-1].strip())}]")


def _memory(t: Translator, m: re.Match[str], a: list[str]) -> str:
    loads = m["name"] == "ld"
    target, source = a
    place, data = (source, target) if loads else (target, source)
    size = int(m["vector"] or 1)
    registers = operands(data[1:-1]) if size > 1 else [data]
    if len(registers) != size:
        raise ValueError
    space, kind, code = m["space"] or "generic", m["type"], []
    for i, register in enumerate(registers):
        at = t.address(place) + (f" + {i * BYTES[kind]}ull" if i else "")
        if loads:
            code.append(t.write(register, f"ptx::load_{space}<{WIDTHS[kind]}>({at}, {t.line})", kind))
        else:
            code.append(f"ptx::store_{space}<{WIDTHS[kind]}>({at}, {t.read(register, kind)}, {t.line});")
    return " ".join(code)


CHANGES = {
    "add": "x + y", "min": "y < x ? y : x", "max": "y > x ? y : x", "or": "x | y", "and": "x & y", "xor": "x ^ y",
    "exch": "y", "cas": "x == y ? z : x",
}  # fmt: skip


def _atomic(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, place, *values = a if m["name"] == "atom" else ["_", *a]
    kind, change = m["type"], m["change"]
    kind = unsigned(kind) if kind[0] == "b" else kind
    first, *second = (t.read(value, kind) for value in values)
    if len(second) != (change == "cas"):
        raise ValueError
    names = f"const {kind} y = {first};" + "".join(f" const {kind} z = {value};" for value in second)
    update = f"[&]({kind} x) {{ return ({kind})({CHANGES[change]}); }}"
    done = f"ptx::atomic_{m['space']}<{kind}>({t.address(place)}, {update}, {t.line})"
    return f"{{ {names} {t.write(dst, done)} }}"


def _fence(t: Translator, m: re.Match[str], a: list[str]) -> str:
    return "if (ptx::by_chance) ptx::interrupt();"


def _barrier(t: Translator, m: re.Match[str], a: list[str]) -> str:
    if a != ["0"]:
        raise ValueError
    return f"ptx::barrier({t.site()}, {t.line});"


def _sync_warp(t: Translator, m: re.Match[str], a: list[str]) -> str:
    (mask,) = a
    return f"ptx::warp({t.site()}, ptx::SYNCWARP, {t.read(mask, 'u32')}, 0, 0, 0, nullptr, {t.line});"


SHUFFLES = {"up": "SHUFFLE_UP", "down": "SHUFFLE_DOWN", "bfly": "SHUFFLE_XOR", "idx": "SHUFFLE_INDEX"}


def _shuffle(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, value, lane, bounds, mask = a
    dst, _, held = dst.partition("|")
    read = ", ".join(t.read(part, "u32") for part in (mask, value, lane, bounds))
    call = f"ptx::warp({t.site()}, ptx::{SHUFFLES[m['how']]}, {read}, &held, {t.line})"
    put = t.write(held, "held") if held else "(void)held;"
    return f"{{ bool held; const u32 value = {call}; {t.write(dst, 'value')} {put} }}"


def _vote(t: Translator, m: re.Match[str], a: list[str]) -> str:
    dst, condition, mask = a
    value = f"(u32)({t.read(condition, 'pred')})"
    call = f"ptx::warp({t.site()}, ptx::{m['how'].upper()}, {t.read(mask, 'u32')}, {value}, 0, 0, nullptr, {t.line})"
    return t.write(dst, call if m["how"] == "ballot" else f"{call} != 0")


def _branch(t: Translator, m: re.Match[str], a: list[str]) -> str:
    (target,) = a
    return f"goto {label(target)};"


def _leave(t: Translator, m: re.Match[str], a: list[str]) -> str:
    return "return;"


def _trap(t: Translator, m: re.Match[str], a: list[str]) -> str:
    return f'ptx::fail({t.line}, "trap");'


INTEGER = "[us](?:16|32|64)"
BITS = "b(?:16|32|64)"
INSTRUCTIONS: list[tuple[re.Pattern[str], Emit]] = [(re.compile(pattern), emit) for pattern, emit in (
    (rf"mov\.(?P<type>{INTEGER}|{BITS}|f64|pred)", _mov),
    (rf"add\.(?P<type>{INTEGER}|f64)", _infix("+")),
    (rf"sub\.(?P<type>{INTEGER}|f64)", _infix("-")),
    (rf"mul\.(?:lo\.)?(?P<type>(?<=lo\.){INTEGER}|(?<=mul\.)f64)", _infix("*")),
    (r"(?:mul|mad)\.wide\.(?P<type>[us](?:16|32))", _wide),
    (rf"mad\.lo\.(?P<type>{INTEGER})", _mad),
    (r"mul\.hi\.(?P<type>[us](?:32|64))", _mul_high),
    (r"div\.rn\.(?P<type>f64)", _infix("/")),
    (rf"div\.(?P<type>{INTEGER})", _divide("divide")),
    (rf"rem\.(?P<type>{INTEGER})", _divide("remainder")),
    (rf"min\.(?P<type>{INTEGER})", _choose("<")),
    (rf"max\.(?P<type>{INTEGER})", _choose(">")),
    (r"neg\.(?P<type>s(?:16|32|64)|f64)", _unary("-")),
    (rf"not\.(?P<type>{BITS})", _unary("~")),
    (r"not\.(?P<type>pred)", _unary("!")),
    (rf"and\.(?P<type>{BITS}|pred)", _infix("&")),
    (rf"or\.(?P<type>{BITS}|pred)", _infix("|")),
    (rf"xor\.(?P<type>{BITS}|pred)", _infix("^")),
    (rf"(?P<name>shl)\.(?P<type>{BITS})", _shift),
    (rf"(?P<name>shr)\.(?P<type>{INTEGER}|{BITS})", _shift),
    (rf"selp\.(?P<type>{INTEGER}|{BITS}|f64)", _select),
    (rf"setp\.(?P<relation>eq|ne|lt|le|gt|ge)\.(?:(?P<join>and|or|xor)\.)?(?P<type>{INTEGER}|{BITS}|f64)", _compare),
    (r"cvt\.(?P<to>[us](?:8|16|32|64))\.(?P<type>[us](?:8|16|32|64))", _convert),
    (r"cvt\.rn\.(?P<to>f64)\.(?P<type>[us](?:32|64))", _convert),
    (r"cvt\.rzi\.s64\.f64", _truncate),
    (r"(?P<name>popc|clz)\.(?P<type>b(?:32|64))", _bits),
    (r"(?P<name>brev)\.(?P<type>b32)", _bits),
    (r"(?P<name>bfind\.shiftamt)\.(?P<type>u(?:32|64))", _bits),
    (r"bfi\.(?P<type>b(?:32|64))", _insert),
    (r"shf\.l\.wrap\.b32", _funnel),
    (r"cvta\.(?P<to>to\.)?(?P<space>global|shared|local)\.u64", _address),
    (rf"ld\.param\.(?P<type>{INTEGER}|{BITS})", _parameter),
    ((r"(?P<name>ld|st)(?:\.volatile)?(?:\.(?P<space>global|shared|local))?(?:\.nc)?(?:\.v(?P<vector>[24]))?\."
     r"(?P<type>[bus](?:8|16|32|64)|f64)"), _memory),
    ((r"(?P<name>atom|red)\.(?P<space>global|shared)\.(?P<change>add|min|max|or|and|xor|exch|cas)\."
     r"(?P<type>[bus](?:32|64))"), _atomic),
    (r"membar\.(?:gl|cta)|fence\.(?:sc|acq_rel)\.(?:gpu|cta)", _fence),
    (r"(?:bar|barrier)\.sync", _barrier),
    (r"bar\.warp\.sync", _sync_warp),
    (r"shfl\.sync\.(?P<how>up|down|bfly|idx)\.b32", _shuffle),
    (r"vote\.sync\.(?P<how>any(?=\.pred)|all(?=\.pred)|ballot(?=\.b32))\.(?:pred|b32)", _vote),
    (r"bra(?:\.uni)?", _branch),
    (r"ret|exit", _leave),
    (r"trap", _trap),
)]  # fmt: skip
"""The forms of instructions that are understood, and what each becomes."""

HEAD = '#include "runtime.h"\n'


def translate(text: str) -> tuple[str, dict[str, Kernel]]:
    """Translate a module.

    Returns
    -------
    tuple
        A C++ source with a function ``ptx_kernel_<name>`` for each entry, and the entries by name.

    Raises
    ------
    PtxError
        If the module holds an instruction, declaration or operand that is not understood.
    """
    text = re.sub(r"//[^\n]*", "", text)
    globals_: dict[str, str] = {}
    kernels: dict[str, Kernel] = {}
    position = 0
    while match := _TOP.search(text, position):
        line = 1 + text.count("\n", 0, match.start("item"))
        position = match.end()
        if match["variable"]:
            kind = WIDTHS[match["type"]]
            value = f" = ({kind}){int(match['value']) % 2**64}ull" if match["value"] else ""
            globals_[match["variable"]] = f"[[maybe_unused]] static {kind} {variable(match['variable'])}{value};\n"
        elif match["entry"]:
            parameters = re.findall(r"\.param\s+\.u64\s+(\w+)", match["parameters"])
            if len(parameters) != match["parameters"].count(".param"):
                raise PtxError(line, f"the parameters of {match['entry']}, of which not all have eight bytes")
            end = _closing(text, match.end("open"))
            translator = Translator(match["entry"], parameters, frozenset(globals_))
            first_line = 1 + text.count("\n", 0, match.end("open"))
            kernels[match["entry"]] = translator.kernel(text[match.end("open") : end], first_line)
            position = end + 1
        elif not match["item"].startswith(IGNORED):
            raise PtxError(line, f"cannot read {match['item'].splitlines()[0]!r}")
    exported = "".join(
        f'extern "C" __attribute__((visibility("default"))) void ptx_kernel_{kernel.name}(const u64* given)\n'
        f"{{\n    kernel_{kernel.name}(given);\n}}\n"
        for kernel in kernels.values()
    )
    return HEAD + "".join(globals_.values()) + "".join(kernel.code for kernel in kernels.values()) + exported, kernels


_TOP = re.compile(
    r"(?P<item>\.global\s+\.align\s+\d+\s+\.(?P<type>\w+)\s+(?P<variable>\w+)(?:\s*=\s*(?P<value>-?\d+))?\s*;"
    r"|\.visible\s+\.entry\s+(?P<entry>\w+)\s*\((?P<parameters>[^)]*)\)[^{]*(?P<open>\{)|\S[^\n]*)"
)


def _closing(text: str, position: int) -> int:
    """Find the brace that closes the one before `position`."""
    depth = 1
    for match in re.compile("[{}]").finditer(text, position):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    raise PtxError(text.count("\n") + 1, "a brace that is never closed")
