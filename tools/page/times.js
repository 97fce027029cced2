// Who waits for whom: ranks down, time to the right, a line per message. Both algorithms have one scale.

const TIMES_LEFT = 26;
const TIMES_RIGHT = 14;
const TIMES_TOP = 14;

// "Nice" distances between ticks, so that there are at most so many.
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

  // `until` is where the scale ends; it may be later than the course.
  show(course, room, until, inSteps) {
    this.course = course;
    this.until = Math.max(until, 1);
    this.width = Math.max(280, room);
    const { ranks } = course.schedule;
    this.line = ranks > 8 ? 16 : 24;
    const bottom = TIMES_TOP + (ranks - 1) * this.line + 12;
    const svg = freshDrawing(this.host, this.width, bottom + 26,
      `When messages travel: ranks down, ${inSteps ? "steps" : "time"} to the right; ${plural(course.messages.length, "message")}`);
    svg.append(this.ranks(), this.axis(bottom, inSteps), this.messages());
    this.cursor = drawn("line", { class: "cursor", y1: TIMES_TOP - 10, y2: bottom });
    svg.append(this.cursor);
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
        drawn("text", { x: 16, y: y + 4, "text-anchor": "end", "data-rank": rank }, `${rank}`));
    }
    return group;
  }

  axis(y, inSteps) {
    const group = drawn("g", { class: "axis" });
    group.append(drawn("line", { x1: TIMES_LEFT, x2: this.width - TIMES_RIGHT, y1: y, y2: y }));
    const room = Math.floor((this.width - 60) / (inSteps ? 34 : 74));
    const distance = Math.max(tickDistance(this.until, room), inSteps ? 1 : 0);
    for (let tick = 0; tick <= this.until * 1.0001; tick += distance) {
      const x = this.x(tick);
      group.append(drawn("line", { x1: x, x2: x, y1: y, y2: y + 4 }),
        drawn("text", { x: Math.min(x, this.width - 24), y: y + 17, "text-anchor": "middle" }, inSteps ? `${tick}` : timeText(tick)));
    }
    return group;
  }

  messages() {
    const group = drawn("g", { class: "messages" });
    this.lines = this.course.messages.map((message) => {
      const curve = { start: { x: this.x(message.begin), y: this.y(message.from) }, end: { x: this.x(message.end), y: this.y(message.to) } };
      const control = { x: (curve.start.x + curve.end.x) / 2, y: (curve.start.y + curve.end.y) / 2 };
      const line = drawn("g", { class: "message" });
      line.append(drawn("path", { d: `M${curve.start.x.toFixed(1)} ${curve.start.y}L${curve.end.x.toFixed(1)} ${curve.end.y}`, class: "line" }),
        drawn("path", { d: arrowHead({ control, end: curve.end }, 6), class: "head" }));
      group.append(line);
      return line;
    });
    return group;
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
