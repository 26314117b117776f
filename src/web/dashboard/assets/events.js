// What happened that an operator wants to know of, the newest first.

import { h, on, put } from "./dom.js";
import { get } from "./api.js";
import { badge } from "./chart.js";
import { client_link } from "./overview.js";
import { say } from "./dialog.js";
import { ago, reason, time } from "./format.js";

const PAGE = 100;

export async function events({ root, live, query, every }) {
  const client = query.get("client") ?? "";
  let { events, next } = await get("/v1/operational-events", { client, limit: PAGE, order: "newest" });
  const body = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  root.append(h("h1", {}, "Events"), client ? h("p", {}, "Of ", client_link(client), " only. ", h("a", { href: "#/events" }, "Show all")) : "", body, foot);
  const show = () => {
    const now = live.now();
    put(body, events.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Events" }, h("table", { class: "rows" },
      h("thead", {}, h("tr", {}, ["When", "What", "Client", "Why", "More"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, events.map((event) => h("tr", { "data-key": `e${event.id}` }, h("td", { class: "figure", "data-name": "When", title: time(event.at_ms) }, ago(event.at_ms, now)),
        h("td", { "data-name": "What" }, badge(event.type)), h("td", { "data-name": "Client" }, event.client ? client_link(event.client) : "–"), h("td", { class: "why", "data-name": "Why" }, reason(event.reason) || "–"),
        h("td", { class: "code why", "data-name": "More" }, Object.entries(event.details).map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`).join(" ") || "–")))))) :
      h("p", { class: "empty" }, "Nothing worth telling has happened."));
    put(foot, next !== null && h("button", { "data-act": "more" }, "Older"));
  };
  on(foot, "click", "[data-act]", async () => {
    try {
      const older = await get("/v1/operational-events", { client, limit: PAGE, order: "newest", after: next });
      events = [...events, ...older.events];
      ({ next } = older);
    } catch (error) { say(error.message, "bad"); }
    show();
  });
  const again = async () => {
    try {
      const { events: newest } = await get("/v1/operational-events", { client, limit: PAGE, order: "newest" });
      const known = events[0]?.id ?? 0;
      const more = newest.filter((event) => event.id > known);
      if (more.length === newest.length && newest.length === PAGE) { events = newest; next = newest.at(-1).id; }
      else events = [...more, ...events];
    } catch { return; }
    show();
  };
  show();
  every(2000, again);
}
