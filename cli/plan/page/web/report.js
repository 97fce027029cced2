// Which ranks were slow in a call that ran, in words and figures.

// Three decimals: nanoseconds, as in the trace.
function exactMicroseconds(picoseconds) {
  return (picoseconds / 1e6).toFixed(3);
}

function tableRow([head, ...cells]) {
  const row = element("tr");
  row.append(element("th", { scope: "row" }, head), ...cells.map((text) => element("td", {}, text)));
  return row;
}

class Report {
  constructor(host) {
    this.host = host;
    this.part = (name) => host.querySelector(`.${name}`);
    this.figures = this.part("figures");
    this.figures.addEventListener("toggle", () => this.fillFigures());
  }

  show(run, call, course) {
    Object.assign(this, { run, call, course });
    const other = run.found > run.calls.length ? ` ${run.calls.length} of ${run.found} calls of this plan are on this page.` : "";
    const predicted = call.predicted > 0 ? `, predicted ${microsecondsText(call.predicted * PICOSECONDS)}` : "";
    this.part("which").textContent = `${call.name} of ${run.file}: ${run.name} over ${plural(run.ranks, "rank")}, ` +
      `${sizeText(call.bytes)}. Measured ${microsecondsText(call.end * PICOSECONDS)}${predicted}.${other}`;
    this.part("verdict").replaceChildren(...call.verdict.map(({ text }) => element("li", {}, text)));
    const rows = call.members.map((member, place) => this.blameRow(member, place));
    this.part("blame").replaceChildren(...rows);
    this.fillFigures();
  }

  blameRow(member, place) {
    const name = member === place ? `${place}` : `${place} (rank ${member} of the job)`;
    const named = this.course.run.ranks.has(place);
    const row = tableRow([named ? `▸ ${name}` : name, ...this.call.blame[place].map((time) => microsecondsText(time * PICOSECONDS))]);
    row.dataset.rank = place;
    row.classList.toggle("named", named);
    return row;
  }

  // Hundreds of rows, which are made only when they are opened.
  fillFigures() {
    const body = this.figures.querySelector("tbody");
    body.replaceChildren();
    if (!this.figures.open || !this.course) return;
    const { predicted } = this.course.run;
    const measured = this.run.times(this.call, 0);
    body.append(...this.course.messages.map((message) => {
      const times = measured[message.index];
      const should = predicted[message.index];
      return tableRow([messageText(message), exactMicroseconds(times.begin), exactMicroseconds(times.end),
        ...(should ? [exactMicroseconds(should.begin), exactMicroseconds(should.end)] : ["-", "-"])]);
    }));
  }
}
