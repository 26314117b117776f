// The figures of the whole service, each with its last hour.

import { h } from "./dom.js";
import { back, lines as chart } from "./chart.js";
import { ago, bytes, count, ms, rate, share } from "./format.js";

export function tiles(all, hour) {
  const of = (member) => hour.map((point) => point[member]);
  const { stash, lag, answer_ms: answers, age_ms: ages } = all;
  const times = hour.map((point) => point.at_ms);
  const minutes = Math.round(back(times) / 60_000);
  const over = minutes >= 60 ? "1 h" : `${minutes} min`;
  const shares = hour.map((point) => (point.rate + point.failure_rate ? point.rate / (point.rate + point.failure_rate) : null));
  const lines = (label, series, how) => chart(label, times, series, how);
  return [
    tile("Throughput", `${rate(all.rate)}/s`, all.failure_rate ? h("span", { class: "bad-text" }, `${rate(all.failure_rate)}/s fail`) : "nothing fails",
      lines("Throughput", [{ name: "delivered", kind: "good", area: true, values: of("rate") },
        { name: "failed", kind: "bad", values: of("failure_rate") }], { format: (value) => `${rate(value)}/s` }), "", over),
    tile("Succeeded", share(all.success_share), all.success_share === null ? "no attempt lately" : "of the last minute",
      lines("Success", [{ name: "share", kind: "good", area: true, values: shares }], { top: 1, format: share }), "", over),
    tile("Answer time p95", ms(answers?.p95), answers ? `p50 ${ms(answers.p50)} · p99 ${ms(answers.p99)}` : "none lately",
      lines("Answers", [{ name: "p95", kind: "plain", values: of("p95_ms") }], { format: ms }), "", over),
    tile("Age at 2xx p95", ms(ages?.p95), ages ? `p50 ${ms(ages.p50)} · p99 ${ms(ages.p99)}` : "none lately",
      lines("From change to 2xx", [{ name: "p95", kind: "plain", values: of("age_p95_ms") }], { format: ms }), "", over),
    tile("In the stash", count(stash.pending), stash.pending ? `oldest ${ago(stash.oldest_ts_ms, all.at_ms)} · ${bytes(stash.bytes)}` : "nothing waits",
      lines("Waiting", [{ name: "waiting", kind: "busy", area: true, values: of("stashed") }], { top: 10, format: count }), "", over),
    tile("Behind", lag.source === null && lag.transfer === null ? "–" : count((lag.source ?? 0) + (lag.transfer ?? 0)), `${count(lag.source)} to route · ${count(lag.transfer)} to deliver`,
      lines("Records behind", [{ name: "behind", kind: "busy", area: true, values: of("lag") }], { top: 10, format: count }), "", over),
  ];
}

// A figure with its name, a line about it, and perhaps a chart.
export const tile = (name, value, note, chart, kind = "", over = undefined) =>
  h("div", { class: "card tile", "data-key": name }, h("h2", {}, name, over && h("span", { title: `The line: the last ${over}` }, over)), h("p", { class: `value ${kind}`, title: typeof value === "string" ? value : undefined }, value),
    h("p", { class: "note", title: typeof note === "string" ? note : undefined }, note), chart);
