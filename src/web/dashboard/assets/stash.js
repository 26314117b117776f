// What waits for a client, in the order in which it goes out.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./badge.js";
import { clients_place } from "./clients.js";
import { List } from "./list.js";
import { opens, table } from "./table.js";
import { show_payload } from "./dead_actions.js";
import { may_act } from "./session.js";
import { document_name, foreign, reason } from "./words.js";
import { ago, bytes, count, time, until } from "./format.js";

const PAGE = 50;

export async function stash({ root, live, parts: [id], query, every, listen }) {
  const path = `/v1/clients/${segment(id)}/stash`;
  const wanted = query.get("of") ?? "";
  // One by its webhook-id, or all of a document.
  const ask = wanted && !wanted.includes(":") ? async () => {
    try { return { rows: [await get(`${path}/${segment(wanted)}`)], next: null }; } catch (error) {
      if (error.status !== 404) throw error;
      return { rows: [], next: null };
    }
  } : (after) => get(path, { limit: PAGE, document: wanted, after });
  const first = await ask();
  const body = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  const news = h("div", { class: "ends" });
  const here = `#/stash/${segment(id)}`;
  const search = h("input", { type: "search", value: wanted, maxlength: "600", placeholder: "webhook-id or <db>.<collection>:<id>   /", autocomplete: "off", "aria-label": "Search" });
  root.append(h("h1", { class: "unseen" }, "Stash"), h("p", { class: "crumbs" }, h("a", { href: clients_place() }, "Clients"), "/", h("a", { href: `#/client/${segment(id)}` }, foreign(id)), h("span", {}, "/"), h("bdi", {}, "Stash")),
    h("p", { class: "quiet" }, "What could not be sent yet, and what was given up; the oldest first. Of one document, the newer ones go out after the older ones."),
    h("div", { class: "controls" }, search, news), body, foot);
  opens(body);
  search.addEventListener("change", () => { location.hash = `${here}${search.value ? `?${new URLSearchParams({ of: search.value })}` : ""}`; });
  const show = () => {
    const now = live.now();
    const { rows, next } = list;
    put(news, list.button());
    put(body, rows.length ? table("Stash", [
      { name: "Document", wide: "p30", of: (row) => document_name(row.document), title: (row) => row.event_id },
      { name: "State", kind: "state", wide: "w120", of: (row) => badge(row.state === "pending" ? "waiting" : row.state) },
      { name: "Why", kind: "cut", spare: true, of: (row) => reason(row.reason ?? "") },
      { name: "Attempts", kind: "n", wide: "w90", of: (row) => count(row.attempts) },
      { name: "Since", kind: "n", wide: "w100", of: (row) => ago(row.stashed_at_ms, now), title: (row) => time(row.stashed_at_ms) },
      { name: "Next try", kind: "n", wide: "w100", extra: true, of: (row) => (row.state === "pending" ? until(row.next_attempt_at_ms, now) : "–") },
      { name: "Size", kind: "n", wide: "w80", extra: true, of: (row) => bytes(row.bytes) },
      may_act() && { name: "Do", unseen: true, kind: "acts", wide: "w100", of: (row) => h("div", { class: "buttons" }, h("button", { class: "plain", "data-payload": row.event_id, "aria-label": `Payload ${row.document}` }, "Payload")) },
    ].filter(Boolean), rows, { key: ({ event_id }) => event_id }) : h("p", { class: "empty" }, wanted ? "None is so." : "Nothing waits for this client."));
    put(foot, rows.length > 0 && h("p", { class: "quiet figure" }, `${count(rows.length)} shown`), next !== null && h("button", { "data-go": "more" }, "More"));
  };
  const list = new List(first, { key: ({ event_id }) => event_id, node: body, show });
  on(body, "click", "[data-payload]", ({ dataset }) => show_payload(id, dataset.payload, `${path}/${segment(dataset.payload)}`));
  on(foot, "click", "[data-go]", () => list.more(ask));
  show();
  listen("snapshot", show);
  every(3000, async () => list.offer(await ask()));
}
