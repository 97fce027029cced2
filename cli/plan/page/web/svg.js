// Creates elements, and keeps labels apart.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function element(name, attributes = {}, text = "") {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  return made;
}

function drawn(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG_NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes))
    made.setAttribute(key, typeof value === "number" ? Math.round(value * 10) / 10 : value);
  if (text !== "") made.textContent = text;
  return made;
}

// Replaces the contents by an empty drawing of that size.
function freshDrawing(host, width, height, label) {
  const svg = drawn("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  host.replaceChildren(svg);
  return svg;
}

// Occupied boxes; a label goes where there is room for it, or nowhere.
class Boxes {
  constructor() {
    this.taken = [];
  }

  isFree(box) {
    return this.taken.every((other) =>
      box.right <= other.left || other.right <= box.left || box.bottom <= other.top || other.bottom <= box.top);
  }

  take(x, y, width, height) {
    const box = { left: x - width / 2, right: x + width / 2, top: y - height / 2, bottom: y + height / 2 };
    if (!this.isFree(box)) return false;
    this.taken.push(box);
    return true;
  }

  // Around the middle of a text of that size.
  takeText(x, y, text, size) {
    return this.take(x, y, text.length * size * 0.62 + 4, size * 1.25);
  }
}

// A curve from one point to another that stops short of both, bent to its right.
function bentPath(from, to, gap, bend) {
  const dx = to.x - from.x;
  const dy = to.y - from.y;
  const length = Math.hypot(dx, dy) || 1;
  const control = { x: (from.x + to.x) / 2 - dy * bend, y: (from.y + to.y) / 2 + dx * bend };
  const towards = (point, other) => {
    const distance = Math.hypot(other.x - point.x, other.y - point.y) || 1;
    const step = Math.min(gap, length / 3) / distance;
    return { x: point.x + (other.x - point.x) * step, y: point.y + (other.y - point.y) * step };
  };
  return { start: towards(from, control), control, end: towards(to, control) };
}

function pathData({ start, control, end }) {
  const r = (value) => Math.round(value * 10) / 10;
  return `M${r(start.x)} ${r(start.y)}Q${r(control.x)} ${r(control.y)} ${r(end.x)} ${r(end.y)}`;
}

function pointOn({ start, control, end }, part) {
  const rest = 1 - part;
  const mix = (a, b, c) => rest * rest * a + 2 * rest * part * b + part * part * c;
  return { x: mix(start.x, control.x, end.x), y: mix(start.y, control.y, end.y) };
}

// The head of an arrow that ends there.
function arrowHead({ control, end }, size) {
  const angle = Math.atan2(end.y - control.y, end.x - control.x);
  const corner = (turn) =>
    `${Math.round((end.x - size * Math.cos(angle + turn)) * 10) / 10} ${Math.round((end.y - size * Math.sin(angle + turn)) * 10) / 10}`;
  return `M${Math.round(end.x * 10) / 10} ${Math.round(end.y * 10) / 10}L${corner(0.42)}L${corner(-0.42)}Z`;
}
