"""Runs PTX, the code that nvcc makes for GPUs, without one.

Every thread is a lane of NumPy's arrays. Those threads run next that are furthest behind (the lowest program counter), so
that threads which parted at a branch meet again. Loads and stores are checked: they lie in the memory, and an address is
a multiple of the access's size. It knows the instructions that the kernels in lib/compute/gpu need, and ends at any other.
"""

import re

import numpy

TYPES = {"pred": "?", "f16": "f2", "f32": "f4", "f64": "f8"}
for _bits in (8, 16, 32, 64):
    TYPES.update({f"b{_bits}": f"u{_bits // 8}", f"u{_bits}": f"u{_bits // 8}", f"s{_bits}": f"i{_bits // 8}"})
TYPES = {name: numpy.dtype(code) for name, code in TYPES.items()}
BFLOAT = "bf16"  # NumPy has none
COMPARISONS = {"eq": numpy.equal, "ne": numpy.not_equal, "lt": numpy.less, "le": numpy.less_equal,
               "gt": numpy.greater, "ge": numpy.greater_equal}
ARITHMETIC = {"add": numpy.add, "sub": numpy.subtract, "mul": numpy.multiply, "and": numpy.bitwise_and,
              "or": numpy.bitwise_or, "xor": numpy.bitwise_xor, "min": numpy.minimum, "max": numpy.maximum}


MOST_PAUSES = 100


class Fault(Exception):
    """What would fail on a GPU, or what this interpreter does not know."""


def unsigned(dtype):
    return numpy.dtype(f"u{dtype.itemsize}")


def parts(operand):
    """The registers of {a, b}, or the operand alone."""
    return [part.strip() for part in operand.strip("{}").split(",")]


class Instruction:
    def __init__(self, line):
        match = re.match(r"(?:@(!?)(%p\d+)\s+)?([\w.]+)\s*(.*);$", line)
        if not match:
            raise Fault(f"no instruction: {line}")
        negated, self.predicate, name, operands = match.groups()
        self.line, self.name, self.negated = line, name, bool(negated)
        self.opcode, *self.modifiers = name.split(".")
        self.types = [TYPES[word] for word in self.modifiers if word in TYPES]
        self.type = self.types[-1] if self.types else None
        self.operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", operands)


class Kernel:
    def __init__(self, name, parameter, parameter_size, body):
        self.name, self.parameter, self.parameter_size = name, parameter, parameter_size
        self.classes, self.code, self.labels = {}, [], {}
        for line in body.splitlines():
            line = line.split("//")[0].strip()
            if match := re.match(r"\.reg \.(\w+)\s+%([a-z]+)<\d+>;", line):
                self.classes[match.group(2)] = TYPES[match.group(1)]
            elif match := re.match(r"(\$\w+):$", line):
                self.labels[match.group(1)] = len(self.code)
            elif line and not line.startswith("."):
                self.code.append(Instruction(line))

    def class_of(self, register):
        return self.classes[re.match(r"%([a-z]+)", register).group(1)]


def kernels_of(text):
    """All entries of a PTX file, by name."""
    found = {}
    for name, head, body in re.findall(r"\.entry (\w+)\((.*?)\)[^{]*\{(.*?)\n\}", text, re.S):
        parameter, size = re.search(r"(\w+)\[(\d+)\]", head).groups()
        found[name] = Kernel(name, parameter, int(size), body)
    return found


class Run:
    """Runs a kernel in `blocks` blocks of `threads` threads on `memory`, an array of bytes that begins at address `base`."""

    def __init__(self, kernel, blocks, threads, parameter, memory, base=0):
        if len(parameter) != kernel.parameter_size:
            raise Fault(f"{kernel.name} takes {kernel.parameter_size} bytes, not {len(parameter)}")
        self.kernel, self.memory, self.base = kernel, memory, numpy.uint64(base)
        self.parameter = numpy.frombuffer(parameter, "u1")
        self.lanes = blocks * threads
        lane = numpy.arange(self.lanes, dtype="u4")
        self.special = {"%tid.x": lane % threads, "%ctaid.x": lane // threads,
                        "%ntid.x": numpy.full_like(lane, threads), "%nctaid.x": numpy.full_like(lane, blocks)}
        self.registers = {}
        self.carry = numpy.zeros(self.lanes, bool)
        self.next = numpy.zeros(self.lanes, numpy.int64)
        self.executed = set()
        self.pauses = 0
        end = len(kernel.code)
        with numpy.errstate(all="ignore"):
            while (at := int(self.next.min())) < end:
                self.step(kernel.code[at], at, numpy.nonzero(self.next == at)[0])

    def step(self, instruction, at, who):
        self.executed.add(instruction.name)
        self.next[who] = at + 1
        if instruction.predicate:
            who = who[self.registers[instruction.predicate][who] != instruction.negated]
            if len(who) == 0:
                return
        method = getattr(self, "do_" + instruction.opcode, None)
        if method is None and instruction.opcode not in ARITHMETIC:
            raise Fault(f"unknown instruction: {instruction.line}")
        (method or self.arithmetic)(instruction, who)

    # ---- Operands

    def get(self, operand, dtype, who):
        """An operand's values for the lanes `who`, as `dtype`; the lower bits of a wider register."""
        if operand[0] == "%":
            values = self.special[operand][who] if operand in self.special else self.registers[operand][who]
            if values.dtype == dtype:
                return values
            if values.dtype.itemsize == dtype.itemsize:
                return values.view(dtype)
            return values.view(unsigned(values.dtype)).astype(unsigned(dtype)).view(dtype)
        if operand == self.kernel.parameter:
            return numpy.zeros(len(who), dtype)  # parameters begin at address 0 of their own space
        if operand[:2] in ("0f", "0F", "0d", "0D"):
            number = numpy.array([int(operand[2:], 16)], "u4" if operand[1] in "fF" else "u8")
        else:
            number = numpy.array([int(operand, 0) % 2**(8 * dtype.itemsize)], unsigned(dtype))
        return numpy.repeat(number.view(dtype), len(who))

    def put(self, register, values, who):
        """Sets a register; narrower integers are extended by their sign or by zeros."""
        dtype = self.kernel.class_of(register)
        if values.dtype.itemsize != dtype.itemsize:
            kind = values.dtype.kind if values.dtype.kind in "iu" else "u"
            values = values.astype(f"{kind}{dtype.itemsize}")
        if register not in self.registers:
            self.registers[register] = numpy.zeros(self.lanes, dtype)
        self.registers[register][who] = values.view(dtype)

    def operands(self, instruction, who, count=2):
        return [self.get(operand, instruction.type, who) for operand in instruction.operands[1:1 + count]]

    # ---- Memory

    def indices(self, instruction, operand, who, registers):
        """Where each lane's access begins in its space."""
        match = re.match(r"\[([^+\]]+)(?:\+(-?\d+))?\]", operand)
        address = self.get(match.group(1), TYPES["u64"], who) + numpy.uint64(int(match.group(2) or 0) % 2**64)
        size = instruction.type.itemsize * registers
        if (address % numpy.uint64(size) != 0).any():
            raise Fault(f"misaligned: {instruction.line}")
        is_parameter = "param" in instruction.modifiers
        space = self.parameter if is_parameter else self.memory
        index = address if is_parameter else address - self.base
        if (index > numpy.uint64(len(space) - size)).any():
            raise Fault(f"outside of the memory: {instruction.line}")
        return space, index.astype(numpy.int64)

    def do_ld(self, instruction, who):
        registers = parts(instruction.operands[0])
        space, index = self.indices(instruction, instruction.operands[1], who, len(registers))
        size = instruction.type.itemsize
        loaded = space[index[:, None] + numpy.arange(size * len(registers))].view(instruction.type)
        for i, register in enumerate(registers):
            self.put(register, numpy.ascontiguousarray(loaded[:, i]), who)

    def do_st(self, instruction, who):
        registers = parts(instruction.operands[1])
        space, index = self.indices(instruction, instruction.operands[0], who, len(registers))
        stored = numpy.stack([self.get(register, instruction.type, who) for register in registers], 1)
        stored = numpy.ascontiguousarray(stored).view("u1")
        space[index[:, None] + numpy.arange(stored.shape[1])] = stored

    def do_atom(self, instruction, who):
        """One lane after the other."""
        if "add" not in instruction.modifiers:
            raise Fault(f"unknown instruction: {instruction.line}")
        space, index = self.indices(instruction, instruction.operands[1], who, 1)
        size = instruction.type.itemsize
        before = numpy.zeros(len(who), instruction.type)
        for lane, (at, added) in enumerate(zip(index, self.get(instruction.operands[2], instruction.type, who))):
            word = space[at:at + size].view(instruction.type)
            before[lane] = word[0]
            word[0] += added
        self.put(instruction.operands[0], before, who)

    # ---- Control

    def do_bar(self, instruction, who):
        """Those that are furthest behind run first, so all threads of a block come here together, or some never do."""
        block = self.special["%ctaid.x"]
        running = numpy.bincount(block[self.next < len(self.kernel.code)])
        if (running[block[who]] != numpy.bincount(block[who])[block[who]]).any():
            raise Fault(f"a barrier that not all threads of a block reach: {instruction.line}")

    do_barrier = do_bar

    def do_nanosleep(self, instruction, who):
        """In a loop that waits. Nobody else writes to the memory."""
        self.pauses += 1
        if self.pauses > MOST_PAUSES:
            raise Fault(f"waits indefinitely: {instruction.line}")

    def do_ret(self, instruction, who):
        self.next[who] = len(self.kernel.code)

    def do_bra(self, instruction, who):
        self.next[who] = self.kernel.labels[instruction.operands[0]]

    # ---- Moves and conversions

    def do_mov(self, instruction, who):
        to, source = instruction.operands
        if to[0] == "{":
            registers = parts(to)
            piece = numpy.dtype(f"u{instruction.type.itemsize // len(registers)}")
            pieces = numpy.ascontiguousarray(self.get(source, instruction.type, who)).view(piece)
            for i, register in enumerate(registers):
                self.put(register, pieces.reshape(len(who), -1)[:, i].copy(), who)
        elif source[0] == "{":
            registers = parts(source)
            piece = numpy.dtype(f"u{instruction.type.itemsize // len(registers)}")
            pieces = numpy.stack([self.get(register, piece, who) for register in registers], 1)
            self.put(to, pieces.view(unsigned(instruction.type))[:, 0], who)
        else:
            self.put(to, self.get(source, instruction.type, who), who)

    do_cvta = do_mov  # one address space

    def do_cvt(self, instruction, who):
        to, source = instruction.operands
        if BFLOAT in instruction.modifiers:
            return self.put(to, bfloat(self.get(source, TYPES["f32"], who)), who)
        result, operand = instruction.types
        if result.kind in "iu" and operand.kind == "f" and "rzi" not in instruction.modifiers:
            raise Fault(f"unknown rounding: {instruction.line}")
        return self.put(to, self.get(source, operand, who).astype(result), who)

    def do_prmt(self, instruction, who):
        low, high, selector = self.operands(instruction, who, 3)
        octets = numpy.stack([low, high], 1).view("u1")
        lanes = numpy.arange(len(who))
        chosen = numpy.zeros((len(who), 4), "u1")
        for i in range(4):
            digit = (selector >> numpy.uint32(4 * i)) & numpy.uint32(15)
            octet = octets[lanes, digit & numpy.uint32(7)]
            chosen[:, i] = numpy.where(digit > 7, (octet.view("i1") >> 7).view("u1"), octet)  # its sign, or itself
        self.put(instruction.operands[0], chosen.view("u4")[:, 0], who)

    def do_bfi(self, instruction, who):
        field, into = self.operands(instruction, who)
        start, length = (int(operand) for operand in instruction.operands[3:])
        mask = instruction.type.type(((1 << length) - 1) << start)
        self.put(instruction.operands[0], (into & ~mask) | ((field << instruction.type.type(start)) & mask), who)

    # ---- Comparisons

    def do_setp(self, instruction, who):
        left, right = self.operands(instruction, who)
        how = instruction.modifiers[0]
        result = numpy.isnan(left) | numpy.isnan(right) if how == "nan" else COMPARISONS[how](left, right)
        self.put(instruction.operands[0], result, who)

    def do_selp(self, instruction, who):
        left, right = self.operands(instruction, who)
        self.put(instruction.operands[0], numpy.where(self.registers[instruction.operands[3]][who], left, right), who)

    # ---- Arithmetic

    def arithmetic(self, instruction, who):
        left, right = self.operands(instruction, who)
        if "cc" in instruction.modifiers:
            return self.with_carry(instruction, left, right, None, who)
        return self.put(instruction.operands[0], ARITHMETIC[instruction.opcode](left, right), who)

    def with_carry(self, instruction, left, right, carry, who):
        """A sum, or a difference as left + ~right + 1, whose carry the next instruction takes."""
        left, right = left.view(unsigned(left.dtype)), right.view(unsigned(right.dtype))
        if instruction.opcode.startswith("sub"):
            right = ~right
            carry = numpy.ones(len(who), bool) if carry is None else carry
        total = left + right
        overflow = total < left
        if carry is not None:
            total = total + carry.astype(total.dtype)
            overflow |= carry & (total == 0)
        self.carry[who] = overflow
        self.put(instruction.operands[0], total, who)

    def do_addc(self, instruction, who):
        left, right = self.operands(instruction, who)
        self.with_carry(instruction, left, right, self.carry[who], who)

    do_subc = do_addc  # the carry says that nothing was borrowed

    def do_mul(self, instruction, who):
        left, right = self.operands(instruction, who)
        if "wide" in instruction.modifiers:
            wide = numpy.dtype(f"{instruction.type.kind}{2 * instruction.type.itemsize}")
            left, right = left.astype(wide), right.astype(wide)
        self.put(instruction.operands[0], left * right, who)

    def do_div(self, instruction, who):
        left, right = self.operands(instruction, who)
        if instruction.type.kind == "f":
            return self.put(instruction.operands[0], left / right, who)
        whole, negative = unsigned(instruction.type), numpy.zeros(len(who), bool)
        if instruction.type.kind == "i":
            negative = (left < 0) != (right < 0)
            left, right = numpy.abs(left), numpy.abs(right)
        quotient = left.view(whole) // right.view(whole)
        return self.put(instruction.operands[0], numpy.where(negative, -quotient, quotient).view(instruction.type), who)

    def do_neg(self, instruction, who):
        self.put(instruction.operands[0], -self.get(instruction.operands[1], instruction.type, who), who)

    def do_not(self, instruction, who):
        self.put(instruction.operands[0], ~self.get(instruction.operands[1], instruction.type, who), who)

    def do_shl(self, instruction, who):
        value = self.get(instruction.operands[1], instruction.type, who)
        amount, beyond = self.shift(instruction, who)
        self.put(instruction.operands[0], numpy.where(beyond, value.dtype.type(0), value << amount), who)

    def do_shr(self, instruction, who):
        value = self.get(instruction.operands[1], instruction.type, who)
        amount, beyond = self.shift(instruction, who)
        sign = value >> value.dtype.type(8 * value.dtype.itemsize - 1) if value.dtype.kind == "i" else value.dtype.type(0)
        self.put(instruction.operands[0], numpy.where(beyond, sign, value >> amount), who)

    def shift(self, instruction, who):
        """By how much, and whether that is all of the bits or more."""
        amount = self.get(instruction.operands[2], TYPES["u32"], who)
        width = 8 * instruction.type.itemsize
        return numpy.minimum(amount, width - 1).astype(instruction.type), amount >= width


def bfloat(values):
    """cvt.rn.bf16.f32: to nearest, ties to even; a NaN becomes 0x7fff."""
    bits = values.view("u4")
    rounded = (bits + numpy.uint32(0x7fff) + ((bits >> numpy.uint32(16)) & numpy.uint32(1))) >> numpy.uint32(16)
    return numpy.where(numpy.isnan(values), 0x7fff, rounded).astype("u2")
