// What page_test.py asks of the page, run inside it. Reads what is shown, never what the scripts of the page know.

window.tested = {
  visible: () => [...document.querySelectorAll(".panel")].filter((panel) => !panel.hidden),

  set(id, value) {
    const control = document.getElementById(id);
    control.value = value;
    control.dispatchEvent(new Event("input", { bubbles: true }));
  },

  // Until the next picture, for which all is shown.
  settled: () => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }),

  choose(controls) {
    for (const [id, value] of controls) this.set(id, value);
    return this.settled();
  },

  followed(link) {
    if (location.hash === link) return Promise.resolve();  // the page has set it by itself: no event would come
    const followed = new Promise((done) => { window.addEventListener("hashchange", done, { once: true }); });
    location.hash = link;
    return followed;
  },

  async follow(link) {
    await this.followed(link);
    return this.settled();
  },

  panels() {
    const text = (panel, name) => panel.querySelector(name).textContent;
    return this.visible().map((panel) => ({
      side: Number(panel.dataset.side), frame: Number(panel.dataset.frame), name: text(panel, ".name"),
      facts: text(panel, ".facts"), sentence: text(panel, ".sentence"), detail: text(panel, ".detail"),
    }));
  },

  table(panel) {
    return [...panel.querySelectorAll("tbody tr")].map((row) => [...row.cells].slice(1).map((cell) => cell.textContent));
  },

  // All frames of the algorithms that a link names, one step after the other.
  async course(link) {
    await this.followed(link);
    const shown = this.panels().map((panel) => ({ ...panel, tables: [], sentences: [] }));
    this.visible().forEach((panel, side) => {
      shown[side].header = [...panel.querySelectorAll("thead th")].slice(1).map((cell) => cell.textContent);
    });
    const slider = document.getElementById("moment");
    for (let step = 0; step <= Number(slider.max); ++step) {
      this.set("moment", step);
      this.visible().forEach((panel, side) => {
        shown[side].tables.push(this.table(panel));
        shown[side].sentences.push(panel.querySelector(".sentence").textContent);
      });
    }
    return shown;
  },

  point(side, rank) {
    const panel = document.querySelector(`.panel[data-side="${side}"]`);
    panel.querySelector(`tbody th[data-rank="${rank}"]`).dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
    return panel.querySelector(".detail").textContent;
  },

  // Where the cursor of the first diagram has been.
  watch() {
    const cursor = document.querySelector(".cursor");
    this.seen = [cursor.getAttribute("x1")];
    new MutationObserver(() => {
      const now = cursor.getAttribute("x1");
      if (this.seen.at(-1) !== now) this.seen.push(now);
    }).observe(cursor, { attributeFilter: ["x1"] });
  },

  // Lines of text as they are on the screen, without those that only screen readers get.
  lines() {
    const found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (!node.textContent.trim() || parent.closest(".unseen, script, noscript, select, title, [hidden]")) continue;
      if (parent.closest("details:not([open])") && !parent.matches("summary")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const frame = parent.closest(".sentence, .detail, .wide-table")?.getBoundingClientRect();
      for (const box of range.getClientRects()) {
        const bottom = frame ? Math.min(box.bottom, frame.bottom) : box.bottom;
        const right = frame ? Math.min(box.right, frame.right) : box.right;
        if (bottom - box.top > 1 && right > box.left) found.push({ text: node.textContent.trim(), left: box.left, right, top: box.top, bottom, parent });
      }
    }
    for (const control of document.querySelectorAll("select, input")) {
      const { left, right, top, bottom } = control.getBoundingClientRect();
      if (right > left) found.push({ text: control.id, left, right, top, bottom, parent: control });
    }
    return found;
  },

  // Boxes of lines have room above and below the letters, of which a bit may be shared.
  overlaps() {
    const lines = this.lines();
    const found = [];
    lines.forEach((a, i) => lines.slice(i + 1).forEach((b) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 2.5) found.push(`${a.text} / ${b.text}`);
    }));
    return found;
  },

  outside() {
    const { clientWidth } = document.documentElement;
    const wide = this.lines().filter((line) => line.left < 0 || line.right > clientWidth).map((line) => line.text);
    const drawn = [...document.querySelectorAll("svg text")].filter((text) => {
      const box = text.getBoundingClientRect();
      const frame = text.ownerSVGElement.getBoundingClientRect();
      return box.left < frame.left - 0.5 || box.right > frame.right + 0.5 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
    });
    if (document.documentElement.scrollWidth > clientWidth) wide.push("the page itself");
    return [...wide, ...drawn.map((text) => text.textContent)];
  },

  luminance(colour) {
    const [red, green, blue] = colour.match(/[\d.]+/g).map((part) => {
      const value = Number(part) / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  },

  // Texts whose contrast is below the 4.5 that the guidelines for accessible pages ask for.
  faint() {
    const behind = (node) => {
      for (; node; node = node.parentElement) {
        const colour = getComputedStyle(node).backgroundColor;
        if (colour !== "rgba(0, 0, 0, 0)") return colour;
      }
      return "rgb(255, 255, 255)";
    };
    return this.lines().filter(({ parent }) => {
      if (parent.matches("input")) return false;
      const style = getComputedStyle(parent);
      const [a, b] = [parent.closest("svg") ? style.fill : style.color, behind(parent)].map(this.luminance);
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
    }).map((line) => line.text);
  },
};
