// What can be done with dead letters.

import { h } from "./dom.js";
import { api, get, segment } from "./api.js";
import { act, say, show_dialog } from "./dialog.js";
import { plain } from "./format.js";
import { laid_out } from "./json.js";

export const letter_path = (client, event) => `/v1/dead-letters/${segment(client)}/${segment(event)}`;

// A payload is only read when it is asked for.
export async function show_payload(client, event, path = letter_path(client, event)) {
  try {
    const letter = await get(path, { body: true });
    const text = letter.body === undefined ? letter.body_base64 : laid_out(letter.body);
    show_dialog(`Payload of ${plain(letter.document)}`, "large", h("p", { class: "quiet" }, `${event} for ${plain(client)}`), h("pre", { tabindex: "0" }, plain(text)));
  } catch (error) { say(error.message, "bad"); }
}

export const DEAD_ACTIONS = {
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
