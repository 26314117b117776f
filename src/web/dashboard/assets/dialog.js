// Asks before something is done, does it, and says what came of it.

import { h } from "./dom.js";
import { api } from "./api.js";

const said = h("div", { class: "said", role: "status", "aria-live": "polite" });
document.body.append(said);

export function say(text, kind = "ok") {
  const note = h("p", { class: kind }, text);
  said.append(note);
  setTimeout(() => note.remove(), kind === "ok" ? 5000 : 12000);
}

function open(dialog, closed) {
  dialog.addEventListener("close", () => {
    dialog.remove();
    closed?.();
  });
  // A click beside it closes it.
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

// Something to read.
export function show_dialog(title, size, ...content) {
  const dialog = h("dialog", { class: size, "aria-labelledby": "shown" }, h("h2", { id: "shown" }, title), content,
    h("div", { class: "buttons" }, h("button", { autofocus: true, onclick: () => dialog.close() }, "Close")));
  open(dialog);
}

// Resolves to what was written into the reason, or undefined: not to be done.
export function ask({ title, text, button, danger, reason }) {
  return new Promise((resolve) => {
    const input = reason && h("input", { id: "why", maxlength: "200", autocomplete: "off" });
    const form = h("form", { method: "dialog" },
      h("h2", { id: "asked" }, title), [text].flat().map((line) => h("p", {}, line)),
      reason && h("label", { for: "why" }, "Reason (optional)"), input,
      h("div", { class: "buttons" },
        h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel"),
        h("button", { value: "yes", class: danger ? "danger" : "strong" }, button)));
    const dialog = h("dialog", { "aria-labelledby": "asked" }, form);
    open(dialog, () => resolve(dialog.returnValue === "yes" ? (input?.value ?? "") : undefined));
    // What destroys is not done by a thoughtless Enter.
    if (danger) form.querySelector(".plain").focus();
  });
}

// Does something once it is agreed to. Returns whether it was done.
export async function act({ question, method = "POST", path, body, done }) {
  const reason = question ? await ask(question) : "";
  if (reason === undefined) return false;
  const sent = question?.reason ? { ...body, reason } : body;
  try {
    const answer = await api(method, path, sent);
    say(typeof done === "function" ? done(answer) : done);
    return true;
  } catch (error) {
    say(error.message, "bad");
    return false;
  }
}
