// Small charts, as SVG. Each says in words what it shows.

import { svg, h } from "./dom.js";

const W = 300;
const H = 56;

// Lines over time; a value that is not there leaves a gap.
export function lines(label, series, { top, format }) {
  const all = series.flatMap((one) => one.values).filter((value) => value !== null && value !== undefined);
  const most = Math.max(top ?? 0, ...all, 1e-9);
  const length = Math.max(...series.map((one) => one.values.length), 2);
  const x = (at) => ((W - 2) * (at + (one_length(length) - length))) / (one_length(length) - 1) + 1;
  const y = (value) => H - 3 - (value / most) * (H - 8);
  const drawn = series.map((one) => {
    let path = "", open = false;
    one.values.forEach((value, at) => {
      if (value === null || value === undefined) { open = false; return; }
      path += `${open ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      open = true;
    });
    const area = one.area && path && !path.slice(1).includes("M")
      ? svg("path", { d: `${path}L${x(one.values.length - 1).toFixed(1)} ${H}L${x(0).toFixed(1)} ${H}Z`, class: `area ${one.kind}` })
      : null;
    return [area, svg("path", { d: path || "M0 0", class: `line ${one.kind}` })];
  });
  const last = series.map((one) => `${one.name} ${format(one.values.at(-1) ?? 0)}`).join(", ");
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "spark", role: "img", preserveAspectRatio: "none",
    "aria-label": `${label}, the last hour: ${last}; most ${format(Math.max(...all, 0))}` },
    svg("line", { x1: 0, x2: W, y1: H - 3, y2: H - 3, class: "base" }), drawn);
}

// A line that is young stands at the right, where now is.
const one_length = (length) => Math.max(length, 60);

// Bars, each of a good and a bad part.
export function bars(label, pairs, length) {
  const most = Math.max(1, ...pairs.map(([good, bad]) => good + bad));
  const width = W / length;
  const first = length - pairs.length;
  const drawn = pairs.map(([good, bad], at) => {
    const x = (first + at) * width + 0.5;
    const [high_good, high_bad] = [good, bad].map((value) => (value / most) * (H - 4));
    return [
      good > 0 && svg("rect", { x, width: width - 1, y: H - high_good, height: high_good, class: "good" }),
      bad > 0 && svg("rect", { x, width: width - 1, y: H - high_good - high_bad, height: high_bad, class: "bad" }),
    ];
  });
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "spark bars", role: "img", preserveAspectRatio: "none", "aria-label": label },
    svg("line", { x1: 0, x2: W, y1: H - 0.5, y2: H - 0.5, class: "base" }), drawn);
}

// A word, a shape and a colour: any one of them is enough.
const SHAPES = {
  good: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13Zm-3 6.7 2.2 2.2 4-4.4",
  bad: "M8 1 15.5 14.5H.5ZM8 6v4m0 2v.5",
  busy: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13ZM8 4.5v7m-3-3 3 3 3-3",
  held: "M3.5 2h3v12h-3ZM9.5 2h3v12h-3Z",
  off: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13ZM3.5 12.5l9-9",
};
const KINDS = { healthy: "good", running: "good", completed: "good", delivered: "good", ok: "good", recovered: "good", enabled: "good", resumed: "good",
  degraded: "bad", failed: "bad", down: "bad", overflow: "bad", dead_letter: "bad", actor_failed: "bad", source_gap: "bad", transfer_gap: "bad", dead: "bad",
  draining: "busy", restarting: "busy", active: "busy", actor_restarted: "busy", disable_warning: "busy", disabled: "off", paused: "held", delayed: "held",
  waiting: "held", prioritized: "held", stopped: "off", superseded: "off" };

export function badge(word, text = word) {
  const kind = KINDS[word] ?? "held";
  return h("span", { class: `badge ${kind}` },
    svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: SHAPES[kind] })), text.replaceAll("_", " "));
}
