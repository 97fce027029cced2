// Names and texts.

// With the number of the root.
function purposeOf(traits, root) {
  return traits.purpose.replace(/\b([Tt])he root\b/, (_, first) => `${first === "T" ? "Rank" : "rank"} ${root}`);
}

function plural(count, what) {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

// "0-3, 7" of ascending numbers
function compress(numbers) {
  const runs = [];
  for (const number of numbers) {
    const last = runs.at(-1);
    if (last && last[1] + 1 === number) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
}

function membersOf(set) {
  const members = [];
  for (let rank = 0; set >> rank !== 0; ++rank) if (set >> rank & 1) members.push(rank);
  return members;
}

function setText(set) {
  return set === 0 ? "nothing" : compress(membersOf(set));
}

// The text of a table's cell for screen readers.
function heldText(held) {
  return setText(held.all) + (held.all === held.largest ? "" : `; together only ${setText(held.largest)}`);
}

function groupText(group) {
  return group.first === group.last ? `${group.first}` : `${group.first}-${group.last}`;
}

// Three digits, without an exponent.
function digits(value) {
  if (value === 0) return "0";
  const whole = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return `${Number(value.toFixed(Math.min(whole, 12)))}`;
}

function sizeText(bytes) {
  for (const unit of ["B", "KiB", "MiB"]) {
    if (bytes < 1024) return `${digits(bytes)} ${unit}`;
    bytes /= 1024;
  }
  return `${digits(bytes)} GiB`;
}

// Formats picoseconds.
function timeText(picoseconds) {
  let time = picoseconds / 1000;
  if (time === 0) return "0";
  for (const unit of ["ns", "µs", "ms"]) {
    if (time < 999.5) return `${digits(time)} ${unit}`;
    time /= 1000;
  }
  return `${digits(time)} s`;
}

// Formats picoseconds in microseconds, whatever their size: the clock of a run. Halves are rounded up, as in the
// terminal.
function microsecondsText(picoseconds) {
  const time = picoseconds / 1e6;
  const places = time === 0 || time >= 1000 ? 0 : time < 10 ? 3 : 1;
  const rounded = Math.round(picoseconds / 10 ** (6 - places)) / 10 ** places;
  return `${rounded.toFixed(places).replace(/\B(?=(\d{3})+$)/g, "\u202f")} µs`;
}

// The name without :RADIX, *PIPELINE and /MESSAGE.
function plainName(name) {
  return name.replace(/[:*/].*$/, "");
}

// The name without *PIPELINE and /MESSAGE.
function unslicedName(name) {
  return name.replace(/[*/].*$/, "");
}

function slicedName(name, pipeline) {
  return pipeline > 1 ? `${unslicedName(name)}*${pipeline}` : unslicedName(name);
}

function messageText(message) {
  const blocks = message.blocks && message.blocks.length > 0 ? ` [${compress(message.blocks)}]` : "";
  return `${message.from}→${message.to}${blocks}`;
}

// A moment of the clock: a step, or a time.
function momentText(moment, clock) {
  if (clock !== "steps") return lengthText(moment, clock);
  return moment === 0 ? "start" : `step ${digits(moment)}`;
}

// A duration by the clock.
function lengthText(moment, clock) {
  if (clock === "steps") return plural(moment, "step");
  return clock === "run" ? microsecondsText(moment) : timeText(moment);
}
