// Small charts, as SVG. Each says in words what it shows.

import { svg } from "./dom.js";
import { kind_of } from "./badge.js";

const W = 300;
const H = 40;
// Milliseconds for which there is room from the start: a line that is young stands at the right, where now is.
const SHORTEST = 300_000;
// Longer apart than two points are: nothing is known of what was between.
const GAP = 25_000;

// For how long lines of these times go back, milliseconds.
export const back = (times) => Math.max(SHORTEST, times.length ? times.at(-1) - times[0] : 0);

// Lines over time; a value that is not there leaves a gap, and so does a time of which nothing is known.
export function lines(label, times, series, { top, format }) {
  const all = series.flatMap((one) => one.values).filter((value) => value !== null && value !== undefined);
  const most = Math.max(top ?? 0, ...all, 1e-9);
  const x = (at) => (W - 2) * (1 - (times.at(-1) - times[at]) / back(times)) + 1;
  const y = (value) => H - 2 - (value / most) * (H - 6);
  const drawn = series.map((one) => {
    const runs = [];
    let run;
    one.values.forEach((value, at) => {
      if (value === null || value === undefined) { run = undefined; return; }
      if (!run || times[at] - times[at - 1] > GAP) runs.push(run = []);
      run.push([x(at), y(value)]);
    });
    const path = (points) => points.map(([left, up], at) => `${at ? "L" : "M"}${left.toFixed(1)} ${up.toFixed(1)}`).join("");
    const under = (points) => `${path(points)}L${points.at(-1)[0].toFixed(1)} ${H}L${points[0][0].toFixed(1)} ${H}Z`;
    // One that stands alone is seen, too.
    const seen = runs.map((points) => (points.length > 1 ? points : [points[0], [points[0][0] + 1.5, points[0][1]]]));
    return [one.area && seen.length > 0 && svg("path", { d: seen.map(under).join(""), class: `area ${one.kind}` }),
      svg("path", { d: seen.map(path).join("") || "M0 0", class: `line ${one.kind}` })];
  });
  const last = series.map((one) => `${one.name} ${(one.values.at(-1) ?? undefined) === undefined ? "unknown" : format(one.values.at(-1))}`).join(", ");
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "spark", role: "img", preserveAspectRatio: "none",
    "aria-label": `${label}, the last hour: ${last}; most ${format(Math.max(...all, 0))}` },
    svg("line", { x1: 0, x2: W, y1: H - 1, y2: H - 1, class: "base" }), drawn);
}

// Bars, each of a good and a bad part.
export function bars(label, pairs, length) {
  const most = Math.max(1, ...pairs.map(([good, bad]) => good + bad));
  const width = W / length;
  const first = length - pairs.length;
  const drawn = pairs.map(([good, bad], at) => {
    const x = (first + at) * width + 0.5;
    const [high_good, high_bad] = [good, bad].map((value) => (value / most) * (H - 2));
    const minutes = pairs.length - at;
    return svg("g", {}, svg("title", {}, `${minutes === 1 ? "the last minute" : `${minutes} minutes ago`}: ${good} delivered, ${bad} failed`),
      good > 0 && svg("rect", { x, width: width - 1, y: H - high_good, height: high_good, class: "good" }),
      bad > 0 && svg("rect", { x, width: width - 1, y: H - high_good - high_bad, height: high_bad, class: "bad" }));
  });
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "spark tall", role: "img", preserveAspectRatio: "none", "aria-label": label },
    svg("line", { x1: 0, x2: W, y1: H - 0.5, y2: H - 0.5, class: "base" }), drawn);
}

// How a whole is divided, in one line; a part that is not nothing is seen, however small.
export function stacked(label, parts) {
  const whole = Math.max(1, parts.reduce((sum, [, number]) => sum + number, 0));
  const wide = parts.map(([, number]) => (number > 0 ? Math.max(1.5, (100 * number) / whole) : 0));
  const sum = wide.reduce((one, other) => one + other, 0) || 1;
  let x = 0;
  return svg("svg", { viewBox: "0 0 100 8", class: "stacked", role: "img", preserveAspectRatio: "none", "aria-label": label }, parts.map(([word], at) => {
    const width = (wide[at] / sum) * 100;
    const from = x;
    x += width;
    return width > 0 && svg("rect", { x: from, y: 0, width: x > 99.9 ? width : Math.max(0.2, width - 0.3), height: 8, class: kind_of(word) });
  }));
}
