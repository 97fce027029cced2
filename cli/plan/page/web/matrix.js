// The table of contents: a row per rank, a column per block, and in each cell a stripe per contributing rank. Every
// cell says the same in words, for screen readers.

class Matrix {
  // `point` is called with {rank, group}, with {rank}, or with null if nothing is pointed at.
  constructor(host, point) {
    this.host = host;
    this.point = point;
    this.table = element("table", { class: "matrix" });
    host.replaceChildren(this.table);
    const pointed = (event) => this.placeOf(event.target);
    this.table.addEventListener("mouseover", (event) => this.point(pointed(event)));
    this.table.addEventListener("mouseleave", () => this.point(null));
    this.table.addEventListener("focusin", (event) => this.point(pointed(event)));
    this.table.addEventListener("focusout", () => this.point(null));
    this.table.addEventListener("keydown", (event) => this.walk(event));
  }

  placeOf(target) {
    const cell = target.closest("[data-rank]");
    if (!cell) return null;
    const rank = Number(cell.dataset.rank);
    return "group" in cell.dataset ? { rank, group: Number(cell.dataset.group) } : { rank };
  }

  show(course, title) {
    this.course = course;
    const { schedule, groups, frames } = course;
    const sets = frames.flatMap((frame) => frame.held.flat());
    this.whole = schedule.ranks > 1 && sets.every((held) => countBits(held.all) <= 1);
    this.full = 2 ** schedule.ranks - 1;
    this.backgrounds = new Map();
    this.cells = [];
    this.shown = [];
    const barrier = !schedule.traits.has_input;
    const head = element("tr");
    head.append(element("th", { scope: "col", class: "corner" }, "rank"));
    for (const group of groups)
      head.append(element("th", { scope: "col" }, barrier ? "knows of" : groupText(group)));
    const body = element("tbody");
    for (let rank = 0; rank < schedule.ranks; ++rank) body.append(this.row(rank));
    const top = element("thead");
    top.append(head);
    this.table.replaceChildren(element("caption", { class: "unseen" }, title), top, body);
    this.table.classList.toggle("dense", groups.length > 8);
  }

  row(rank) {
    const row = element("tr");
    row.append(element("th", { scope: "row", "data-rank": rank }, `${rank}`));
    this.cells.push([]);
    this.shown.push([]);
    this.course.groups.forEach((group, column) => {
      const first = rank === 0 && column === 0;
      const cell = element("td", { "data-rank": rank, "data-group": column, tabindex: first ? 0 : -1 });
      cell.append(element("span", { class: "unseen" }));
      this.cells[rank].push(cell);
      this.shown[rank].push("");
      row.append(cell);
    });
    return row;
  }

  update(frame) {
    const { frames, groups } = this.course;
    const before = frame > 0 ? frames[frame - 1].held : frames[0].held;
    frames[frame].held.forEach((row, rank) => groups.forEach((group, column) => {
      const held = row[group.first];
      const old = before[rank][group.first];
      const isNew = held.all !== old.all || held.largest !== old.largest;
      const key = `${held.all}/${held.largest}/${isNew}`;
      if (this.shown[rank][column] === key) return;
      this.shown[rank][column] = key;
      const cell = this.cells[rank][column];
      cell.style.background = this.background(held);
      cell.classList.toggle("new", isNew);
      cell.firstChild.textContent = heldText(held);
    }));
  }

  background(held) {
    const key = `${held.all}/${held.largest}`;
    if (!this.backgrounds.has(key)) this.backgrounds.set(key, this.stripes(held));
    return this.backgrounds.get(key);
  }

  stripes(held) {
    if (held.all === 0) return "";
    if (this.whole) return "var(--whole)";
    if (held.largest === this.full) return "var(--whole)";
    const { ranks } = this.course.schedule;
    const stops = [];
    for (let rank = 0; rank < ranks; ++rank) {
      const colour = held.largest >> rank & 1 ? "var(--part)" : held.all >> rank & 1 ? "var(--apart)" : "transparent";
      stops.push(`${colour} ${rank / ranks * 100}% ${(rank + 1) / ranks * 100}%`);
    }
    return `linear-gradient(90deg, ${stops.join(", ")})`;
  }

  // Arrow keys move from cell to cell.
  walk(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const place = this.placeOf(event.target);
    if (!step || !place || place.group === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const next = this.cells[place.rank + step[0]]?.[place.group + step[1]];
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  highlight(place) {
    for (const row of this.table.querySelectorAll("tbody tr"))
      row.classList.toggle("pointed", place !== null && Number(row.firstChild.dataset.rank) === place.rank);
  }
}
