// How clients, reasons and causes are said: the same on every page.

import { h } from "./dom.js";
import { segment } from "./api.js";
import { ago, count, plain, span, until } from "./format.js";

export const PHASES = ["degraded", "draining", "paused", "disabled", "healthy"];

// Text from outside, with its own direction: it turns nothing around it.
export const foreign = (text) => h("bdi", {}, plain(text));

// The API takes no longer id; one of the platform's configs may have it.
export const has_page = (id) => id.length < 171 || new TextEncoder().encode(id).length <= 512;

export const client_link = (id) => (has_page(id) ? h("a", { href: `#/client/${segment(id)}`, title: plain(id) }, foreign(id)) :
  h("span", { title: `Too long for a page of its own: ${plain(id)}` }, foreign(`${id.slice(0, 60)}…`), h("span", { class: "quiet" }, ` ${count(id.length)} characters`)));

// Who decided something, when and why.
export const decided = (made, now) => `by ${plain(made.by)} ${ago(made.since_ms, now)}${made.reason ? `: ${plain(made.reason)}` : ""}`;

// `<db>.<collection>:<id>`; the id is what tells documents apart.
export function document_name(text) {
  const at = text.indexOf(":") + 1;
  return h("span", { class: "document", title: plain(text) }, h("bdi", {}, plain(text.slice(0, at))), h("bdi", {}, plain(text.slice(at))));
}

const LABELS = { connect: "no connection", dns: "name not found", tls: "TLS failed", timeout: "no answer in time", closed: "connection closed", bad_answer: "broken answer",
  client_gone: "the client is gone", kills_actor: "breaks its actor each time", frozen: "took no message", lost_arbiter: "its thread made no progress", asked: "asked to begin anew", stopped_itself: "stopped itself" };

// A reason as a person says it; what is no label stays as it is.
export const reason = (label) => LABELS[label] ?? plain(String(label ?? "")).replace(/^status_(\d+)$/, "answers $1").replace(/\bstatus_(\d+)\b/, "$1");

// Why a client is as it is, and what comes of it.
export function why(client, now) {
  const parts = [reason(client.reason)];
  if (client.switched_off) parts.push("it failed when it was switched off");
  if (client.overflows) parts.push("changes are dropped: too many wait");
  if (client.actor === "failed") parts.push("its actor was given up");
  if (client.actor === "restarting") parts.push("its actor restarts");
  if (client.disable_at_ms && client.phase !== "healthy") parts.push(`off ${until(client.disable_at_ms, now)}`);
  if (client.restarts > 0 && client.actor === "running") parts.push(`actor restarted ${client.restarts}×${client.broke_lately ? ", lately" : ""}`);
  return parts.filter(Boolean).join(" · ");
}

// Why an actor last broke, as one line.
export function cause({ last_cause, exits }) {
  if (!last_cause) return undefined;
  const { reason: why, message, place, lasted_seconds, seconds_ago } = last_cause;
  const times = exits?.[why] > 1 ? ` ${count(exits[why])}×` : "";
  const said = ["panicked", "frozen", "lost_arbiter"].includes(why) ? "" : `: ${plain(message)}`;
  const label = why === "frozen" ? "frozen, took no message" : why === "lost_arbiter" ? "lost its thread, which made no progress" : why.replaceAll("_", " ");
  return [`${label}${times}${said}`, place && `at ${place}`, `${span(seconds_ago * 1000)} ago`,
    lasted_seconds === undefined ? "" : `it had run for ${span(lasted_seconds * 1000)}`].filter(Boolean).join(" · ");
}
