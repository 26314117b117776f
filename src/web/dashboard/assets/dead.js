// What was given up: payloads of clients, and source records that could not be read.

import { h, on, put } from "./dom.js";
import { get } from "./api.js";
import { say } from "./dialog.js";
import { is_read, opens, table } from "./table.js";
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
  const client = query.get("client") ?? "";
  const path = kind === "source" ? "/v1/dead-letters/source" : "/v1/dead-letters";
  const first = { limit: PAGE, ...(kind === "source" ? {} : { client, state: kind === "superseded" ? "superseded" : "" }) };
  let { dead_letters: letters, next } = await get(path, first);
  let pages = 1;
  const list = h("div", { class: "card flush" });
  const foot = h("div", { class: "foot" });
  const tab = (href, text, here) => h("a", { href, "aria-current": here === kind && "page" }, text);
  root.append(h("h1", { class: "unseen" }, "Dead letters"), h("nav", { class: "tabs", "aria-label": "Kinds" }, tab("#/dead", "Payloads", "dead"), tab("#/dead?state=superseded", "Superseded", "superseded"), tab("#/dead/source", "Source records", "source")),
    h("p", { class: "quiet" }, ABOUT[kind], client && [" Of ", client_link(client), " only: ", h("a", { href: "#/dead" }, "show all"), "."]), list, foot);
  opens(list);
  const show = () => {
    const now = live.now();
    put(list, !letters.length ? h("p", { class: "empty" }, NONE[kind]) : kind === "source" ? source_table(letters, now) : payload_table(letters, now));
    put(foot, letters.length > 0 && h("p", { class: "quiet figure" }, `${count(letters.length)} shown, the newest first`), next !== null && h("button", { "data-go": "more" }, "More"));
  };
  const again = async () => {
    // Who has read on is not thrown back, and what is read does not move.
    if (pages > 1 || is_read(list)) return;
    try { ({ dead_letters: letters, next } = await get(path, first)); } catch { return; }
    show();
  };
  on(foot, "click", "[data-go]", async () => {
    try {
      const found = await get(path, { ...first, after: next });
      letters = [...letters, ...found.dead_letters];
      ({ next } = found);
      pages += 1;
    } catch (error) { say(error.message, "bad"); }
    show();
  });
  on(list, "click", "[data-payload]", ({ dataset }) => show_payload(dataset.client, dataset.payload));
  on(list, "click", "[data-do]", async ({ dataset }) => {
    const { do: action, client: whose, event, id } = dataset;
    if (!await DEAD_ACTIONS[action](whose, event, id)) return;
    letters = letters.filter((letter) => action === "redrive" || letter_path(letter.client, letter.event_id) !== letter_path(whose, event));
    show();
  });
  show();
  listen("snapshot", show);
  every(4000, again);
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
