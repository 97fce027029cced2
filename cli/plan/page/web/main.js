// The page: its controls, and the running clock.

const STEP_SECONDS = 1.1;      // per step, when it plays
const MOST_SECONDS = 24;       // of all steps together
const TIME_SECONDS = 14;       // for the whole course, under the clock of the model
const STILL_SECONDS = 1.4;     // per step, if reduced motion is set
const SLIDER_PARTS = 2000;     // of a time
const LINK_MILLISECONDS = 150; // of rest before the address changes

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const run = data.run ? new Run(data.run, data.collectives) : null;
const state = new State(data, readCatalogue(data), run);
const report = new Report(byId("report"));
const panels = [...document.querySelectorAll(".panel")].map((host, side) => new Panel(host, side));
const curves = new Curves(byId("curves"), data.points);
const stillness = window.matchMedia("(prefers-reduced-motion: reduce)");
let courses = [];
let until = 1;
let playing = null;  // while it runs: where the clock was at which time

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
  for (const clock of ["steps", "time", "run"]) byId(`clock-${clock}`).checked = state.clock === clock;
  byId("clock-run-choice").hidden = byId("call-choice").hidden = !run;
  if (run) fill(byId("call"), run.calls.map((call) => [call.id, `${call.name}: ${microsecondsText(call.end * PICOSECONDS)}`]), state.callId);
}

// The contents of the panels: two plans, or a run beside its prediction.
function sidesOf(schedules) {
  if (state.clock !== "run")
    return schedules.map((schedule, side) => ({
      course: runCourse(schedule, state.inSteps ? STEPS : costOf(schedule, state.model)),
      title: schedule.name, idea: state.chosen()[side].idea,
    }));
  const call = state.call();
  const sides = [{ course: run.measured(call), title: `${run.name}, as it ran`, idea: `${call.name}, on the clock of its ranks.` }];
  if (call.predicted > 0) sides.push({ course: run.predicted(call), title: `${run.name}, as predicted`,
    idea: "Every message takes what such messages of the trace usually took, and nobody is late." });
  return sides;
}

// Updates all that depends on the shown plans and the clock.
function showPlans() {
  const inRun = state.clock === "run";
  const schedules = inRun ? [run.schedule] : state.schedules();
  const { collective, ranks } = state;
  fillChoices();
  document.title = `${collective}: ${schedules.map(({ name }) => name).join(" beside ")}, ${ranks} ranks`;
  byId("title").textContent = inRun ? `${state.call().name} over ${ranks} ranks, as it ran` : `${collective} over ${ranks} ranks`;
  byId("purpose").textContent = purposeOf(schedules[0].traits, schedules[0].root);
  const sides = sidesOf(schedules);
  document.body.classList.toggle("alone", sides.length === 1);
  courses = sides.map(({ course }) => course);
  until = Math.max(1, ...courses.map(({ end }) => end));
  state.moment = Math.min(state.moment, until);
  showRun();
  byId("moment").max = state.inSteps ? until : SLIDER_PARTS;
  panels[1].host.hidden = courses.length === 1;
  shownPanels().forEach((panel) => panel.measure());
  sides.forEach((side, i) => panels[i].show(side, until, state.clock));
  showFacts();
  showLegend();
  showMoment();
}

function shownPanels() {
  return panels.slice(0, courses.length);
}

// Hides controls that do not apply: to a run, those about plans; to plans, those about a run.
function showRun() {
  const inRun = state.clock === "run";
  byId("report").hidden = !inRun;
  document.querySelector(".cost").hidden = inRun;
  for (const item of document.querySelectorAll(".of-run")) item.hidden = !inRun;
  if (inRun) report.show(run, state.call(), courses[0]);
}

function showFacts() {
  courses.forEach((course, side) => {
    panels[side].facts.textContent = state.clock === "run"
      ? `${plural(course.messages.length, "message")}, ${microsecondsText(course.end)}` : factsOf(course.schedule);
  });
}

function factsOf(schedule) {
  const course = state.inSteps ? courses.find((one) => one.schedule === schedule) : new Clock(schedule, STEPS).run();
  const sent = schedule.plans.map((plan) =>
    plan.steps.reduce((sum, step) => sum + (step.verb === SEND ? step.left.count : 0), 0));
  const share = schedule.traits.has_input
    ? `, busiest rank sends ${digits(Math.max(...sent) / schedule.blocks)} S` : "";
  const time = timeOf(schedule, state.model);
  const best = bestOf(schedule, state.model);
  const better = best.time < time ? `; ${timeText(best.time)} with ${plural(best.pipeline, "slice")}` : "";
  return `${plural(course.end, "step")}${share}, ${timeText(time)}${better}`;
}

function showLegend() {
  const apart = courses.some((course) => course.changes.some(({ held }) => held.all !== held.largest));
  byId("legend-apart").hidden = !apart;
}

function showMoment() {
  const { moment, inSteps } = state;
  courses.forEach((course, side) => panels[side].update(moment));
  byId("moment").value = inSteps ? Math.floor(moment) : Math.round(moment / until * SLIDER_PARTS);
  const text = inSteps ? `${Math.floor(moment)} of ${plural(until, "step")}`
    : `${lengthText(moment, state.clock)} of ${lengthText(until, state.clock)}`;
  byId("moment-now").textContent = text;
  byId("moment").setAttribute("aria-valuetext", text);
  if (playing) return;
  byId("spoken").textContent = shownPanels().map((panel) => `${panel.title.textContent}: ${panel.sentence.textContent}`).join(" ");
  writeLink();
}

// Browsers limit how often per second the address may change.
let linkLater = 0;
function writeLink() {
  clearTimeout(linkLater);
  linkLater = setTimeout(() => {
    if (location.hash !== state.link()) history.replaceState(null, "", state.link());
  }, LINK_MILLISECONDS);
}

function showCosts() {
  if (state.clock === "run") return;
  const schedules = state.schedules();
  const { model } = state;
  const crossovers = curves.show(schedules, model);
  const timing = timingOf(schedules);
  byId("bytes").value = Math.log2(model.bytes);
  byId("latency").value = Math.log10(model.latency);
  byId("bandwidth").value = Math.log10(model.gigabytesPerSecond);
  byId("bytes-now").textContent = sizeText(model.bytes);
  byId("latency-now").textContent = timeText(model.latency * 1e6);
  byId("bandwidth-now").textContent = `${digits(model.gigabytesPerSecond)} GB/s`;
  byId("crossovers").textContent = crossoverText(schedules, crossovers, model);
  byId("costs").replaceChildren(...schedules.map((schedule, side) => {
    const item = element("li", { class: `side-${side}` });
    const { time, pipeline } = timing(schedule, model);
    item.append(element("span", { class: "sample" }), ` ${slicedName(schedule.name, pipeline)}: ${timeText(time)}`);
    return item;
  }));
  const shown = curves.measured.reduce((sum, points) => sum + points.length, 0);
  byId("measured").textContent = data.points.length === 0 ? ""
    : `Measured: ${shown} of ${plural(data.points.length, "point")}; the others are of another collective, other algorithms or rank counts.`;
}

// Drawing curves runs the plans dozens of times, so it is done once per frame, however often a slider moves.
let costsLater = 0;
function showCostsSoon() {
  cancelAnimationFrame(costsLater);
  costsLater = requestAnimationFrame(showCosts);
}

function showAll() {
  showPlans();
  showCostsSoon();
}

// Reports what a link asks for and the page does not have.
function follow(link) {
  const wrong = state.follow(link);
  const asked = state.moment;
  showAll();
  if (asked > until) wrong.push(state.inSteps ? `step=${asked} (the last one is ${until})`
    : `time=${digits(asked / 1e6)} (it ends at ${lengthText(until, state.clock)})`);
  byId("note").hidden = wrong.length === 0;
  byId("note").textContent = wrong.length === 0 ? "" : `The link asks for what is not here: ${wrong.join(", ")}.`;
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

// The moments at which something changes in either panel; for a run, the measured ones.
function momentsOf() {
  const stepped = state.clock === "run" ? courses.slice(0, 1) : courses;
  return [...new Set(stepped.flatMap((course) => course.frames.map(({ at }) => at)))].sort((a, b) => a - b);
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

// ---- Controls

function onChoice(id, change) {
  byId(id).addEventListener("input", (event) => {
    playing = null;
    byId("note").hidden = true;
    byId("play").textContent = "Play";
    change(event.target.value);
    showAll();
  });
}

onChoice("collective", (value) => state.choosePlans(() => state.setCollective(value)));
onChoice("first", (value) => state.choosePlans(() => { state.names[0] = value; }));
onChoice("second", (value) => state.choosePlans(() => { state.names[1] = value; }));
onChoice("ranks", (value) => state.choosePlans(() => { state.ranks = Number(value); }));
onChoice("clock-steps", () => state.choosePlans(() => { state.clock = "steps"; }));
onChoice("clock-time", () => state.choosePlans(() => { state.clock = "time"; }));
onChoice("clock-run", () => state.chooseRun());
onChoice("call", (value) => { state.chooseRun(); state.callId = value; });
byId("swap").addEventListener("click", () => {
  const names = state.chosen().map(({ name }) => name);
  if (names.length < 2) return;
  state.names = [names[1], names[0]];
  showAll();
});

// A change of the model changes the plans' times, but not their contents.
function onModel(id, key, valueOf) {
  byId(id).addEventListener("input", (event) => {
    const part = state.moment / until;
    state.model[key] = valueOf(Number(event.target.value));
    if (state.clock === "time") {
      playing = null;
      byId("play").textContent = "Play";
      showPlans();
      state.moment = part * until;
    }
    showFacts();
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
  byId("note").hidden = true;
  const value = Number(event.target.value);
  goTo(state.inSteps ? value : value / SLIDER_PARTS * until);
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("select, input, a, summary")) return;
  if (event.target.matches("button") && event.key === " ") return;  // the browser presses it
  const does = { " ": () => (playing ? pause() : play()), ArrowRight: () => goBy(1), ArrowLeft: () => goBy(-1),
    Home: () => goTo(0), End: () => goTo(until) }[event.key];
  if (!does) return;
  event.preventDefault();
  does();
});

window.addEventListener("hashchange", (event) => {
  playing = null;
  byId("play").textContent = "Play";
  follow(new URL(event.newURL).hash);  // changes that this page made itself do not count
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

follow(location.hash);
