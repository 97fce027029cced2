// When each step of all plans happens if a message takes `message + block * blocks`, a rank sends one message at a time
// and receives one at a time, and adding is free. If several messages could go, the one that has waited longest goes
// first, then the one that its receiver's plan, then its sender's, wants first. algorithms/replay_clock.cc works in the
// same way, event by event, so that both get the same times.

// Events by time, then in the order of their creation.
class Events {
  constructor() {
    this.heap = [];
    this.order = 0;
  }

  static before(a, b) {
    return a.at < b.at || (a.at === b.at && a.order < b.order);
  }

  push(at, step) {
    const heap = this.heap;
    const event = { at, order: this.order++, step };
    let hole = heap.length;
    heap.push(event);
    while (hole > 0) {
      const parent = (hole - 1) >> 1;
      if (!Events.before(event, heap[parent])) break;
      heap[hole] = heap[parent];
      hole = parent;
    }
    heap[hole] = event;
  }

  pop() {
    const heap = this.heap;
    const first = heap[0];
    const last = heap.pop();
    if (heap.length === 0) return first;
    let hole = 0;
    for (let child = 1; child < heap.length; child = 2 * hole + 1) {
      if (child + 1 < heap.length && Events.before(heap[child + 1], heap[child])) ++child;
      if (!Events.before(heap[child], last)) break;
      heap[hole] = heap[child];
      hole = child;
    }
    heap[hole] = last;
    return first;
  }
}

class Clock {
  constructor(schedule, cost) {
    const ranks = schedule.ranks;
    this.steps = linked(schedule).steps;
    this.cost = cost;
    this.now = 0;
    this.waits = this.steps.map((step) => step.waits.length);
    this.hasTurn = this.steps.map((step) => step.first);
    this.arrived = new Uint8Array(this.steps.length);
    this.readyAt = new Float64Array(this.steps.length);
    this.messageOf = new Int32Array(this.steps.length);
    this.offers = Array.from({ length: ranks }, () => []);  // per rank: sends that could go, in order
    this.outFree = new Float64Array(ranks);
    this.inFree = new Float64Array(ranks);
    this.events = new Events();
    this.messages = [];
    this.effects = [];  // steps as they take effect: a send when it leaves, any other when it completes
    this.end = 0;
  }

  run() {
    for (let step = 0; step < this.steps.length; ++step) if (this.waits[step] === 0) this.ready(step);
    this.startMessages();
    const heap = this.events.heap;
    while (heap.length > 0) {
      this.now = heap[0].at;
      while (heap.length > 0 && heap[0].at === this.now) this.happen(this.events.pop().step);
      this.startMessages();
    }
    return this;
  }

  // All steps of its own rank that the step waits for have completed.
  ready(step) {
    this.readyAt[step] = this.now;
    const { verb } = this.steps[step];
    if (verb === SEND) this.offer(step);
    else if (verb > RECV_REDUCE) this.events.push(this.now, step);
    else this.receive(step);
  }

  giveTurn(step) {
    this.hasTurn[step] = true;
    if (this.steps[step].verb === SEND) this.offer(step);
    else this.receive(step);
  }

  offer(step) {
    if (this.waits[step] > 0 || !this.hasTurn[step]) return;
    const offers = this.offers[this.steps[step].rank];
    const behind = (other) => this.readyAt[other] > this.readyAt[step] ||
      (this.readyAt[other] === this.readyAt[step] && other > step);
    let place = offers.length;
    while (place > 0 && behind(offers[place - 1])) --place;
    offers.splice(place, 0, step);
  }

  receive(step) {
    if (this.waits[step] > 0 || !this.hasTurn[step] || !this.arrived[step]) return;
    this.events.push(this.now, step);
    const { next } = this.steps[step];
    if (next >= 0) this.giveTurn(next);
  }

  // A step completes; that of a send is also the arrival of its message.
  happen(number) {
    const step = this.steps[number];
    if (step.verb === SEND) {
      this.arrived[step.partner] = 1;
      this.messageOf[step.partner] = this.messageOf[number];
      this.complete(number);
      this.receive(step.partner);
      return;
    }
    this.effects.push({ at: this.now, step: number });
    this.complete(number);
  }

  complete(number) {
    this.end = this.now;
    for (const next of this.steps[number].successors) if (--this.waits[next] === 0) this.ready(next);
  }

  // Whether `a` goes before `b`; both are sends that could go.
  goesBefore(a, b) {
    if (this.readyAt[a] !== this.readyAt[b]) return this.readyAt[a] < this.readyAt[b];
    const one = this.steps[a];
    const two = this.steps[b];
    const order = this.steps[one.partner].id - this.steps[two.partner].id || one.id - two.id || one.rank - two.rank;
    return order < 0;
  }

  startMessages() {
    // The best offer of every rank whose port is free; the next best if the port at the other end is busy.
    const cursors = [];
    for (let rank = 0; rank < this.offers.length; ++rank)
      if (this.offers[rank].length > 0 && this.outFree[rank] <= this.now) cursors.push({ rank, place: 0 });
    const offer = (cursor) => this.offers[cursor.rank][cursor.place];
    while (cursors.length > 0) {
      let best = 0;
      for (let i = 1; i < cursors.length; ++i) if (this.goesBefore(offer(cursors[i]), offer(cursors[best]))) best = i;
      const cursor = cursors[best];
      const step = offer(cursor);
      if (this.inFree[this.steps[step].peer] > this.now) {
        if (++cursor.place === this.offers[cursor.rank].length) cursors.splice(best, 1);
        continue;
      }
      this.offers[cursor.rank].splice(cursor.place, 1);
      cursors.splice(best, 1);
      this.startMessage(step);
    }
  }

  startMessage(number) {
    const step = this.steps[number];
    const end = this.now + this.cost.message + this.cost.block * step.left.count;
    this.messageOf[number] = this.messages.length;
    this.messages.push({
      index: this.messages.length, from: step.rank, to: step.peer, send: number, recv: step.partner, begin: this.now, end,
    });
    this.outFree[step.rank] = end;
    this.inFree[step.peer] = end;
    this.effects.push({ at: this.now, step: number });
    this.events.push(end, number);
    if (step.next >= 0) this.giveTurn(step.next);
  }
}
