// What came of the last attempts to deliver to a client.

import { h } from "./dom.js";
import { badge } from "./badge.js";
import { table } from "./table.js";
import { document_name, reason } from "./words.js";
import { ago, clock, ms, plain, time } from "./format.js";

// `attempts` is a List.
export function attempt_table(attempts, now) {
  const { rows, next } = attempts;
  const title = h("div", { class: "title" }, h("h2", {}, "Attempts"), h("span", { class: "quiet" }, "failures, what followed them, and the last deliveries"), h("div", { class: "ends" }, attempts.button()));
  if (!rows.length) return [title, h("p", { class: "empty" }, "None is remembered: nothing was sent yet, or another replica sent it.")];
  return [title, table("Attempts", [
    { name: "When", wide: "w90", of: (one) => h("span", { class: "figure" }, clock(one.at_ms)), title: (one) => `${time(one.at_ms)}, ${ago(one.at_ms, now)}` },
    { name: "Outcome", kind: "state", wide: "w120", of: (one) => badge(one.outcome) },
    { name: "Status", kind: "n", wide: "w70", spare: true, of: (one) => one.status ?? "–" },
    { name: "Took", kind: "n", wide: "w80", of: (one) => ms(one.latency_ms) },
    { name: "Try", kind: "n", wide: "w70", of: (one) => one.attempt },
    { name: "Document", kind: "long", of: (one) => document_name(one.document), title: (one) => one.event_id },
    { name: "Answer", kind: "cut", code: true, spare: true, of: (one) => plain(one.answer || (one.status ? "" : reason(one.reason))) }], rows,
  { key: (one) => `${one.event_id}.${one.at_ms}.${one.attempt}` }), next !== null && h("p", { class: "foot" }, h("button", { "data-go": "more" }, "Older"))];
}
