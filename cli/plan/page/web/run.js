// A traced run on its plan: when each message of the plan was sent and received, as measured and as predicted. Times
// arrive in nanoseconds from the beginning of the call, and become picoseconds as everywhere on this page.

const PICOSECONDS = 1000;

// The results of a clock, as courseOf needs them, from known times. Local steps were not measured one by one: they take
// effect once all that they wait for has, and the rank is in the call.
class Recorded {
  constructor(schedule, times, begins, end) {
    this.steps = linked(schedule).steps;
    this.messages = [];
    this.messageOf = new Int32Array(this.steps.length).fill(-1);
    this.end = end;
    for (const [number, step] of this.steps.entries()) {
      if (step.verb !== SEND) continue;
      const index = this.messages.length;
      const { begin, end: there } = times[index];
      this.messageOf[number] = this.messageOf[step.partner] = index;
      // Clocks of two hosts agree only approximately.
      this.messages.push({ index, from: step.rank, to: step.peer, send: number, recv: step.partner, begin, end: Math.max(there, begin + 1) });
    }
    this.effects = this.inOrder(begins);
  }

  // No step takes effect before the steps that it waits for, whatever the clocks say.
  inOrder(begins) {
    const waits = this.steps.map((step) => step.waits.length + (step.verb === RECV || step.verb === RECV_REDUCE ? 1 : 0));
    const at = Float64Array.from(this.steps, (step, number) => this.ownMoment(step, number, begins));
    const order = [];
    waits.forEach((count, number) => { if (count === 0) order.push(number); });
    for (let done = 0; done < order.length; ++done) {
      const number = order[done];
      const { verb, successors, partner } = this.steps[number];
      for (const next of verb === SEND ? [...successors, partner] : successors) {
        at[next] = Math.max(at[next], at[number]);
        if (--waits[next] === 0) order.push(next);
      }
    }
    return order.map((step) => ({ at: at[step], step })).sort((a, b) => a.at - b.at);
  }

  ownMoment(step, number, begins) {
    if (step.verb > RECV_REDUCE) return begins[step.rank];
    const message = this.messages[this.messageOf[number]];
    return step.verb === SEND ? message.begin : message.end;
  }
}

function inPairs(numbers) {
  const pairs = [];
  for (let at = 0; at < numbers.length; at += 2) pairs.push({ begin: numbers[at] * PICOSECONDS, end: numbers[at + 1] * PICOSECONDS });
  return pairs;
}

class Run {
  constructor(data, collectives) {
    const { file, collective, name, idea, ranks, found, first, calls } = data;
    Object.assign(this, { file, collective, name, idea, ranks, found, calls });
    this.schedule = { ...readSchedule(new Numbers(unsqueeze(data.plan)), ranks), collective, traits: collectives[collective], name };
    this.first = calls[first].id;
  }

  find(id) {
    return this.calls.find((call) => call.id === id);
  }

  // Per message { begin, end }, from the first or second two of its four numbers.
  times(call, part) {
    const times = [];
    for (let at = 2 * part; at < call.messages.length; at += 4) {
      const begin = call.messages[at] * PICOSECONDS;
      times.push({ begin, end: begin + call.messages[at + 1] * PICOSECONDS });
    }
    return times;
  }

  // As measured, and with the messages drawn behind it.
  measured(call) {
    const inCall = inPairs(call.in_call);
    const begins = inCall.map(({ begin }) => begin);
    const course = courseOf(this.schedule, new Recorded(this.schedule, this.times(call, 0), begins, call.end * PICOSECONDS));
    const place = (rank) => call.members.indexOf(rank);
    course.run = {
      predicted: call.predicted > 0 ? this.times(call, 1) : [],
      inCall,
      waits: call.waits.map(inPairs),
      ranks: new Set(call.verdict.flatMap(({ ranks }) => ranks.map(place))),
      links: new Set(call.verdict.flatMap(({ links }) => links.map(([from, to]) => `${place(from)}>${place(to)}`))),
    };
    return course;
  }

  predicted(call) {
    const begins = call.members.map(() => 0);
    return courseOf(this.schedule, new Recorded(this.schedule, this.times(call, 1), begins, call.predicted * PICOSECONDS));
  }
}
