// The space-time diagram: ranks down, time to the right, a line per message. Both algorithms share one scale.

const TIMES_LEFT = 26;
const TIMES_RIGHT = 14;
const TIMES_TOP = 14;

// Readable distances between ticks, with a limit on their number.
function tickDistance(span, most) {
  const raw = span / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((factor) => factor * power).find((distance) => distance >= raw);
}

class Times {
  constructor(host, point) {
    this.host = host;
    this.point = point;
    host.addEventListener("mouseover", (event) => {
      const place = event.target.closest("[data-rank]");
      this.point(place ? { rank: Number(place.dataset.rank) } : null);
    });
    host.addEventListener("mouseleave", () => this.point(null));
  }

  // `until` is the end of the scale; it may be later than the course.
  show(course, room, until, clock) {
    this.course = course;
    this.until = Math.max(until, 1);
    this.width = Math.max(280, room);
    const { ranks } = course.schedule;
    this.line = ranks > 8 ? 16 : 24;
    this.clock = clock;
    const bottom = TIMES_TOP + (ranks - 1) * this.line + 12;
    const svg = freshDrawing(this.host, this.width, bottom + 26, this.label());
    svg.append(this.ranks(), this.axis(bottom));
    if (course.run) svg.append(this.inCall(), this.predicted());
    svg.append(this.messages());
    this.cursor = drawn("line", { class: "cursor", y1: TIMES_TOP - 10, y2: bottom });
    svg.append(this.cursor);
  }

  label() {
    const what = this.clock === "steps" ? "steps" : "time";
    const also = this.course.run ? "; as measured, over what was predicted" : "";
    return `When messages travel: ranks down, ${what} to the right; ${plural(this.course.messages.length, "message")}${also}`;
  }

  x(moment) {
    return TIMES_LEFT + moment / this.until * (this.width - TIMES_LEFT - TIMES_RIGHT);
  }

  y(rank) {
    return TIMES_TOP + rank * this.line;
  }

  ranks() {
    const group = drawn("g", { class: "lanes" });
    for (let rank = 0; rank < this.course.schedule.ranks; ++rank) {
      const y = this.y(rank);
      group.append(drawn("line", { x1: TIMES_LEFT, x2: this.width - TIMES_RIGHT, y1: y, y2: y }),
        drawn("text", { x: 16, y: y + 4, "text-anchor": "end", "data-rank": rank, class: this.course.run?.ranks.has(rank) ? "named" : "" }, `${rank}`));
    }
    return group;
  }

  // When each rank was in the call, and when it waited.
  inCall() {
    const group = drawn("g", { class: "in-call" });
    const bar = (rank, { begin, end }, height, name) => group.append(drawn("rect", { x: this.x(begin), y: this.y(rank) - height / 2,
      width: Math.max(1, this.x(end) - this.x(begin)), height, class: name }));
    this.course.run.inCall.forEach((span, rank) => bar(rank, span, 7, "in"));
    this.course.run.waits.forEach((spans, rank) => { for (const span of spans) bar(rank, span, 5, "waits"); });
    return group;
  }

  predicted() {
    const group = drawn("g", { class: "predicted" });
    this.course.run.predicted.forEach(({ begin, end }, i) => {
      const { from, to } = this.course.messages[i];
      group.append(drawn("line", { x1: this.x(begin), y1: this.y(from), x2: this.x(end), y2: this.y(to) }));
    });
    return group;
  }

  axis(y) {
    const inSteps = this.clock === "steps";
    const edge = { steps: TIMES_RIGHT, time: 24, run: 36 }[this.clock];
    const group = drawn("g", { class: "axis" });
    group.append(drawn("line", { x1: TIMES_LEFT, x2: this.width - TIMES_RIGHT, y1: y, y2: y }));
    const room = Math.floor((this.width - 60) / (inSteps ? 34 : 74));
    const distance = Math.max(tickDistance(this.until, room), inSteps ? 1 : 0);
    for (let tick = 0; tick <= this.until * 1.0001; tick += distance) {
      const x = this.x(tick);
      group.append(drawn("line", { x1: x, x2: x, y1: y, y2: y + 4 }),
        drawn("text", { x: Math.min(x, this.width - edge), y: y + 17, "text-anchor": "middle" }, inSteps ? `${tick}` : momentText(tick, this.clock)));
    }
    return group;
  }

  messages() {
    const group = drawn("g", { class: "messages" });
    this.lines = this.course.messages.map((message) => {
      const curve = { start: { x: this.x(message.begin), y: this.y(message.from) }, end: { x: this.x(message.end), y: this.y(message.to) } };
      const control = { x: (curve.start.x + curve.end.x) / 2, y: (curve.start.y + curve.end.y) / 2 };
      const line = drawn("g", { class: this.course.run?.links.has(`${message.from}>${message.to}`) ? "message named" : "message" });
      if (this.course.run) line.append(drawn("title", {}, this.told(message)));
      line.append(drawn("path", { d: `M${curve.start.x.toFixed(1)} ${curve.start.y}L${curve.end.x.toFixed(1)} ${curve.end.y}`, class: "line" }),
        drawn("path", { d: arrowHead({ control, end: curve.end }, 6), class: "head" }));
      group.append(line);
      return line;
    });
    return group;
  }

  told(message) {
    const should = this.course.run.predicted[message.index];
    const text = ({ begin, end }) => `${microsecondsText(begin)} to ${microsecondsText(end)}`;
    return `${messageText(message)}: ${text(message)}${should ? `, predicted ${text(should)}` : ""}`;
  }

  update(moment) {
    const x = this.x(moment);
    this.cursor.setAttribute("x1", x);
    this.cursor.setAttribute("x2", x);
    this.course.messages.forEach((message, i) => this.lines[i].classList.toggle("ahead", message.begin >= moment));
  }

  highlight(wanted) {
    this.course.messages.forEach((message, i) => this.lines[i].classList.toggle("pointed", wanted !== null && wanted(message)));
    this.host.classList.toggle("pointing", wanted !== null);
  }
}
