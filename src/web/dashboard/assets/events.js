// What happened that an operator wants to know of, the newest first.

import { h, on, put } from "./dom.js";
import { get } from "./api.js";
import { badge } from "./badge.js";
import { List } from "./list.js";
import { opens, table } from "./table.js";
import { client_link, reason } from "./words.js";
import { ago, plain, span, time } from "./format.js";

const PAGE = 100;
const KINDS = ["degraded", "recovered", "disable_warning", "disabled", "enabled", "paused", "resumed", "overflow", "dead_letter", "actor_restarted", "actor_failed", "source_gap", "transfer_gap", "heavy_job_ended"];

export async function events({ root, live, query, every, listen }) {
  const client = query.get("client") ?? "";
  const happening = KINDS.includes(query.get("happening")) ? query.get("happening") : "";
  const ask = async (after) => {
    const { events: rows, next } = await get("/v1/operational-events", { client, type: happening, limit: PAGE, order: "newest", after });
    return { rows, next };
  };
  const first = await ask();
  const body = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  const news = h("div", { class: "ends" });
  const kinds = h("select", { id: "kind", onchange: () => {
    const kept = Object.entries({ client, happening: kinds.value }).filter(([, value]) => value);
    location.hash = `#/events${kept.length ? `?${new URLSearchParams(kept)}` : ""}`;
  } }, ["", ...KINDS].map((kind) => h("option", { value: kind, selected: kind === happening }, kind.replaceAll("_", " ") || "Everything")));
  root.append(h("h1", { class: "unseen" }, "Events"), h("div", { class: "controls" }, event_tabs("events"), h("label", {}, "Show ", kinds), news),
    client ? h("p", {}, "Of ", client_link(client), " only: ", h("a", { href: "#/events" }, "show all"), ".") : "", body, foot);
  opens(body);
  const show = () => {
    const now = live.now();
    put(news, list.button());
    put(body, list.rows.length ? table("Events", [
      { name: "When", wide: "w120", of: (event) => h("span", { class: "figure" }, ago(event.at_ms, now)), title: (event) => time(event.at_ms) },
      { name: "What", kind: "state", wide: "w180", of: (event) => badge(event.type) },
      { name: "Client", kind: "long", wide: "p20", of: (event) => event.client && client_link(event.client) },
      { name: "Why", kind: "cut", wide: "p20", of: (event) => reason(event.reason) },
      { name: "More", kind: "cut", code: true, spare: true, of: (event) => more(event.details, now) }], list.rows, { key: ({ id }) => `e${id}` }) :
      h("p", { class: "empty" }, happening ? "Nothing of this kind has happened." : "Nothing worth telling has happened. Webhooks that fail and recover, clients that are switched off, actors that break would stand here."));
    put(foot, list.next !== null && h("button", { "data-go": "more" }, "Older"));
  };
  const list = new List(first, { key: ({ id }) => id, node: body, show });
  on(foot, "click", "[data-go]", () => list.more(ask));
  show();
  listen("snapshot", show);
  every(2000, async () => list.offer(await ask()));
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
