// What happened that an operator wants to know of, the newest first.

import { h, on, put } from "./dom.js";
import { get } from "./api.js";
import { badge } from "./badge.js";
import { say } from "./dialog.js";
import { is_read, opens, table } from "./table.js";
import { client_link, reason } from "./words.js";
import { ago, plain, span, time } from "./format.js";

const PAGE = 100;

export async function events({ root, live, query, every, listen }) {
  const client = query.get("client") ?? "";
  const ask = (after) => get("/v1/operational-events", { client, limit: PAGE, order: "newest", after });
  let { events, next } = await ask();
  const list = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  root.append(h("h1", { class: "unseen" }, "Events"), event_tabs("events"), client ? h("p", {}, "Of ", client_link(client), " only: ", h("a", { href: "#/events" }, "show all"), ".") : "", list, foot);
  opens(list);
  const show = () => {
    const now = live.now();
    put(list, events.length ? table("Events", [
      { name: "When", wide: "w120", of: (event) => h("span", { class: "figure" }, ago(event.at_ms, now)), title: (event) => time(event.at_ms) },
      { name: "What", kind: "state", wide: "w180", of: (event) => badge(event.type) },
      { name: "Client", kind: "long", wide: "p20", of: (event) => event.client && client_link(event.client) },
      { name: "Why", kind: "cut", wide: "p20", of: (event) => reason(event.reason) },
      { name: "More", kind: "cut", code: true, spare: true, of: (event) => more(event.details, now) }], events, { key: ({ id }) => `e${id}` }) :
      h("p", { class: "empty" }, "Nothing worth telling has happened. Webhooks that fail and recover, clients that are switched off, actors that break would stand here."));
    put(foot, next !== null && h("button", { "data-go": "more" }, "Older"));
  };
  on(foot, "click", "[data-go]", async () => {
    try {
      const older = await ask(next);
      events = [...events, ...older.events];
      ({ next } = older);
    } catch (error) { say(error.message, "bad"); }
    show();
  });
  const again = async () => {
    // What is read does not move.
    if (is_read(list) || scrollY > 60) return;
    try {
      const { events: newest } = await ask();
      const known = events[0]?.id ?? 0;
      const fresh = newest.filter((event) => event.id > known);
      if (fresh.length === newest.length && newest.length === PAGE) { events = newest; next = newest.at(-1).id; }
      else events = [...fresh, ...events];
    } catch { return; }
    show();
  };
  show();
  listen("snapshot", show);
  every(2000, again);
}

// What happened by itself, and what somebody did.
export const event_tabs = (here) => h("nav", { class: "tabs", "aria-label": "Kinds" }, [["events", "What happened"], ["events/audit", "Who did what"]].map(([path, text]) =>
  h("a", { href: `#/${path}`, "aria-current": path === here && "page" }, text)));

// Times as people say them, the rest as it is.
const more = (details, now) => Object.entries(details).filter(([name]) => name !== "next_attempt_at_ms").map(([name, value]) => {
  const said = name.replace(/_ms$/, "").replaceAll("_", " ");
  if (/_(at|since)_ms$/.test(name) && typeof value === "number") return `${said} ${value > now ? `in ${span(value - now)}` : ago(value, now)}`;
  if (/_ms$/.test(name) && typeof value === "number") return `${said} ${span(value)}`;
  return `${said} ${plain(typeof value === "object" ? JSON.stringify(value) : String(value))}`;
}).join(" · ");
