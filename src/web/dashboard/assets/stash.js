// What waits for a client, in the order in which it goes out.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./badge.js";
import { say } from "./dialog.js";
import { is_read, opens, table } from "./table.js";
import { show_payload } from "./dead_actions.js";
import { may_act } from "./session.js";
import { document_name, foreign, reason } from "./words.js";
import { ago, bytes, count, time, until } from "./format.js";

const PAGE = 50;

export async function stash({ root, live, parts: [id], every, listen }) {
  const path = `/v1/clients/${segment(id)}/stash`;
  let { rows, next } = await get(path, { limit: PAGE });
  const list = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  root.append(h("p", { class: "crumbs" }, h("a", { href: "#/clients" }, "Clients"), "/", h("a", { href: `#/client/${segment(id)}` }, foreign(id)), h("span", {}, "/"), h("bdi", {}, "Stash")),
    h("h1", { class: "unseen" }, "Stash"), h("p", { class: "quiet" }, "What could not be sent yet, and what was given up; the oldest first. Of one document, the newer ones go out after the older ones."), list, foot);
  opens(list);
  const show = () => {
    const now = live.now();
    put(list, rows.length ? table("Stash", [
      { name: "Document", wide: "p30", of: (row) => document_name(row.document), title: (row) => row.event_id },
      { name: "State", kind: "state", wide: "w120", of: (row) => badge(row.state === "pending" ? "waiting" : row.state) },
      { name: "Why", kind: "cut", spare: true, of: (row) => reason(row.reason ?? "") },
      { name: "Attempts", kind: "n", wide: "w90", of: (row) => count(row.attempts) },
      { name: "Since", kind: "n", wide: "w100", of: (row) => ago(row.stashed_at_ms, now), title: (row) => time(row.stashed_at_ms) },
      { name: "Next try", kind: "n", wide: "w100", extra: true, of: (row) => (row.state === "pending" ? until(row.next_attempt_at_ms, now) : "–") },
      { name: "Size", kind: "n", wide: "w80", extra: true, of: (row) => bytes(row.bytes) },
      may_act() && { name: "Do", unseen: true, kind: "acts", wide: "w100", of: (row) => h("div", { class: "buttons" }, h("button", { class: "plain", "data-payload": row.event_id, "aria-label": `Payload ${row.document}` }, "Payload")) },
    ].filter(Boolean), rows, { key: ({ event_id }) => event_id }) : h("p", { class: "empty" }, "Nothing waits for this client."));
    put(foot, rows.length > 0 && h("p", { class: "quiet figure" }, `${count(rows.length)} shown`), next !== null && h("button", { "data-go": "more" }, "More"));
  };
  on(list, "click", "[data-payload]", ({ dataset }) => show_payload(id, dataset.payload, `${path}/${segment(dataset.payload)}`));
  on(foot, "click", "[data-go]", async () => {
    try {
      const more = await get(path, { limit: PAGE, after: next });
      rows = [...rows, ...more.rows];
      ({ next } = more);
    } catch (error) { say(error.message, "bad"); }
    show();
  });
  const again = async () => {
    // Who has read on is not thrown back, and what is read does not move.
    if (rows.length > PAGE || is_read(list)) return;
    try { ({ rows, next } = await get(path, { limit: PAGE })); } catch { return; }
    show();
  };
  show();
  listen("snapshot", show);
  every(3000, again);
}
