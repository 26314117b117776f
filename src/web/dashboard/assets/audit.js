// Who did what, the newest first.

import { h, on, put } from "./dom.js";
import { get } from "./api.js";
import { badge } from "./badge.js";
import { say } from "./dialog.js";
import { is_read, table } from "./table.js";
import { event_tabs } from "./events.js";
import { foreign } from "./words.js";
import { ago, plain, time } from "./format.js";

const PAGE = 100;

export async function audit({ root, live, every, listen }) {
  const ask = (before) => get("/v1/audit", { limit: PAGE, before });
  let { actions, next } = await ask();
  const list = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  root.append(h("h1", { class: "unseen" }, "Who did what"), event_tabs("events/audit"), list, foot);
  const show = () => {
    const now = live.now();
    put(list, actions.length ? table("Actions", [
      { name: "When", wide: "w120", of: (one) => h("span", { class: "figure" }, ago(one.at_ms, now)), title: (one) => time(one.at_ms) },
      { name: "Who", wide: "p20", of: (one) => foreign(one.by), title: (one) => one.role },
      { name: "What", of: (one) => one.action.replaceAll("_", " ") },
      { name: "To what", wide: "p30", kind: "long", of: (one) => subject(one.subject), title: (one) => plain(one.subject) },
      { name: "Outcome", kind: "state", wide: "w120", of: (one) => badge(one.outcome) },
      { name: "Status", kind: "n", wide: "w80", of: (one) => one.status }], actions, { key: ({ id }) => String(id) }) :
      h("p", { class: "empty" }, "Nobody did anything yet."));
    put(foot, next !== null && h("button", { "data-go": "more" }, "Older"));
  };
  on(foot, "click", "[data-go]", async () => {
    try {
      const older = await ask(next);
      actions = [...actions, ...older.actions];
      ({ next } = older);
    } catch (error) { say(error.message, "bad"); }
    show();
  });
  const again = async () => {
    // What is read does not move; who has read on is not thrown back.
    if (is_read(list) || scrollY > 60 || actions.length > PAGE) return;
    try { ({ actions, next } = await ask()); } catch { return; }
    show();
  };
  show();
  listen("snapshot", show);
  every(3000, again);
}

// Ids came percent-encoded.
const subject = (text) => {
  const parts = text.split("/").map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return foreign(parts.join(" / "));
};
