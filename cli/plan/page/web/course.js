// A course: plans that were run under some cost. It has a frame with the contents of all ranks after each moment at
// which something changes or a message arrives; under STEPS a moment is a step.

const STEPS = { message: 1, block: 0 };

// A size in bytes and the cost of messages, in whole picoseconds as in cli/plan/replay.cc.
function costOf(schedule, model, blocks = schedule.blocks) {
  const bytes = schedule.traits.has_input ? model.bytes : 0;
  const block = bytes / blocks / model.gigabytesPerSecond * 1000;
  return { message: Math.round(model.latency * 1e6), block: Math.round(block) };
}

function timeOf(schedule, model) {
  return new Clock(schedule, costOf(schedule, model)).run().end;
}

// Between two examined ratios, the slower of their paces.
function timeAtPace(paces, { message, block }) {
  const ratio = Math.log2(block / message) * RATIO_STEPS;
  const took = ({ messages, blocks }) => messages * message + blocks * block;
  const last = Math.max(0, paces.findLastIndex(({ from }) => from <= ratio));
  const next = paces[last + 1];
  return next && ratio > next.from - 1 ? Math.max(took(paces[last]), took(next)) : took(paces[last]);
}

// With the best number of slices for this size: the time, and that number.
function bestOf(schedule, model) {
  const best = { time: timeOf(schedule, model), pipeline: schedule.pipeline };
  for (const { pipeline, paces } of schedule.depths) {
    const time = timeAtPace(paces, costOf(schedule, model, schedule.ranks * pipeline));
    if (time < best.time) Object.assign(best, { time, pipeline });
  }
  return best;
}

function runCourse(schedule, cost) {
  return courseOf(schedule, new Clock(schedule, cost).run());
}

// Makes the course of a clock that has run.
function courseOf(schedule, clock) {
  const barrier = !schedule.traits.has_input;
  const contents = barrier ? new Arrivals(schedule) : new Contents(schedule, clock.messages);
  const now = schedule.plans.map((plan) => contents.row(plan.rank));
  const course = { schedule, clock, messages: clock.messages, end: clock.end, columns: contents.columns };
  course.start = now.map((row) => row.map((held) => ({ ...held })));
  course.changes = [];
  for (const { at, step } of clock.effects) {
    contents.apply(step);
    if (!contents.changes(step)) continue;
    const { rank, verb } = clock.steps[step];
    contents.row(rank).forEach((held, block) => {
      const old = now[rank][block];
      if (old.all === held.all && old.largest === held.largest) return;
      const message = verb <= RECV_REDUCE ? clock.messages[clock.messageOf[step]] : null;
      course.changes.push({ at, rank, block, held, message });
      now[rank][block] = held;
    });
  }
  course.frames = framesOf(course);
  course.groups = groupsOf(course);
  return course;
}

function framesOf(course) {
  const moments = new Set([0]);
  for (const change of course.changes) moments.add(change.at);
  for (const message of course.messages) moments.add(message.end);
  let next = 0;
  let held = course.start;
  return [...moments].sort((a, b) => a - b).map((at) => {
    held = held.map((row) => row.slice());
    for (; next < course.changes.length && course.changes[next].at <= at; ++next) {
      const change = course.changes[next];
      held[change.rank][change.block] = change.held;
    }
    return { at, held };
  });
}

// Neighbouring blocks with equal contents at all ranks share a column.
function groupsOf(course) {
  const same = (a, b) => a.all === b.all && a.largest === b.largest;
  const alike = (a, b) => course.frames.every((frame) => frame.held.every((row) => same(row[a], row[b])));
  const groups = [];
  for (let block = 0; block < course.columns; ++block) {
    if (block > 0 && alike(block - 1, block)) groups.at(-1).last = block;
    else groups.push({ first: block, last: block });
  }
  return groups;
}

// The number of the frame at a moment.
function frameAt(course, moment) {
  let low = 0;
  let high = course.frames.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (course.frames[middle].at <= moment) low = middle;
    else high = middle;
  }
  return low;
}

// Messages that are in flight at a moment, or arrive at it.
function messagesAt(course, moment) {
  return course.messages.filter((message) => message.begin < moment && message.end >= moment);
}
