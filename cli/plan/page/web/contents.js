// The contents of each rank's memory as the steps take effect: in place of data, the set of contributions, a bit per
// rank. algorithms/replay.cc does the same with the checker's interpreter.

// For a scan: the number of first ranks that contribute to a rank's result.
const FOLDED = { up_to_self: (rank) => rank + 1, before_self: (rank) => rank };

function countBits(set) {
  let count = 0;
  for (let rest = set; rest !== 0; rest &= rest - 1) ++count;
  return count;
}

// Blocks that a rank has at the start: buffer, first block, number.
function inputOf(schedule, rank) {
  const { traits, blocks, pipeline, root } = schedule;
  const isThere = !traits.only_root_has_input || rank === root;
  if (traits.input_is_own_part) return { buffer: 0, first: rank * pipeline, count: pipeline };
  return { buffer: traits.one_buffer ? OUTPUT : 0, first: 0, count: isThere ? blocks : 0 };
}

class Contents {
  constructor(schedule, messages) {
    this.schedule = schedule;
    this.columns = schedule.blocks;
    this.steps = linked(schedule).steps;
    this.movesOnly = schedule.traits.fold === "none";
    this.underWay = new Map(messages.map((message) => [message.recv, message]));
    // Per rank its places: input, output, scratch. A place has a block number and a set; 0 is empty.
    this.places = schedule.plans.map((plan) =>
      Array.from({ length: 2 * this.columns + plan.like.length }, () => ({ block: 0, set: 0 })));
    for (const plan of schedule.plans) {
      const input = inputOf(schedule, plan.rank);
      for (let i = 0; i < input.count; ++i)
        this.places[plan.rank][this.first(input) + i] = { block: input.first + i, set: 1 << plan.rank };
    }
  }

  first(blocks) {
    return blocks.buffer * this.columns + blocks.first;
  }

  read(rank, blocks) {
    return this.places[rank].slice(this.first(blocks), this.first(blocks) + blocks.count);
  }

  write(rank, blocks, values) {
    values.forEach((value, i) => { this.places[rank][this.first(blocks) + i] = value; });
  }

  apply(number) {
    const step = this.steps[number];
    const { rank } = step;
    const combined = (left, right) => left.map((value, i) => ({ block: value.block, set: value.set | right[i].set }));
    switch (step.verb) {
      case SEND: {
        const message = this.underWay.get(step.partner);
        message.values = this.read(rank, step.left);
        message.blocks = [...new Set(message.values.map((value) => value.block))].sort((a, b) => a - b);
        return;
      }
      case RECV:
        return this.write(rank, step.dst, this.underWay.get(number).values);
      case RECV_REDUCE:
        return this.write(rank, step.dst, combined(this.read(rank, step.left), this.underWay.get(number).values));
      case COPY:
        return this.write(rank, step.dst, this.read(rank, step.left));
      case REDUCE:
        return this.write(rank, step.dst, combined(this.read(rank, step.left), this.read(rank, step.right)));
    }
  }

  // Per column: all contributions that the rank has, and those that are in one value already. In a scan, only
  // contributions to its own result, and its own input until there is more.
  row(rank) {
    const folded = FOLDED[this.schedule.traits.fold];
    const row = Array.from({ length: this.columns }, () => ({ all: 0, largest: 0 }));
    for (const place of this.places[rank]) {
      if (folded && place.set >> folded(rank) !== 0) continue;
      const held = row[place.block];
      held.all |= place.set;
      if (countBits(place.set) > countBits(held.largest)) held.largest = place.set;
    }
    if (folded) for (const held of row) if (held.all === 0) held.all = held.largest = 1 << rank;
    if (this.movesOnly) for (const held of row) held.largest = held.all;
    return row;
  }

  changes(number) {
    return this.steps[number].verb !== SEND;
  }
}

// For each rank, the ranks whose arrival at a barrier it knows: every rank that one of its steps comes after.
class Arrivals {
  constructor(schedule) {
    this.columns = 1;
    this.steps = linked(schedule).steps;
    this.before = new Int32Array(this.steps.length);
    this.known = schedule.plans.map((plan) => 1 << plan.rank);
  }

  apply(number) {
    const step = this.steps[number];
    const known = this.before[number] | 1 << step.rank;
    for (const next of step.successors) this.before[next] |= known;
    if (step.next >= 0) this.before[step.next] |= known;
    if (step.verb === SEND) this.before[step.partner] |= known;
    this.known[step.rank] |= known;
  }

  row(rank) {
    return [{ all: this.known[rank], largest: this.known[rank] }];
  }

  changes() {
    return true;
  }
}
