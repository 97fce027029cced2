// What is shown, and its form in a link: #collective=all_reduce&algorithms=ring,tree&ranks=8&step=3. With `time`, in
// microseconds, in place of `step` the clock is that of the model; with `call` that of a run: #call=5&time=12.5.

class State {
  constructor(data, catalogue, run) {
    this.data = data;
    this.run = run;
    this.catalogue = run ? withPlanOf(run, catalogue) : catalogue;
    const { start } = data;
    this.collective = start.collective;
    this.names = [start.algorithms[0], start.algorithms[1] ?? ""];
    this.ranks = start.ranks;
    this.clock = run ? "run" : "steps";
    this.callId = run?.first;
    this.moment = start.step;
    if (run) this.chooseRun();
    this.model = { bytes: start.bytes, latency: start.latency_us, gigabytesPerSecond: start.gigabytes_per_s };
    this.initial = { ...this.model };
  }

  get inSteps() {
    return this.clock === "steps";
  }

  // The plan that ran.
  chooseRun() {
    this.clock = "run";
    this.collective = this.run.collective;
    this.names = [this.run.name, ""];
    this.ranks = this.run.ranks;
    this.moment = 0;
  }

  // The shown plans can change; those of a run are fixed.
  choosePlans(change) {
    if (this.clock === "run") this.clock = "steps";
    change();
    this.moment = 0;
  }

  call() {
    return this.run.find(this.callId);
  }

  entries() {
    return this.catalogue.filter((entry) => entry.collective === this.collective && entry.schedules.has(this.ranks));
  }

  // Also matches the name without parameters: "tree" for "tree:2".
  find(name) {
    const entries = this.entries();
    return entries.find((entry) => entry.name === name) ?? entries.find((entry) => plainName(entry.name) === name);
  }

  // One or two; the first one always exists.
  chosen() {
    const first = this.find(this.names[0]) ?? this.entries()[0];
    const second = this.find(this.names[1]);
    return second && second !== first ? [first, second] : [first];
  }

  schedules() {
    return this.chosen().map((entry) => entry.schedules.get(this.ranks));
  }

  setCollective(collective) {
    this.collective = collective;
    const entries = this.entries();
    const kept = this.names.filter((name) => entries.some((entry) => entry.name === name));
    const others = entries.map((entry) => entry.name).filter((name) => !kept.includes(name));
    this.names = [...kept, ...others].slice(0, 2);
  }

  link() {
    const time = ["time", Number((this.moment / 1e6).toPrecision(12))];
    if (this.clock === "run") return `#call=${this.callId}&${time.join("=")}`;
    const parts = [["collective", this.collective], ["algorithms", this.chosen().map((entry) => entry.name).join(",")],
      ["ranks", this.ranks],
      this.inSteps ? ["step", Math.floor(this.moment)] : time];
    for (const key of ["bytes", "latency", "gigabytesPerSecond"])
      if (this.model[key] !== this.initial[key]) parts.push([key, Number(this.model[key].toPrecision(4))]);
    return `#${parts.map(([key, value]) => `${key}=${value}`).join("&")}`;
  }

  // Settings that are missing or wrong in the link stay as they are. Returns the errors.
  follow(link) {
    const said = new URLSearchParams(link.replace(/^#/, ""));
    const wrong = [];
    const number = (key, low, high) => {
      if (!said.has(key)) return null;
      const value = Number(said.get(key));
      if (said.get(key) !== "" && value >= low && value <= high) return value;
      wrong.push(`${key}=${said.get(key)}`);
      return null;
    };
    if (said.has("call") && this.run?.find(said.get("call"))) {
      this.chooseRun();
      this.callId = said.get("call");
    } else if (said.has("call")) {
      wrong.push(`call=${said.get("call")}`);
    } else if (["collective", "algorithms", "ranks", "step"].some((key) => said.has(key)) && this.clock === "run") {
      this.clock = "steps";
    }
    this.followPlans(said, number, wrong);
    const time = number("time", 0, 1e12);
    const step = number("step", 0, 1e6);
    if (time !== null || step !== null) {
      if (this.clock !== "run") this.clock = time === null ? "steps" : "time";
      this.moment = this.inSteps ? Math.floor(step) : (time ?? 0) * 1e6;
    }
    return wrong;
  }

  followPlans(said, number, wrong) {
    if (this.clock === "run") return;
    const collective = said.get("collective");
    if (this.catalogue.some((entry) => entry.collective === collective)) this.setCollective(collective);
    else if (collective !== null) wrong.push(`collective=${collective}`);
    this.ranks = Math.floor(number("ranks", this.data.fewest_ranks, this.data.most_ranks) ?? this.ranks);
    const names = said.get("algorithms")?.split(",") ?? [];
    const known = names.filter((name) => this.find(name));
    for (const name of names) if (!this.find(name)) wrong.push(`algorithms=${name}`);
    if (known.length > 0) this.names = [known[0], known[1] ?? ""];
    for (const key of ["bytes", "latency", "gigabytesPerSecond"]) this.model[key] = number(key, 0.001, 2 ** 40) ?? this.model[key];
  }
}

// A plan with other parameters than those of the catalogue exists only for the number of ranks of its run.
function withPlanOf(run, catalogue) {
  const { collective, name, idea, ranks, schedule } = run;
  if (catalogue.some((entry) => entry.collective === collective && entry.name === name)) return catalogue;
  return [...catalogue, { collective, name, idea, schedules: new Map([[ranks, schedule]]) }];
}
