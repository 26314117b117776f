// Who did what, the newest first.

import { h, on, put } from "./dom.js";
import { get } from "./api.js";
import { badge } from "./badge.js";
import { List } from "./list.js";
import { table } from "./table.js";
import { event_tabs } from "./events.js";
import { foreign } from "./words.js";
import { ago, plain, time } from "./format.js";

const PAGE = 100;

export async function audit({ root, live, every, listen }) {
  const ask = async (before) => {
    const { actions: rows, next } = await get("/v1/audit", { limit: PAGE, before });
    return { rows, next };
  };
  const first = await ask();
  const body = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  const news = h("div", { class: "ends" });
  root.append(h("h1", { class: "unseen" }, "Who did what"), h("div", { class: "controls" }, event_tabs("events/audit"), news), body, foot);
  const show = () => {
    const now = live.now();
    put(news, list.button());
    put(body, list.rows.length ? table("Actions", [
      { name: "When", wide: "w120", of: (one) => h("span", { class: "figure" }, ago(one.at_ms, now)), title: (one) => time(one.at_ms) },
      { name: "Who", wide: "p20", of: (one) => foreign(one.by), title: (one) => one.role },
      { name: "What", of: (one) => one.action.replaceAll("_", " ") },
      { name: "To what", wide: "p30", kind: "long", of: (one) => subject(one.subject), title: (one) => plain(one.subject) },
      { name: "Outcome", kind: "state", wide: "w120", of: (one) => badge(one.outcome) },
      { name: "Status", kind: "n", wide: "w80", of: (one) => one.status }], list.rows, { key: ({ id }) => String(id) }) :
      h("p", { class: "empty" }, "Nobody did anything yet."));
    put(foot, list.next !== null && h("button", { "data-go": "more" }, "Older"));
  };
  const list = new List(first, { key: ({ id }) => id, node: body, show });
  on(foot, "click", "[data-go]", () => list.more(ask));
  show();
  listen("snapshot", show);
  every(3000, async () => list.offer(await ask()));
}

// Ids came percent-encoded.
const subject = (text) => {
  const parts = text.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return foreign(parts.join(" / "));
};
