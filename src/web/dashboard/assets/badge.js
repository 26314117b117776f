// A word, a shape and a colour: any one of them is enough.

import { h, svg } from "./dom.js";

const SHAPES = {
  good: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13Zm-3 6.7 2.2 2.2 4-4.4",
  bad: "M8 1 15.5 14.5H.5ZM8 6v4m0 2v.5",
  busy: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13ZM8 4.5v7m-3-3 3 3 3-3",
  held: "M3.5 2h3v12h-3ZM9.5 2h3v12h-3Z",
  off: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13ZM3.5 12.5l9-9",
  wait: "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13ZM8 4v4.3l2.8 1.7",
};

const WORDS = {
  good: ["healthy", "running", "completed", "delivered", "ok", "live", "recovered", "enabled", "resumed", "ready", "done"],
  bad: ["degraded", "failed", "down", "overflow", "dead_letter", "actor_failed", "source_gap", "transfer_gap", "dead", "lost", "silent", "late", "unread", "unseen", "unattended", "blocked"],
  busy: ["draining", "restarting", "active", "open", "actor_restarted", "disable_warning"],
  held: ["paused"],
  off: ["disabled", "stopped", "superseded", "gone", "refused", "cancelled"],
  wait: ["waiting", "prioritized", "delayed", "connecting"],
};
const KINDS = Object.fromEntries(Object.entries(WORDS).flatMap(([kind, words]) => words.map((word) => [word, kind])));

export const kind_of = (word) => KINDS[word] ?? "wait";

export const shape = (kind) => svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: SHAPES[kind] }));

export function badge(word, text = word) {
  const kind = kind_of(word);
  return h("span", { class: `badge ${kind}` }, shape(kind), text.replaceAll("_", " "));
}
