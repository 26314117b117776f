// The actors of this process. What they are comes from their cells: one that is stuck is shown like any other.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./chart.js";
import { act } from "./dialog.js";
import { client_link } from "./overview.js";
import { count, span } from "./format.js";

const PAGE = 50;
const STATES = ["", "problem", "running", "restarting", "failed"];

export async function actors({ root, live, query, every, listen }) {
  const asked = { filter: query.get("filter") ?? "", kind: query.get("kind") ?? "", state: query.get("state") ?? "", offset: 0, limit: PAGE };
  let page = await get("/v1/actors", asked);
  const search = h("input", { type: "search", id: "search", value: asked.filter, placeholder: "Id or cause  ( / )", maxlength: "200", autocomplete: "off" });
  const state = h("select", { id: "state" }, STATES.map((one) => h("option", { value: one, selected: one === asked.state }, one === "" ? "All" : one === "problem" ? "Broke or restarted" : one)));
  const kinds = h("nav", { class: "tabs", "aria-label": "Kinds" });
  const table = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  root.append(h("h1", {}, "Actors"), h("p", { class: "quiet" }, "Of this replica, each under its supervisor: it breaks, backs off, starts again, and is given up after too many failures."),
    h("div", { class: "controls" }, h("label", { for: "search", class: "unseen" }, "Search"), search, h("label", {}, "State ", state)), kinds, table, foot);
  const show = () => {
    const all = live.snapshot?.overview.actors;
    put(kinds, h("button", { "data-kind": "", "aria-pressed": String(asked.kind === "") }, "all", h("span", { class: "number" }, all ? count(all.total) : "")),
      Object.entries(all?.kinds ?? {}).map(([kind, number]) => h("button", { "data-kind": kind, "aria-pressed": String(kind === asked.kind) }, kind, h("span", { class: "number" }, count(number)))));
    put(table, page.rows.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Actors" }, h("table", { class: "rows" },
      h("thead", {}, h("tr", {}, ["Kind", "Id", "State", "Up", "Restarts", "Last message", "Progress", "Last cause", "Do"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, page.rows.map((actor) => h("tr", { "data-key": `${actor.kind}/${actor.id}` }, h("th", { scope: "row" }, actor.kind),
        h("td", { "data-name": "Id" }, actor.kind === "delivery" ? client_link(actor.id) : actor.id || "–"), h("td", { "data-name": "State" }, badge(actor.state)),
        h("td", { class: "figure", "data-name": "Up" }, span(actor.uptime_seconds * 1000)), h("td", { class: "figure", "data-name": "Restarts" }, count(actor.restarts)),
        h("td", { class: "code", "data-name": "Last message" }, actor.last_message ?? "–"), h("td", { class: "figure", "data-name": "Progress" }, `${span(actor.progress_seconds_ago * 1000)} ago`),
        h("td", { class: "why", "data-name": "Last cause" }, cause(actor) ?? "–"),
        h("td", { "data-name": "Do" }, h("button", { "data-act": "restart", "data-kind": actor.kind, "data-id": actor.id, "aria-label": `Restart ${actor.kind} ${actor.id}` }, "Restart"))))))) :
      h("p", { class: "empty" }, "No actor is so."));
    put(foot, h("p", { class: "quiet" }, page.matched ? `${page.offset + 1} to ${page.offset + page.rows.length} of ${page.matched}` : ""),
      h("button", { "data-step": -PAGE, disabled: page.offset === 0 }, "Back"), h("button", { "data-step": PAGE, disabled: page.next === null }, "Next"));
  };
  const load = async (change) => {
    Object.assign(asked, change);
    try { page = await get("/v1/actors", asked); } catch { return; }
    show();
  };
  let typing;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => load({ filter: search.value, offset: 0 }), 200); });
  state.addEventListener("change", () => load({ state: state.value, offset: 0 }));
  on(kinds, "click", "[data-kind]", (button) => load({ kind: button.dataset.kind, offset: 0 }));
  on(foot, "click", "[data-step]", (button) => load({ offset: Math.max(0, asked.offset + Number(button.dataset.step)) }));
  on(table, "click", "[data-act]", async (button) => { if (await restart(button.dataset.kind, button.dataset.id)) load({}); });
  show();
  listen("snapshot", show);
  every(2000, () => load({}));
}

// Why it last broke, as one line.
export function cause({ last_cause }) {
  if (!last_cause) return undefined;
  const { reason, message, place, lasted_seconds, seconds_ago } = last_cause;
  const lasted = lasted_seconds === undefined ? "" : `after ${span(lasted_seconds * 1000)}`;
  return [`${reason.replaceAll("_", " ")}: ${message}`, place, lasted, `${span(seconds_ago * 1000)} ago`].filter(Boolean).join(", ");
}

export const restart = (kind, id) => act({ question: { title: `Restart ${kind} ${id}?`, button: "Restart",
  text: kind === "delivery" ? "Requests on the wire end, and their changes are sent again: the webhook may get some twice. Nothing is lost." : "It begins anew with its mailbox. Nothing is lost." },
  path: `/v1/actors/${segment(kind)}/${segment(id || "-")}/restart`, done: `${kind} ${id} begins anew` });
