// The plans of this page, as cli/plan/page/plans.cc wrote them. A plan is what one rank does: steps that send, receive,
// copy or add blocks, and for each step the steps of its rank that it waits for. Nothing here depends on the algorithm.

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const REPEAT_MARKS = "!#%()*+,./:;=?@[]^{|}~";
const VALUE = new Map([...ALPHABET].map((letter, value) => [letter, value]));

const SEND = 0, RECV = 1, RECV_REDUCE = 2, COPY = 3, REDUCE = 4;
const OUTPUT = 1, SCRATCH = 2;
const RATIO_STEPS = 4, MOST_OCTAVES = 10;  // of algorithms/replay_paces.h

// Expands the repetitions; cli/base/pack.h has the grammar.
function unsqueeze(text) {
  const made = [];
  const six = (at) => VALUE.get(text[at]);
  for (let at = 0; at < text.length;) {
    const mark = REPEAT_MARKS.indexOf(text[at++]);
    if (mark < 0) {
      made.push(text[at - 1]);
      continue;
    }
    let length = 5 + mark;
    if (mark === REPEAT_MARKS.length - 1) {
      length += six(at) * 64 + six(at + 1);
      at += 2;
    }
    let from = made.length - 1 - (six(at) * 4096 + six(at + 1) * 64 + six(at + 2));
    at += 3;
    for (; length > 0; --length) made.push(made[from++]);
  }
  return made;
}

// Reads numbers from letters, one after the other.
class Numbers {
  constructor(letters) {
    this.letters = letters;
    this.at = 0;
  }

  six() {
    return VALUE.get(this.letters[this.at++]);
  }

  next() {
    const first = this.six();
    if (first < 48) return first;
    if (first < 63) return 48 + (first - 48) * 64 + this.six();
    return ((this.six() * 64 + this.six()) * 64 + this.six()) * 64 + this.six();
  }

  list(length) {
    return Array.from({ length }, () => this.next());
  }
}

function readBlocks(numbers, rank, ranks, pipeline) {
  const buffer = numbers.next();
  const first = numbers.next();
  const place = buffer === SCRATCH ? first : (first + rank * pipeline) % (ranks * pipeline);
  return { buffer, first: place, count: numbers.next() };
}

function readStep(numbers, id, rank, ranks, pipeline) {
  const blocks = () => readBlocks(numbers, rank, ranks, pipeline);
  const verb = numbers.next();
  const step = { verb };
  if (verb <= RECV_REDUCE) step.peer = (numbers.next() + rank) % ranks;
  if (verb !== SEND) step.dst = blocks();
  if (verb !== RECV) step.left = blocks();
  if (verb === REDUCE) step.right = blocks();
  step.waits = numbers.list(numbers.next()).map((back) => id - back);
  return step;
}

function readPlan(numbers, rank, ranks, pipeline) {
  const blocks = ranks * pipeline;
  const like = numbers.list(numbers.next()).map((block) => (block + rank * pipeline) % blocks);
  const count = numbers.next();
  const steps = [];
  for (let id = 0; id < count; ++id) steps.push(readStep(numbers, id, rank, ranks, pipeline));
  return { rank, like, steps };
}

function readTree(numbers, ranks) {
  const parents = numbers.list(ranks).map((parent) => parent - 1);
  return { parents, blocks: numbers.list(numbers.next()) };
}

// The time of the algorithm with another number of slices; algorithms/replay_paces.h says how to read the paces.
function readDepth(numbers) {
  const pipeline = numbers.next();
  const paces = Array.from({ length: numbers.next() }, () => {
    const [from, messages, blocks] = numbers.list(3);
    return { from: from - MOST_OCTAVES * RATIO_STEPS, messages, blocks };
  });
  return { pipeline, paces };
}

// One algorithm over some ranks: plans, one per rank, and the trees in them.
function readSchedule(numbers, ranks) {
  const pipeline = numbers.next();
  const root = numbers.next();
  const trees = [];
  for (let left = numbers.next(); left > 0; --left) trees.push(readTree(numbers, ranks));
  const plans = [];
  for (let rank = 0; rank < ranks; ++rank) plans.push(readPlan(numbers, rank, ranks, pipeline));
  const depths = Array.from({ length: numbers.next() }, () => readDepth(numbers));
  return { ranks, pipeline, root, trees, plans, depths, blocks: ranks * pipeline };
}

// The catalogue of the page: the schedules of each algorithm, by number of ranks.
function readCatalogue(data) {
  const numbers = new Numbers(unsqueeze(data.plans));
  return data.catalogue.map((entry) => {
    const { collective, name } = entry;
    const traits = data.collectives[collective];
    const schedules = new Map();
    for (let ranks = data.fewest_ranks; ranks <= data.most_ranks; ++ranks)
      schedules.set(ranks, { ...readSchedule(numbers, ranks), collective, traits, name });
    return { ...entry, schedules };
  });
}

// For the clock: the steps of all ranks, numbered together, with their waits and the partner of each message.
function linked(schedule) {
  if (schedule.links) return schedule.links;
  const base = [];
  const steps = [];
  for (const plan of schedule.plans) {
    base.push(steps.length);
    for (const [id, step] of plan.steps.entries())
      steps.push({ ...step, rank: plan.rank, id, successors: [], next: -1, first: false, partner: -1 });
  }
  const lanes = new Map();  // of each sender, receiver and side: its steps in order
  for (const [number, step] of steps.entries()) {
    for (const before of step.waits) steps[base[step.rank] + before].successors.push(number);
    if (step.verb > RECV_REDUCE) continue;
    const sends = step.verb === SEND;
    const key = sends ? `${step.rank}>${step.peer} out` : `${step.peer}>${step.rank} in`;
    if (!lanes.has(key)) lanes.set(key, []);
    const lane = lanes.get(key);
    if (lane.length > 0) steps[lane.at(-1)].next = number;
    step.first = lane.length === 0;
    lane.push(number);
  }
  for (const [key, lane] of lanes) {
    const other = lanes.get(key.endsWith("out") ? key.replace("out", "in") : key.replace(" in", " out"));
    lane.forEach((number, i) => { steps[number].partner = other[i]; });
  }
  return schedule.links = { base, steps };
}
