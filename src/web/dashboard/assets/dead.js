// What was given up: payloads of clients, and source records that could not be read.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { List } from "./list.js";
import { opens, table } from "./table.js";
import { DEAD_ACTIONS, letter_path, show_payload } from "./dead_actions.js";
import { deed, may_act } from "./session.js";
import { client_link, document_name, reason } from "./words.js";
import { ago, bytes, count, plain, time } from "./format.js";

const PAGE = 50;
const ABOUT = {
  dead: "Payloads that the client refused too often, or that broke their actor. They are kept until they are purged, and can be sent again.",
  superseded: "Given up, and then a newer change of the same document was delivered: there is nothing left to send.",
  source: "Records of the source stream that could not be read. They were passed over, nothing else was.",
};
const NONE = { dead: "None. What a webhook refuses ten times would stand here.", superseded: "None.", source: "None. Every record could be read." };

export async function dead({ root, live, parts: [part], query, every, listen }) {
  const kind = part === "source" ? "source" : query.get("state") === "superseded" ? "superseded" : "dead";
  const asked = Object.fromEntries(["client", "from", "to", "of"].map((name) => [name, kind === "source" ? "" : query.get(name) ?? ""]));
  const ask = asks(kind, asked);
  const first = await ask();
  const body = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  const news = h("div", { class: "ends" });
  const is_narrow = Object.values(asked).some(Boolean);
  const tab = (path, text, here) => h("a", { href: path, "aria-current": here === kind && "page" }, text);
  root.append(h("h1", { class: "unseen" }, "Dead letters"), h("div", { class: "controls" }, h("nav", { class: "tabs", "aria-label": "Kinds" }, tab("#/dead", "Payloads", "dead"), tab("#/dead?state=superseded", "Superseded", "superseded"), tab("#/dead/source", "Source records", "source")), news),
    h("p", { class: "quiet" }, ABOUT[kind], asked.client && [" Of ", client_link(asked.client), " only: ", h("a", { href: "#/dead" }, "show all"), "."]), kind === "source" ? "" : filters(kind, asked, is_narrow), body, foot);
  opens(body);
  const show = () => {
    const now = live.now();
    put(news, list.button());
    put(body, !list.rows.length ? h("p", { class: "empty" }, is_narrow ? "None is so." : NONE[kind]) : kind === "source" ? source_table(list.rows, now) : payload_table(list.rows, now));
    put(foot, list.rows.length > 0 && h("p", { class: "quiet figure" }, `${count(list.rows.length)} shown${asked.of ? "" : ", the newest first"}`), list.next !== null && h("button", { "data-go": "more" }, "More"));
  };
  const list = new List(first, { key: kind === "source" ? ({ id }) => id : ({ client, event_id }) => letter_path(client, event_id), node: body, show });
  on(foot, "click", "[data-go]", () => list.more(ask));
  on(body, "click", "[data-payload]", ({ dataset }) => show_payload(dataset.client, dataset.payload));
  on(body, "click", "[data-do]", async ({ dataset }) => {
    const { do: action, client: whose, event, id } = dataset;
    if (!await DEAD_ACTIONS[action](whose, event, id)) return;
    list.remove((letter) => action !== "redrive" && letter_path(letter.client, letter.event_id) === letter_path(whose, event));
  });
  show();
  listen("snapshot", show);
  every(4000, async () => list.offer(await ask()));
}

// What is asked, a page at a time. Of a client a document's are found among all that it has in the stash, and one by its webhook-id.
function asks(kind, { client, from, to, of }) {
  const state = kind === "superseded" ? kind : "dead";
  if (client && of && !of.includes(":")) return async () => {
    try { return { rows: [await get(letter_path(client, of))], next: null }; } catch (error) {
      if (error.status !== 404) throw error;
      return { rows: [], next: null };
    }
  };
  if (client && of) return (after) => get(`/v1/clients/${segment(client)}/stash`, { limit: PAGE, state, document: of, after });
  const at = (text) => (text ? Date.parse(text) || undefined : undefined);
  const path = kind === "source" ? "/v1/dead-letters/source" : "/v1/dead-letters";
  const more = kind === "source" ? {} : { client, state, from_ms: at(from), to_ms: at(to) };
  return async (after) => {
    const { dead_letters: rows, next } = await get(path, { limit: PAGE, ...more, after });
    return { rows, next };
  };
}

function filters(kind, asked, is_narrow) {
  const field = (name, text, more) => h("label", {}, more?.type && `${text} `, h("input", { name, value: asked[name], autocomplete: "off", placeholder: text, "aria-label": text, ...more }));
  const form = h("form", { class: "controls filters", onsubmit: (event) => {
    event.preventDefault();
    const kept = [...new FormData(form)].filter(([, value]) => value);
    if (kind === "superseded") kept.push(["state", kind]);
    location.hash = `#/dead${kept.length ? `?${new URLSearchParams(kept)}` : ""}`;
  } }, field("client", "Client", { maxlength: "512" }), field("of", "webhook-id or document", { maxlength: "600", title: "Of this client; a document is <db>.<collection>:<id>" }),
    field("from", "First failed from", { type: "datetime-local" }), field("to", "to", { type: "datetime-local" }), h("button", {}, "Find"), is_narrow && h("a", { href: "#/dead" }, "All"));
  const whose = form.elements.client;
  form.elements.of.addEventListener("input", ({ target }) => { whose.required = Boolean(target.value); });
  return form;
}

function payload_table(letters, now) {
  const buttons = (letter) => {
    const of = { class: undefined, "data-client": letter.client, "data-event": letter.event_id };
    return h("div", { class: "buttons" }, deed("replay", "Replay", { ...of, "aria-label": `Replay ${letter.document}` }),
      // It may hold what only those may see who answer for it.
      may_act() && h("button", { class: "plain", "data-payload": letter.event_id, "data-client": letter.client, "data-key": "payload", "aria-label": `Payload ${letter.document}` }, "Payload"),
      deed("remove", "Delete", { ...of, class: "plain", "aria-label": `Delete ${letter.document}` }));
  };
  return table("Dead letters", [
    { name: "Document", wide: "p30", of: (letter) => document_name(letter.document), title: (letter) => letter.event_id },
    { name: "Client", wide: "w150", kind: "long", of: (letter) => client_link(letter.client) },
    { name: "Why", kind: "cut", of: (letter) => reason(letter.reason) },
    { name: "Attempts", kind: "n", wide: "w80", of: (letter) => count(letter.attempts) },
    { name: "Failed last", kind: "n", wide: "w100", of: (letter) => ago(letter.last_failed_at_ms, now), title: (letter) => `first ${time(letter.first_failed_at_ms)}, last ${time(letter.last_failed_at_ms)}` },
    { name: "Size", kind: "n", wide: "w80", extra: true, of: (letter) => bytes(letter.bytes) },
    { name: "Do", unseen: true, kind: "acts", wide: "w240", of: buttons }], letters, { key: (letter) => `${letter.client}/${letter.event_id}` });
}

const source_table = (letters, now) => table("Source records", [
  { name: "Place", of: (letter) => h("code", {}, plain(`${letter.topic} ${letter.partition}/${letter.offset}`)) },
  { name: "Why", kind: "cut", of: (letter) => plain(letter.reason) },
  { name: "When", kind: "n", wide: "w120", of: (letter) => ago(letter.timestamp_ms, now), title: (letter) => time(letter.timestamp_ms) },
  { name: "Do", unseen: true, kind: "acts", wide: "w150", of: (letter) => (letter.record ? h("div", { class: "buttons" }, deed("redrive", "Read again", { "data-id": letter.id, "aria-label": `Read again ${letter.topic} ${letter.offset}` })) : "not kept") },
], letters, { key: ({ id }) => String(id) });
