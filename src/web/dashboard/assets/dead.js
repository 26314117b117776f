// What was given up: payloads of clients, and source records that could not be read.

import { h, on, put } from "./dom.js";
import { api, get, segment } from "./api.js";
import { act, say } from "./dialog.js";
import { client_link } from "./overview.js";
import { ago, bytes, count, time } from "./format.js";

const PAGE = 50;

export async function dead({ root, live, parts: [kind], query, every }) {
  const source = kind === "source";
  const client = query.get("client") ?? "";
  const superseded = query.get("state") === "superseded";
  const path = source ? "/v1/dead-letters/source" : "/v1/dead-letters";
  const first = { limit: PAGE, ...(source ? {} : { client, state: superseded ? "superseded" : "" }) };
  let { dead_letters: letters, next } = await get(path, first);
  let pages = 1;
  const body = h("div", {});
  const detail = h("div", {});
  const tab = (href, text, here) => h("a", { href, "aria-current": here && "page" }, text);
  root.append(h("h1", {}, "Dead letters"), h("nav", { class: "tabs", "aria-label": "Kinds" }, tab("#/dead", "Payloads", !source && !superseded), tab("#/dead?state=superseded", "Superseded", superseded), tab("#/dead/source", "Source records", source)),
    h("p", { class: "quiet" }, source ? "Records of the source stream that could not be read. They were passed over, nothing else was." :
      superseded ? "Given up, and then a newer change of the same document was delivered: there is nothing left to send." :
      "Payloads that the client refused too often, or whose client is gone. They are kept until they are purged."),
    client && h("p", {}, "Of ", client_link(client), " only. ", h("a", { href: "#/dead" }, "Show all")), body, detail);
  const show = () => {
    const now = live.now();
    put(body, letters.length ? [h("div", { class: "card flush" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Dead letters" }, (source ? source_table : payload_table)(letters, now))),
      next !== null && h("div", { class: "foot" }, h("button", { "data-act": "more" }, "More"))] : h("p", { class: "card empty" }, "There are none."));
  };
  const again = async () => {
    // Who has read on is not thrown back.
    if (pages > 1) return;
    try { ({ dead_letters: letters, next } = await get(path, first)); } catch { return; }
    show();
  };
  const more = async () => {
    try {
      const found = await get(path, { ...first, after: next });
      letters = [...letters, ...found.dead_letters];
      ({ next } = found);
      pages += 1;
    } catch (error) { say(error.message, "bad"); }
    show();
  };
  on(body, "click", "[data-act]", async (button) => {
    const { act: action, client, event, id } = button.dataset;
    if (action === "more") return more();
    if (action === "body") return show_body(client, event);
    if (await ACTIONS[action](client, event, id)) {
      letters = letters.filter((letter) => action === "redrive" || !(letter.client === client && letter.event_id === event));
      show();
    }
  });
  const show_body = async (client, event) => {
    try {
      const letter = await get(letter_path(client, event), { body: true });
      let text = letter.body ?? letter.body_base64;
      // Laid out for reading only when that changes no number.
      try { const laid = JSON.stringify(JSON.parse(text), null, 2); if (JSON.stringify(JSON.parse(text)) === text) text = laid; } catch { /* As it is. */ }
      put(detail, h("section", { class: "card", tabindex: "-1" }, h("h2", {}, `Payload ${event}`), h("pre", { tabindex: "0" }, text)));
      detail.firstChild.focus();
      detail.scrollIntoView({ block: "nearest" });
    } catch (error) { say(error.message, "bad"); }
  };
  show();
  every(4000, again);
}

const letter_path = (client, event) => `/v1/dead-letters/${segment(client)}/${segment(event)}`;

const ACTIONS = {
  async replay(client, event) {
    // Asked for first without force: whoever would send a receiver back is told so, and asked.
    try {
      await api("POST", `${letter_path(client, event)}/replay`);
      say(`${event} is sent again`);
      return true;
    } catch (error) {
      if (error.status !== 409) { say(error.message, "bad"); return false; }
      return act({ question: { title: "Replay it all the same?", text: [error.message, "The receiver may then hold an older state of this document than before."], button: "Replay", danger: true },
        path: `${letter_path(client, event)}/replay?force=true`, done: `${event} is sent again` });
    }
  },
  remove: (client, event) => act({ question: { title: "Delete this dead letter?", text: "Its payload is gone then, and can never be sent.", button: "Delete", danger: true },
    method: "DELETE", path: letter_path(client, event), done: `${event} is deleted` }),
  redrive: (_, __, id) => act({ question: { title: "Read this record again?", text: "If this version can read it, it goes into the source stream once more, as another event.", button: "Read again" },
    path: `/v1/dead-letters/source/${segment(id)}/redrive`, done: "It was read and is on its way" }),
};

const head = (names) => h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));

function payload_table(letters, now) {
  return h("table", { class: "rows" }, head(["Document", "Client", "Reason", "Attempts", "Failed first", "Failed last", "Size", "Do"]), h("tbody", {}, letters.map((letter) => {
    const button = (action, text, kind = "") => h("button", { class: kind, "data-act": action, "data-client": letter.client, "data-event": letter.event_id, "aria-label": `${text} ${letter.document}` }, text);
    return h("tr", { "data-key": `${letter.client}/${letter.event_id}` }, h("th", { scope: "row", class: "code", title: letter.event_id }, letter.document),
      h("td", { "data-name": "Client" }, client_link(letter.client)), h("td", { "data-name": "Reason", class: "why" }, letter.reason), h("td", { class: "figure", "data-name": "Attempts" }, count(letter.attempts)),
      h("td", { class: "figure", "data-name": "Failed first", title: time(letter.first_failed_at_ms) }, ago(letter.first_failed_at_ms, now)), h("td", { class: "figure", "data-name": "Failed last", title: time(letter.last_failed_at_ms) }, ago(letter.last_failed_at_ms, now)),
      h("td", { class: "figure", "data-name": "Size" }, bytes(letter.bytes)), h("td", { "data-name": "Do" }, h("div", { class: "buttons" }, button("replay", "Replay"), button("body", "Payload", "plain"), button("remove", "Delete", "plain"))));
  })));
}

function source_table(letters, now) {
  return h("table", { class: "rows" }, head(["Place", "Reason", "When", "Do"]), h("tbody", {}, letters.map((letter) => h("tr", { "data-key": letter.id },
    h("th", { scope: "row", class: "code" }, `${letter.topic} ${letter.partition}/${letter.offset}`), h("td", { class: "why", "data-name": "Reason" }, letter.reason),
    h("td", { class: "figure", "data-name": "When", title: time(letter.timestamp_ms) }, ago(letter.timestamp_ms, now)),
    h("td", { "data-name": "Do" }, letter.record ? h("button", { "data-act": "redrive", "data-id": letter.id, "aria-label": `Read again ${letter.topic} ${letter.offset}` }, "Read again") : "not kept")))));
}
