// What is shown, and how a link says it: #collective=all_reduce&algorithms=ring,tree&ranks=8&step=3. With `time`, in
// microseconds, in place of `step` the clock is that of the model.

class State {
  constructor(data, catalogue) {
    this.data = data;
    this.catalogue = catalogue;
    const { start } = data;
    this.collective = start.collective;
    this.names = [start.algorithms[0], start.algorithms[1] ?? ""];
    this.ranks = start.ranks;
    this.inSteps = true;
    this.moment = start.step;
    this.model = { bytes: start.bytes, latency: start.latency_us, gigabytesPerSecond: start.gigabytes_per_s };
    this.initial = { ...this.model };
  }

  entries() {
    return this.catalogue.filter((entry) => entry.collective === this.collective);
  }

  // Also by the name without parameters: "tree" for "tree:2".
  find(name) {
    const entries = this.entries();
    return entries.find((entry) => entry.name === name) ?? entries.find((entry) => plainName(entry.name) === name);
  }

  // One or two; the first one is always there.
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
    const parts = [["collective", this.collective], ["algorithms", this.chosen().map((entry) => entry.name).join(",")],
      ["ranks", this.ranks],
      this.inSteps ? ["step", Math.floor(this.moment)] : ["time", Number((this.moment / 1e6).toPrecision(12))]];
    for (const key of ["bytes", "latency", "gigabytesPerSecond"])
      if (this.model[key] !== this.initial[key]) parts.push([key, Number(this.model[key].toPrecision(4))]);
    return `#${parts.map(([key, value]) => `${key}=${value}`).join("&")}`;
  }

  // What the link does not say, or says wrongly, stays as it is.
  follow(link) {
    const said = new URLSearchParams(link.replace(/^#/, ""));
    const number = (key, low, high) => {
      const value = said.has(key) ? Number(said.get(key)) : NaN;
      return value >= low && value <= high ? value : null;
    };
    const collective = said.get("collective");
    if (this.catalogue.some((entry) => entry.collective === collective)) this.setCollective(collective);
    const names = said.get("algorithms")?.split(",") ?? [];
    const known = names.filter((name) => this.find(name));
    if (known.length > 0) this.names = [known[0], known[1] ?? ""];
    this.ranks = Math.floor(number("ranks", this.data.fewest_ranks, this.data.most_ranks) ?? this.ranks);
    for (const key of ["bytes", "latency", "gigabytesPerSecond"]) this.model[key] = number(key, 0.001, 2 ** 40) ?? this.model[key];
    const time = number("time", 0, 1e12);
    const step = number("step", 0, 1e6);
    if (time === null && step === null) return;
    this.inSteps = time === null;
    this.moment = this.inSteps ? Math.floor(step) : time * 1e6;
  }
}
