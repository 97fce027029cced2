// One algorithm: the current step in words, the messages, the contents, the waits, and the history of the block that is
// pointed at.

const DETAIL_HINT = "Point at a block to see its history, at a rank to see its messages.";

class Panel {
  constructor(host, side) {
    this.host = host;
    const part = this.part = (name) => host.querySelector(`.${name}`);
    this.title = part("name");
    this.idea = part("idea");
    this.facts = part("facts");
    this.sentence = part("sentence");
    this.detail = part("detail");
    this.place = null;
    const point = (place) => this.pointAt(place);
    this.topology = new Topology(part("topology"), point);
    this.matrix = new Matrix(part("holdings"), point);
    this.times = new Times(part("times"), point);
    host.dataset.side = side;
  }

  // The width for drawings. All panels are asked before any of them changes, since the browser would otherwise compute
  // the layout again for each.
  measure() {
    this.room = this.part("topology").clientWidth;
  }

  // `until` is the end of the clock that both panels share.
  show({ course, title, idea }, until, clock) {
    this.course = course;
    this.clock = clock;
    const { schedule } = course;
    this.title.textContent = title;
    this.idea.textContent = idea;
    this.topology.show(course, this.room);
    const what = `${schedule.collective} by ${schedule.name} over ${schedule.ranks} ranks`;
    this.matrix.show(course, `${what}: whose contributions each rank has of each block`);
    this.times.show(course, this.room, until, clock);
    this.until = until;
    this.frame = -1;
    this.pointAt(null);
  }

  resize() {
    this.topology.show(this.course, this.room);
    this.times.show(this.course, this.room, this.until, this.clock);
  }

  update(moment) {
    this.moment = moment;
    const frame = frameAt(this.course, moment);
    const messages = messagesAt(this.course, moment);
    if (frame !== this.frame) this.matrix.update(frame);
    this.frame = frame;
    this.host.dataset.frame = frame;
    this.topology.update(messages, moment);
    this.times.update(moment);
    const text = this.sentenceOf(messages);
    if (this.sentence.textContent !== text) this.sentence.textContent = text;
    if (this.place && this.place.group !== undefined) this.detail.textContent = this.history(this.place);
  }

  sentenceOf(messages) {
    const { end } = this.course;
    const done = this.moment >= end ? `Done after ${lengthText(end, this.clock)}. ` : "";
    if (messages.length > 0) return done + messages.map(messageText).join(", ");
    return this.moment === 0 ? "Start: nothing is sent yet." : done || "Nothing is under way.";
  }

  pointAt(place) {
    this.place = place;
    this.topology.highlight(place);
    this.matrix.highlight(place);
    this.times.highlight(place === null ? null : (message) => this.concerns(message, place));
    this.detail.textContent = place === null ? DETAIL_HINT
      : place.group === undefined ? this.messagesOf(place.rank) : this.history(place);
  }

  // Whether a message is one of the rank's; for a block, whether it brought that block to the rank.
  concerns(message, { rank, group }) {
    if (group === undefined) return message.from === rank || message.to === rank;
    return this.changesOf({ rank, group }).some((change) => change.message === message);
  }

  changesOf({ rank, group }) {
    const block = this.course.groups[group].first;
    return this.course.changes.filter((change) => change.rank === rank && change.block === block);
  }

  history(place) {
    const { course } = this;
    const group = course.groups[place.group];
    const barrier = !course.schedule.traits.has_input;
    const what = barrier ? `Rank ${place.rank} knows of` : `Block ${groupText(group)} at rank ${place.rank}:`;
    const parts = [`start: ${setText(course.start[place.rank][group.first].all)}`];
    for (const { at, held, message } of this.changesOf(place)) {
      const from = message ? `, from rank ${message.from}` : "";
      parts.push(`${momentText(at, this.clock)}${from}: ${heldText(held)}`);
    }
    return `${what} ${parts.join(" · ")}`;
  }

  messagesOf(rank) {
    const told = (message) => `${momentText(message.end, this.clock)}: ${messageText(message)}`;
    const mine = this.course.messages.filter((message) => message.from === rank || message.to === rank);
    return `Rank ${rank}: ${mine.length === 0 ? "no messages" : mine.map(told).join(" · ")}`;
  }
}
