// The cost of the algorithms by size, with logarithmic axes, their crossovers, and measured times.

const LEAST_SIZE = 3;  // powers of two
const MOST_SIZE = 30;
const CURVES_LEFT = 52;
const CURVES_RIGHT = 12;
const CURVES_TOP = 22;
const CURVES_BOTTOM = 26;

// At each size an algorithm uses the best number of slices; two depths of one algorithm stay as they are.
function timingOf(schedules) {
  const alike = schedules.length === 2 && unslicedName(schedules[0].name) === unslicedName(schedules[1].name);
  return alike ? (schedule, model) => ({ time: timeOf(schedule, model), pipeline: schedule.pipeline }) : bestOf;
}

// Sizes at which the faster algorithm changes, as powers of two, each between two sizes that differ.
function crossoversOf(one, two, timeAt) {
  const found = [];
  const sign = (power) => Math.sign(timeAt(one, power) - timeAt(two, power));
  let last = { power: LEAST_SIZE, sign: sign(LEAST_SIZE) };
  for (let power = LEAST_SIZE + 1; power <= MOST_SIZE; ++power) {
    const now = sign(power);
    if (now === 0) continue;
    if (last.sign !== 0 && now !== last.sign) {
      let [low, high] = [last.power, power];
      while (high - low > 0.005) {
        const middle = (low + high) / 2;
        if (sign(middle) === now) high = middle;
        else low = middle;
      }
      found.push({ power: high, before: last.sign < 0 ? one : two, after: now < 0 ? one : two });
    }
    last = { power, sign: now };
  }
  return found;
}

// "ring" has its own measurements; those of ring*4 are used only if there are none and ring alone is shown.
function pointsOf(points, schedule) {
  const here = points.filter((point) => point.collective === schedule.collective && point.ranks === schedule.ranks);
  const exact = here.filter((point) => point.algorithm === schedule.name);
  return exact.length > 0 ? exact : here.filter((point) => plainName(point.algorithm) === plainName(schedule.name));
}

class Curves {
  constructor(host, points) {
    this.host = host;
    this.points = points;
  }

  // `schedules` are one or two; returns the crossovers.
  show(schedules, model) {
    this.width = Math.max(280, this.host.clientWidth);
    this.height = this.width < 500 ? 260 : 320;
    this.model = model;
    const known = new Map(schedules.map((schedule) => [schedule, new Map()]));
    const timing = timingOf(schedules);
    const timeAt = (schedule, power) => {
      const times = known.get(schedule);
      if (!times.has(power)) times.set(power, timing(schedule, { ...model, bytes: 2 ** power }).time);
      return times.get(power);
    };
    this.measured = schedules.map((schedule) => pointsOf(this.points, schedule));
    this.scale(schedules, timeAt);
    const svg = freshDrawing(this.host, this.width, this.height, "What each algorithm costs by size of the vector");
    this.boxes = new Boxes();
    const crossovers = schedules.length === 2 ? crossoversOf(...schedules, timeAt) : [];
    svg.append(this.grid(), this.marks(crossovers), this.now(schedules, timeAt));
    schedules.forEach((schedule, side) => svg.append(this.curve(schedule, side, timeAt)));
    this.measured.forEach((points, side) => svg.append(this.dots(points, side)));
    return crossovers;
  }

  // Whole powers of ten that contain all values.
  scale(schedules, timeAt) {
    const times = schedules.flatMap((schedule) => [timeAt(schedule, LEAST_SIZE), timeAt(schedule, MOST_SIZE)]);
    for (const points of this.measured) for (const point of points) times.push(point.microseconds * 1e6);
    const some = times.filter((time) => time > 0);
    this.low = some.length > 0 ? Math.floor(Math.log10(Math.min(...some))) : 6;
    this.high = some.length > 0 ? Math.ceil(Math.log10(Math.max(...some))) : 7;
    if (this.high === this.low) ++this.high;
  }

  x(power) {
    const part = (power - LEAST_SIZE) / (MOST_SIZE - LEAST_SIZE);
    return CURVES_LEFT + part * (this.width - CURVES_LEFT - CURVES_RIGHT);
  }

  y(time) {
    const part = (Math.log10(Math.max(time, 1)) - this.low) / (this.high - this.low);
    return this.height - CURVES_BOTTOM - part * (this.height - CURVES_TOP - CURVES_BOTTOM);
  }

  grid() {
    const group = drawn("g", { class: "axis" });
    const bottom = this.height - CURVES_BOTTOM;
    for (let power = this.low; power <= this.high; ++power) {
      const y = this.y(10 ** power);
      group.append(drawn("line", { x1: CURVES_LEFT, x2: this.width - CURVES_RIGHT, y1: y, y2: y }),
        drawn("text", { x: CURVES_LEFT - 6, y: y + 4, "text-anchor": "end" }, timeText(10 ** power)));
    }
    const every = this.width < 500 ? 9 : 3;
    for (let power = LEAST_SIZE; power <= MOST_SIZE; power += every) {
      const x = this.x(power);
      group.append(drawn("line", { x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
        drawn("text", { x: Math.min(x, this.width - 20), y: bottom + 18, "text-anchor": "middle" }, sizeText(2 ** power)));
    }
    return group;
  }

  marks(crossovers) {
    const group = drawn("g", { class: "crossover" });
    for (const { power } of crossovers) {
      const x = this.x(power);
      const text = sizeText(2 ** power);
      group.append(drawn("line", { x1: x, x2: x, y1: CURVES_TOP, y2: this.height - CURVES_BOTTOM }));
      const middle = Math.min(Math.max(x, CURVES_LEFT + 30), this.width - CURVES_RIGHT - 32);
      if (this.boxes.takeText(middle, 10, text, 12))
        group.append(drawn("text", { x: middle, y: 14, "text-anchor": "middle" }, text));
    }
    return group;
  }

  // Marks the position of the size slider.
  now(schedules, timeAt) {
    const group = drawn("g", { class: "now" });
    const power = Math.log2(this.model.bytes);
    const x = this.x(Math.min(Math.max(power, LEAST_SIZE), MOST_SIZE));
    group.append(drawn("line", { x1: x, x2: x, y1: CURVES_TOP, y2: this.height - CURVES_BOTTOM }));
    schedules.forEach((schedule, side) =>
      group.append(drawn("circle", { cx: x, cy: this.y(timeAt(schedule, power)), r: 4, class: `side-${side}` })));
    return group;
  }

  curve(schedule, side, timeAt) {
    const at = (power) => `${this.x(power).toFixed(1)} ${this.y(timeAt(schedule, power)).toFixed(1)}`;
    const places = [];
    for (let power = LEAST_SIZE; power <= MOST_SIZE; ++power) places.push(at(power));
    return drawn("path", { d: `M${places.join("L")}`, class: `curve side-${side}` });
  }

  // Circles for one algorithm, squares for the other.
  dots(points, side) {
    const group = drawn("g", { class: `measured side-${side}` });
    for (const { bytes, microseconds } of points) {
      const x = this.x(Math.log2(Math.max(bytes, 1)));
      const y = this.y(microseconds * 1e6);
      if (x < CURVES_LEFT || x > this.width) continue;
      const dot = side === 0 ? drawn("circle", { cx: x, cy: y, r: 3.5 })
        : drawn("rect", { x: x - 3, y: y - 3, width: 6, height: 6 });
      dot.append(drawn("title", {}, `measured: ${sizeText(bytes)}, ${timeText(microseconds * 1e6)}`));
      group.append(dot);
    }
    return group;
  }
}

function nameOnCurve(schedule, schedules) {
  return timingOf(schedules) === bestOf && schedule.depths.length > 0 ? unslicedName(schedule.name) : schedule.name;
}

// The same as a sentence.
function crossoverText(schedules, crossovers, model) {
  if (schedules.length < 2) return "";
  if (crossovers.length === 0) {
    const small = { ...model, bytes: 2 ** LEAST_SIZE };
    const large = { ...model, bytes: 2 ** MOST_SIZE };
    const timing = timingOf(schedules);
    const both = (schedule) => timing(schedule, small).time + timing(schedule, large).time;
    const [one, two] = schedules;
    if (both(one) === both(two)) return "Both take the same time at every size.";
    return `${nameOnCurve(both(one) < both(two) ? one : two, schedules)} is nowhere slower.`;
  }
  const parts = crossovers.map(({ power, before }) => `up to ${sizeText(2 ** power)} ${nameOnCurve(before, schedules)}`);
  return `Faster: ${parts.join(", ")}; above that ${nameOnCurve(crossovers.at(-1).after, schedules)}.`;
}
