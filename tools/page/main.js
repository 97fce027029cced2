// The page: what the controls do, and the clock that runs.

const STEP_SECONDS = 1.1;      // of a step when it plays
const MOST_SECONDS = 24;       // of all steps together
const TIME_SECONDS = 14;       // of the whole course, under the clock of the model
const STILL_SECONDS = 1.4;     // of a step where motion is unwanted
const SLIDER_PARTS = 2000;     // of a time
const LINK_MILLISECONDS = 150; // of rest before the address changes

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const state = new State(data, readCatalogue(data));
const panels = [...document.querySelectorAll(".panel")].map((host, side) => new Panel(host, side));
const curves = new Curves(byId("curves"), data.points);
const stillness = window.matchMedia("(prefers-reduced-motion: reduce)");
let courses = [];
let until = 1;
let playing = null;  // where the clock was when, while it runs

// ---- Showing

function fillChoices() {
  const names = [...new Set(state.catalogue.map((entry) => entry.collective))];
  const fill = (select, values, value) => {
    select.replaceChildren(...values.map(([key, text]) => element("option", { value: key }, text)));
    select.value = value;
  };
  const algorithms = state.entries().map(({ name }) => [name, name]);
  const chosen = state.chosen().map(({ name }) => name);
  fill(byId("collective"), names.map((name) => [name, name]), state.collective);
  fill(byId("first"), algorithms, chosen[0]);
  fill(byId("second"), [["", "nothing"], ...algorithms.filter(([name]) => name !== chosen[0])], chosen[1] ?? "");
  byId("ranks").value = state.ranks;
  byId("ranks-now").textContent = state.ranks;
  byId("clock-steps").checked = state.inSteps;
  byId("clock-time").checked = !state.inSteps;
}

// All that depends on which plans are shown, under which clock.
function showPlans() {
  const schedules = state.schedules();
  const { collective, ranks } = state;
  fillChoices();
  document.title = `${collective}: ${schedules.map(({ name }) => name).join(" beside ")}, ${ranks} ranks`;
  byId("title").textContent = `${collective} over ${ranks} ranks`;
  byId("purpose").textContent = purposeOf(collective, schedules[0].root);
  document.body.classList.toggle("alone", schedules.length === 1);
  courses = schedules.map((schedule) => runCourse(schedule, state.inSteps ? STEPS : costOf(schedule, state.model)));
  until = Math.max(1, ...courses.map(({ end }) => end));
  state.moment = Math.min(state.moment, until);
  byId("moment").max = state.inSteps ? until : SLIDER_PARTS;
  panels[1].host.hidden = courses.length === 1;
  shownPanels().forEach((panel) => panel.measure());
  courses.forEach((course, side) => {
    panels[side].show(course, state.chosen()[side].idea, until, state.inSteps);
    panels[side].facts.textContent = factsOf(course.schedule);
  });
  showLegend();
  showMoment();
}

function shownPanels() {
  return panels.slice(0, courses.length);
}

function factsOf(schedule) {
  const course = state.inSteps ? courses.find((one) => one.schedule === schedule) : new Clock(schedule, STEPS).run();
  const sent = schedule.plans.map((plan) =>
    plan.steps.reduce((sum, step) => sum + (step.verb === SEND ? step.left.count : 0), 0));
  const share = schedule.collective === "barrier" ? ""
    : `, busiest rank sends ${digits(Math.max(...sent) / schedule.blocks)} S`;
  return `${plural(course.end, "step")}${share}, ${timeText(timeOf(schedule, state.model))}`;
}

function showLegend() {
  const apart = courses.some((course) => course.changes.some(({ held }) => held.all !== held.largest));
  byId("legend-apart").hidden = !apart;
}

function showMoment() {
  const { moment, inSteps } = state;
  courses.forEach((course, side) => panels[side].update(moment));
  byId("moment").value = inSteps ? Math.floor(moment) : Math.round(moment / until * SLIDER_PARTS);
  const text = inSteps ? `${Math.floor(moment)} of ${plural(until, "step")}` : `${timeText(moment)} of ${timeText(until)}`;
  byId("moment-now").textContent = text;
  byId("moment").setAttribute("aria-valuetext", text);
  if (playing) return;
  byId("spoken").textContent = courses.map((course, side) => `${course.schedule.name}: ${panels[side].sentence.textContent}`).join(" ");
  writeLink();
}

// Browsers allow the address to change some times a second, no more.
let linkLater = 0;
function writeLink() {
  clearTimeout(linkLater);
  linkLater = setTimeout(() => {
    if (location.hash !== state.link()) history.replaceState(null, "", state.link());
  }, LINK_MILLISECONDS);
}

function showCosts() {
  const schedules = state.schedules();
  const { model } = state;
  const crossovers = curves.show(schedules, model);
  byId("bytes").value = Math.log2(model.bytes);
  byId("latency").value = Math.log10(model.latency);
  byId("bandwidth").value = Math.log10(model.gigabytesPerSecond);
  byId("bytes-now").textContent = sizeText(model.bytes);
  byId("latency-now").textContent = timeText(model.latency * 1e6);
  byId("bandwidth-now").textContent = `${digits(model.gigabytesPerSecond)} GB/s`;
  byId("crossovers").textContent = crossoverText(schedules, crossovers, model);
  byId("costs").replaceChildren(...schedules.map((schedule, side) => {
    const item = element("li", { class: `side-${side}` });
    item.append(element("span", { class: "sample" }), ` ${schedule.name}: ${timeText(timeOf(schedule, model))}`);
    return item;
  }));
  const shown = curves.measured.reduce((sum, points) => sum + points.length, 0);
  byId("measured").textContent = data.points.length === 0 ? ""
    : `Measured: ${shown} of ${plural(data.points.length, "point")}; the others are of other algorithms or rank counts.`;
}

// Curves take the plans through dozens of runs: once per picture, however often a slider says that it moved.
let costsLater = 0;
function showCostsSoon() {
  cancelAnimationFrame(costsLater);
  costsLater = requestAnimationFrame(showCosts);
}

function showAll() {
  showPlans();
  showCostsSoon();
}

// ---- The clock

function pause() {
  playing = null;
  byId("play").textContent = "Play";
  showMoment();
}

function play() {
  if (state.moment >= until) state.moment = 0;
  playing = { since: performance.now(), from: state.moment };
  byId("play").textContent = "Pause";
  requestAnimationFrame(tick);
}

function momentsPerSecond() {
  if (!state.inSteps) return until / TIME_SECONDS;
  return Math.max(1 / STEP_SECONDS, until / MOST_SECONDS);
}

function tick(now) {
  if (!playing) return;
  const seconds = Math.max(0, now - playing.since) / 1000;
  if (stillness.matches) {
    const moments = momentsOf();
    const passed = moments.filter((moment) => moment > playing.from).slice(0, Math.floor(seconds / STILL_SECONDS));
    state.moment = passed.at(-1) ?? playing.from;
  } else {
    state.moment = Math.min(until, playing.from + seconds * momentsPerSecond());
  }
  if (state.moment >= until) return pause();
  showMoment();
  requestAnimationFrame(tick);
}

// The moments at which something changes, of both.
function momentsOf() {
  return [...new Set(courses.flatMap((course) => course.frames.map(({ at }) => at)))].sort((a, b) => a - b);
}

function goTo(moment) {
  playing = null;
  byId("play").textContent = "Play";
  state.moment = Math.min(Math.max(moment, 0), until);
  showMoment();
}

function goBy(direction) {
  const moments = momentsOf();
  if (direction > 0) goTo(moments.find((moment) => moment > state.moment) ?? until);
  else goTo(moments.findLast((moment) => moment < state.moment) ?? 0);
}

// ---- What the controls do

function onChoice(id, change) {
  byId(id).addEventListener("input", (event) => {
    playing = null;
    byId("play").textContent = "Play";
    change(event.target.value);
    showAll();
  });
}

onChoice("collective", (value) => { state.setCollective(value); state.moment = 0; });
onChoice("first", (value) => { state.names[0] = value; state.moment = 0; });
onChoice("second", (value) => { state.names[1] = value; state.moment = 0; });
onChoice("ranks", (value) => { state.ranks = Number(value); state.moment = 0; });
onChoice("clock-steps", () => { state.inSteps = true; state.moment = 0; });
onChoice("clock-time", () => { state.inSteps = false; state.moment = 0; });
byId("swap").addEventListener("click", () => {
  const names = state.chosen().map(({ name }) => name);
  if (names.length < 2) return;
  state.names = [names[1], names[0]];
  showAll();
});

// A change of the model changes the plans' times, but not what they do.
function onModel(id, key, valueOf) {
  byId(id).addEventListener("input", (event) => {
    const part = state.moment / until;
    state.model[key] = valueOf(Number(event.target.value));
    if (!state.inSteps) {
      playing = null;
      byId("play").textContent = "Play";
      showPlans();
      state.moment = part * until;
    }
    courses.forEach((course, side) => { panels[side].facts.textContent = factsOf(course.schedule); });
    showCostsSoon();
    showMoment();
  });
}

onModel("bytes", "bytes", (value) => Math.round(2 ** value));
onModel("latency", "latency", (value) => Number((10 ** value).toPrecision(3)));
onModel("bandwidth", "gigabytesPerSecond", (value) => Number((10 ** value).toPrecision(3)));

byId("play").addEventListener("click", () => (playing ? pause() : play()));
byId("back").addEventListener("click", () => goBy(-1));
byId("forward").addEventListener("click", () => goBy(1));
byId("moment").addEventListener("input", (event) => {
  const value = Number(event.target.value);
  goTo(state.inSteps ? value : value / SLIDER_PARTS * until);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("select, input, button[id], a")) return;
  const does = { " ": () => (playing ? pause() : play()), ArrowRight: () => goBy(1), ArrowLeft: () => goBy(-1),
    Home: () => goTo(0), End: () => goTo(until) }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});

window.addEventListener("hashchange", (event) => {
  playing = null;
  byId("play").textContent = "Play";
  state.follow(new URL(event.newURL).hash);  // what this page wrote since then does not count
  showAll();
});

let width = 0;
new ResizeObserver(() => {
  if (document.body.clientWidth === width) return;
  width = document.body.clientWidth;
  shownPanels().forEach((panel) => panel.measure());
  shownPanels().forEach((panel) => panel.resize());
  showCostsSoon();
  showMoment();
}).observe(document.body);

state.follow(location.hash);
showAll();
