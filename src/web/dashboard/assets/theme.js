// Light or dark: as the system says, until it is said here.

import { h } from "./dom.js";

const KEY = "dispatcher-theme";
const ORDER = { "": "dark", dark: "light", light: "" };
const NAMES = { "": "as the system", dark: "dark", light: "light" };

const stored = () => { try { return localStorage.getItem(KEY) ?? ""; } catch { return ""; } };

function use(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

export function theme_button() {
  use(stored());
  const name = () => `Colours: ${NAMES[stored()]}`;
  const button = h("button", { class: "plain", title: name(), "aria-label": name(), onclick: () => {
    const next = ORDER[stored()] ?? "";
    try { localStorage.setItem(KEY, next); } catch { /* Then it lasts as long as the page. */ }
    use(next);
    button.title = name();
    button.setAttribute("aria-label", name());
  } }, "◐");
  return button;
}
