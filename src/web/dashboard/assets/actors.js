// The tree of actors. What they are comes from their cells: one that is stuck is shown like any other.

import { h, on, put } from "./dom.js";
import { get } from "./api.js";
import { badge } from "./badge.js";
import { cell, keep_order, opens } from "./table.js";
import { restart } from "./client_actions.js";
import { deed } from "./session.js";
import { cause, client_link } from "./words.js";
import { count, span } from "./format.js";

const PAGE = 50;
// Who belongs together, in the order of the flow; what nobody names stands last.
const GROUPS = [["Intake", ["ingest-source", "ingest-transfer"]], ["Delivery", ["fleet", "delivery"]], ["Records", ["stash", "attempts", "operational-events", "event-forwarder"]],
  ["Configs", ["config-cache"]], ["Upkeep", ["promoter", "disabler", "retry", "workers", "dashboard"]]];

export async function actors({ root, live, query, every, listen }) {
  const asked = { kind: "delivery", replica: query.get("replica") ?? "", filter: query.get("filter") ?? "", state: query.get("state") ?? "", offset: 0, limit: PAGE };
  let children, others, shown_for;
  const load = async () => {
    const kinds = Object.keys(live.snapshot?.overview.actors.kinds ?? {}).filter((kind) => kind !== "delivery");
    const wanted = JSON.stringify(asked);
    const [found, all] = await Promise.all([get("/v1/actors", asked), get("/v1/actors", { replica: asked.replica, limit: 200 })]);
    // Who is about to act on one is not given another.
    if (wanted === shown_for) found.rows = keep_order(children.rows, found.rows, ({ id, replica }) => `${id}/${replica}`);
    [children, shown_for] = [found, wanted];
    others = all.rows.filter((actor) => actor.kind !== "delivery");
    // With very many broken ones the others do not fit into that page.
    const missing = kinds.filter((kind) => !others.some((actor) => actor.kind === kind));
    for (const found of await Promise.all(missing.map((kind) => get("/v1/actors", { kind, replica: asked.replica, limit: 50 })))) others.push(...found.rows);
  };
  await load();
  const search = h("input", { type: "search", id: "search", value: asked.filter, placeholder: "Client or cause   /", maxlength: "200", autocomplete: "off", "aria-label": "Search" });
  const states = h("nav", { class: "tabs", "aria-label": "States" });
  const whose = h("div", {});
  const tree = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  root.append(h("h1", { class: "unseen" }, "Actors"), h("div", { class: "controls" }, search, states, whose), tree, foot);
  opens(tree);
  const show = () => {
    const names = (live.snapshot?.overview.replicas ?? []).map(({ name }) => name);
    put(whose, names.length > 1 && h("label", {}, "Replica ", h("select", { id: "replica" }, ["", ...names].map((name) => h("option", { value: name, selected: name === asked.replica }, name || "All")))));
    const sums = live.snapshot?.overview.actors;
    const tabs = [["", "All", sums?.total], ["problem", "Broke or restarted"], ["restarting", badge("restarting"), sums?.restarting], ["failed", badge("failed"), sums?.failed]];
    put(states, tabs.map(([state, text, number]) => h("button", { "data-state": state, "aria-pressed": String(state === asked.state) }, text, number !== undefined && h("span", { class: "number" }, count(number)))));
    put(tree, draw(others.filter(takes(asked)), children, { filtered: Boolean(asked.filter || asked.state || asked.replica), several: names.length > 1 }));
    put(foot, h("p", { class: "quiet figure" }, children.matched ? `${children.offset + 1} to ${children.offset + children.rows.length} of ${children.matched} delivery actors${sums ? `, ${count(sums.restarts)} restarts of all since the start` : ""}` : ""),
      h("button", { "data-step": -PAGE, disabled: children.offset === 0 }, "Back"), h("button", { "data-step": PAGE, disabled: children.next === null }, "Next"));
  };
  const look = every(2000, async () => {
    await load();
    show();
  });
  const again = (change) => {
    Object.assign(asked, change);
    return look();
  };
  let typing;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => again({ filter: search.value, offset: 0 }), 150); });
  on(whose, "change", "select", ({ value }) => again({ replica: value, offset: 0 }));
  on(states, "click", "[data-state]", (button) => again({ state: button.dataset.state, offset: 0 }));
  on(foot, "click", "[data-step]", (button) => again({ offset: Math.max(0, asked.offset + Number(button.dataset.step)) }));
  on(tree, "click", "[data-do]", async ({ dataset }) => { if (await restart(dataset.kind, dataset.id, dataset.replica)) again({}); });
  show();
  listen("snapshot", show);
}

// As the service does with those of clients.
const takes = ({ filter, state }) => (actor) => (!filter || actor.kind.includes(filter.toLowerCase())) &&
  (!state || (state === "problem" ? actor.state !== "running" || actor.restarts > 0 : actor.state === state));

const columns = (several) => [
  { name: "Actor", wide: "p20", of: (actor) => (actor.kind === "delivery" ? client_link(actor.id) : [actor.kind, actor.id && ` ${actor.id}`]) },
  several && { name: "Replica", wide: "w150", of: (actor) => actor.replica, title: (actor) => actor.replica },
  { name: "State", kind: "state", wide: "w120", of: (actor) => badge(actor.state) },
  { name: "Restarts", kind: "n", wide: "w80", of: (actor) => count(actor.restarts) },
  { name: "Up", kind: "n", wide: "w100", extra: true, of: (actor) => span(actor.uptime_seconds * 1000) },
  { name: "Moved", kind: "n", wide: "w100", of: (actor) => (actor.progress_seconds_ago < 2 ? "now" : `${span(actor.progress_seconds_ago * 1000)} ago`), title: () => "When it last took a message" },
  { name: "Waits", kind: "n", wide: "w70", extra: true, of: (actor) => actor.mailbox === null ? "–" : count(actor.mailbox), title: (actor) => actor.mailbox === null ? "It has no queue: it takes each message as it comes" : "What waits for it" },
  { name: "Last message", wide: "w150", extra: true, code: true, of: (actor) => actor.last_message ?? "–" },
  { name: "Why it broke last", kind: "cut", spare: true, of: (actor) => cause(actor) },
  { name: "Do", unseen: true, kind: "acts", wide: "w90", of: (actor) => h("div", { class: "buttons" }, deed("restart", "Restart", { "data-kind": actor.kind, "data-id": actor.id, "data-replica": actor.replica, "aria-label": `Restart ${actor.kind} ${actor.id}` })) },
].filter(Boolean);

const row = (shown, actor) => h("tr", { "data-key": `${actor.kind}/${actor.id}/${actor.replica}`, tabindex: "-1", class: actor.kind === "delivery" ? "grandchild" : "child" }, shown.map((column, at) => cell(column, at, actor)));

function draw(others, children, { filtered, several }) {
  const shown = columns(several);
  const named = new Set(GROUPS.flatMap(([, kinds]) => kinds));
  const groups = [...GROUPS, ["Others", [...new Set(others.map(({ kind }) => kind))].filter((kind) => !named.has(kind))]];
  const bodies = groups.map(([title, kinds]) => {
    const rows = [...kinds.flatMap((kind) => others.filter((actor) => actor.kind === kind)), ...(kinds.includes("delivery") ? children.rows : [])];
    return rows.length > 0 && h("tbody", { "data-key": title }, h("tr", {}, h("th", { class: "group", scope: "rowgroup", colspan: shown.length }, title)), rows.map((actor) => row(shown, actor)));
  }).filter(Boolean);
  if (!bodies.length) return h("p", { class: "empty" }, filtered ? "No actor is so." : "They are asked within a second.");
  return h("table", { class: "rows", "aria-label": "Actors" }, h("colgroup", {}, shown.map((column) => h("col", { class: [column.wide, column.extra && "extra"].filter(Boolean).join(" ") || undefined }))),
    h("thead", {}, h("tr", {}, shown.map((column) => h("th", { scope: "col", class: [column.kind, column.extra && "extra"].filter(Boolean).join(" ") || undefined }, column.unseen ? h("span", { class: "unseen" }, column.name) : column.name)))), bodies);
}
