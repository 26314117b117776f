// Who is signed in, and what they may do.

import { h } from "./dom.js";
import { api, get } from "./api.js";

export const session = { needs_token: false, signed_in: false, name: undefined, role: undefined };

// Where no roles are known, whoever is in may act; the service decides in any case.
export const may_act = () => session.role === undefined || session.role === null || session.role === "operator";

// A button that does something to the service; a viewer has none.
export const deed = (name, text, more) => may_act() && h("button", { "data-do": name, "data-key": name, ...more }, text);

export async function ask_session() {
  Object.assign(session, { name: undefined, role: undefined }, await get("/dashboard/session"));
  return session;
}

export function log_in_form(problem, done) {
  const input = h("input", { id: "token", type: "password", required: true, autocomplete: "current-password", "aria-describedby": "problem" });
  const note = h("p", { id: "problem", class: "notice", role: "alert", hidden: !problem }, problem ?? "");
  const form = h("form", { class: "card login", onsubmit: async (event) => {
    event.preventDefault();
    try {
      await api("PUT", "/dashboard/session", { token: input.value });
      await ask_session();
      done();
    } catch (error) {
      note.textContent = error.message;
      note.hidden = false;
      input.select();
    }
  } }, h("h1", {}, "Log in"), h("label", { for: "token" }, "Token"), input, note,
    h("button", { class: "strong" }, "Log in"),
    h("p", { class: "quiet" }, "Yours, if the service has tokens with names; else what it was started with: ", h("code", {}, "DISPATCHER_ADMIN_TOKEN"), "."));
  return { form, input };
}
