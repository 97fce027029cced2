// The messages of the moment: the ranks as trees if the plans form trees worth drawing, else on a circle.

function depthOf(parents, rank) {
  return parents[rank] < 0 ? 0 : 1 + depthOf(parents, parents[rank]);
}

// Chains and stars are clearer on a circle.
function worthDrawing(tree) {
  const children = tree.parents.map((_, rank) => tree.parents.filter((parent) => parent === rank).length);
  const depth = Math.max(...tree.parents.map((_, rank) => depthOf(tree.parents, rank)));
  return depth > 1 && Math.max(...children) > 1;
}

// Lines between all ranks that ever exchange a message.
function circleLayout({ schedule: { ranks }, messages }, width, height) {
  const radius = Math.min(width, height) / 2 - 18;
  const nodes = Array.from({ length: ranks }, (_, rank) => {
    const angle = 2 * Math.PI * rank / ranks - Math.PI / 2;
    return { x: width / 2 + radius * Math.cos(angle), y: height / 2 + radius * Math.sin(angle) };
  });
  const pairs = new Map(messages.map(({ from, to }) => [Math.min(from, to) * ranks + Math.max(from, to), [from, to]]));
  return { nodes, edges: [...pairs.values()] };
}

// Leaves side by side, each parent centred above its children.
function treeLayout(tree, left, top, width, height) {
  const { parents } = tree;
  const root = parents.indexOf(-1);
  const slots = [];
  const depths = parents.map((_, rank) => depthOf(parents, rank));
  let leaves = 0;
  const place = (rank) => {
    const children = parents.flatMap((parent, child) => (parent === rank ? [child] : []));
    children.forEach(place);
    slots[rank] = children.length === 0 ? leaves++ : (slots[children[0]] + slots[children.at(-1)]) / 2;
  };
  place(root);
  const across = width / leaves;
  const down = (height - 36) / Math.max(...depths);
  const nodes = parents.map((_, rank) =>
    ({ x: left + (slots[rank] + 0.5) * across, y: top + 18 + depths[rank] * down }));
  return { nodes, edges: parents.flatMap((parent, child) => (parent < 0 ? [] : [[parent, child]])), tree };
}

class Topology {
  constructor(host, point) {
    this.host = host;
    this.point = point;
    host.addEventListener("mouseover", (event) => {
      const node = event.target.closest("[data-rank]");
      this.point(node ? { rank: Number(node.dataset.rank) } : null);
    });
    host.addEventListener("mouseleave", () => this.point(null));
  }

  show(course, room) {
    this.course = course;
    const { schedule } = course;
    const width = Math.max(280, Math.min(room, 620));
    const trees = schedule.trees.filter(worthDrawing);
    const stacked = trees.length > 1 && width < 420 && schedule.ranks > 8;
    const height = stacked ? 2 * 210 : schedule.ranks > 10 && width > 420 ? 340 : 280;
    const part = stacked ? width : width / Math.max(1, trees.length);
    this.layouts = trees.length === 0 ? [circleLayout(course, width, height)]
      : trees.map((tree, i) => (stacked ? treeLayout(tree, 0, i * 210, width, 210)
        : treeLayout(tree, i * part, 0, part, height)));
    this.radius = schedule.ranks > 8 ? 10 : 13;
    const svg = freshDrawing(this.host, width, height, `Who sends to whom: ${schedule.name}, ${schedule.ranks} ranks`);
    svg.append(this.edges(), this.arrows = drawn("g"), this.nodes(), this.dots = drawn("g"));
    this.active = null;
  }

  edges() {
    const group = drawn("g", { class: "edges" });
    for (const { nodes, edges } of this.layouts)
      for (const [a, b] of edges) group.append(drawn("line", { x1: nodes[a].x, y1: nodes[a].y, x2: nodes[b].x, y2: nodes[b].y }));
    return group;
  }

  nodes() {
    const group = drawn("g", { class: "nodes" });
    for (const { nodes } of this.layouts)
      nodes.forEach(({ x, y }, rank) => {
        const named = this.course.run?.ranks.has(rank);
        const node = drawn("g", { class: named ? "node named" : "node", "data-rank": rank });
        if (named) node.append(drawn("circle", { cx: x, cy: y, r: this.radius + 4, class: "ring" }));
        node.append(drawn("circle", { cx: x, cy: y, r: this.radius }),
          drawn("text", { x, y: y + 4, "text-anchor": "middle" }, `${rank}`));
        group.append(node);
      });
    return group;
  }

  // The drawing to which a message belongs: that of the tree with its blocks and its edge.
  layoutOf(message) {
    const joins = ({ tree }) => tree &&
      (tree.parents[message.from] === message.to || tree.parents[message.to] === message.from);
    const carries = ({ tree }) => tree.blocks.length === 0 || tree.blocks.includes(message.blocks[0]);
    return this.layouts.find((layout) => joins(layout) && carries(layout)) ?? this.layouts.find(joins) ?? this.layouts[0];
  }

  update(messages, moment) {
    const active = messages.map((message) => message.index).join();
    if (active !== this.active) this.draw(messages);
    this.active = active;
    this.curves.forEach(({ curve, dot, message }) => {
      const part = (moment - message.begin) / (message.end - message.begin);
      const { x, y } = pointOn(curve, Math.min(1, part));
      dot.setAttribute("cx", x);
      dot.setAttribute("cy", y);
      dot.setAttribute("visibility", part < 1 ? "visible" : "hidden");
    });
  }

  draw(messages) {
    this.arrows.replaceChildren();
    this.dots.replaceChildren();
    const boxes = new Boxes();
    for (const { nodes } of this.layouts) for (const { x, y } of nodes) boxes.take(x, y, 2 * this.radius, 2 * this.radius);
    this.curves = messages.map((message) => {
      const { nodes } = this.layoutOf(message);
      const curve = bentPath(nodes[message.from], nodes[message.to], this.radius + 2, 0.1);
      const arrow = drawn("g", { class: "arrow", "data-from": message.from, "data-to": message.to });
      arrow.append(drawn("path", { d: pathData(curve), class: "line" }), drawn("path", { d: arrowHead(curve, 8), class: "head" }));
      this.arrows.append(arrow);
      const dot = drawn("circle", { r: 4, class: "dot" });
      this.dots.append(dot);
      return { curve, dot, message };
    });
    const carried = new Set(messages.map((message) => compress(message.blocks ?? [])));
    if (messages.length > 4 && carried.size === 1) return;  // the sentence above has it already
    for (const { curve, message } of this.curves) this.label(curve, message, boxes);
  }

  label(curve, message, boxes) {
    const text = compress(message.blocks ?? []);
    const length = Math.hypot(curve.end.x - curve.start.x, curve.end.y - curve.start.y);
    if (text === "" || text.length > 11 || length < 7 * text.length + 18) return;
    for (const part of [0.5, 0.38, 0.62]) {
      const { x, y } = pointOn(curve, part);
      if (!boxes.takeText(x, y, text, 11)) continue;
      this.arrows.append(drawn("text", { x, y: y + 4, "text-anchor": "middle", class: "carried" }, text));
      return;
    }
  }

  highlight(place) {
    for (const node of this.host.querySelectorAll(".node"))
      node.classList.toggle("pointed", place !== null && Number(node.dataset.rank) === place.rank);
  }
}
