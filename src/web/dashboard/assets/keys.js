// The keyboard: everything that is done often needs no mouse.

import { h } from "./dom.js";
import { badge } from "./badge.js";
import { show_dialog } from "./dialog.js";

const GO = { o: "overview", c: "clients", q: "queues", a: "actors", d: "dead", e: "events", s: "system" };
const KEYS = [[["/"], "search"], [["↓", "↑"], "the next row, the one before (j, k)"], [["Enter"], "open the row"], [["Space"], "its long texts, whole"], [["Esc"], "leave the search; go up a level"],
  [["g", "o"], "Overview"], [["g", "c"], "Clients"], [["g", "q"], "Queues"], [["g", "a"], "Actors"], [["g", "d"], "Dead letters"], [["g", "e"], "Events"], [["g", "s"], "System"], [["?"], "this help"]];
const STATES = [["healthy", "is sent everything at once"], ["degraded", "its webhook fails; one change at a time is tried"], ["draining", "works again; what waited goes out"],
  ["paused", "an operator stopped it; changes wait"], ["disabled", "off; new changes are skipped"]];

export const help = () => show_dialog("Keys and states", "large", h("table", { "aria-label": "Keys" }, h("tbody", {}, KEYS.map(([keys, text]) =>
  h("tr", {}, h("td", {}, keys.map((key) => [h("kbd", {}, key), " "])), h("td", {}, text))))),
h("h2", {}, "States of a client"), h("table", { "aria-label": "States" }, h("tbody", {}, STATES.map(([state, text]) => h("tr", {}, h("td", {}, badge(state)), h("td", {}, text))))));

export function listen_to_keys(main) {
  let goes_at = 0;
  addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || target.closest("dialog")) return;
    const act = target.matches("input, select, textarea") ? in_field(main, target, key) : on_page(main, key, event.timeStamp - goes_at < 1500);
    goes_at = act === "goes" ? event.timeStamp : 0;
    if (act) event.preventDefault();
  });
}

function in_field(main, field, key) {
  if (!field.matches("[type=search]")) return false;
  if (key === "ArrowDown") return walk(main, 1);
  if (key !== "Escape") return false;
  if (field.value) {
    field.value = "";
    field.dispatchEvent(new Event("input"));
  } else field.blur();
  return true;
}

function on_page(main, key, goes) {
  if (goes && GO[key]) {
    location.hash = `#/${GO[key]}`;
    return true;
  }
  switch (key) {
    case "g": return "goes";
    case "?": help(); return true;
    case "/": {
      const search = main.querySelector("input[type=search]");
      search?.focus();
      return Boolean(search);
    }
    case "ArrowDown": case "j": return walk(main, 1);
    case "ArrowUp": case "k": return walk(main, -1);
    case "Enter": {
      const row = document.activeElement;
      if (!row?.matches("tr")) return false;
      row.querySelector("a, button")?.click();
      return true;
    }
    case " ": {
      const cut = document.activeElement?.matches("tr") ? [...document.activeElement.querySelectorAll("td.cut")] : [];
      const is_open = cut.some((one) => one.hasAttribute("open"));
      cut.forEach((one) => one.toggleAttribute("open", !is_open));
      return cut.length > 0;
    }
    case "Escape": {
      const here = document.activeElement;
      if (main.contains(here) && here !== main) here.blur();
      else main.querySelector(".crumbs a:last-of-type")?.click();
      return true;
    }
    default: return false;
  }
}

function walk(main, step) {
  if (document.activeElement?.matches("pre, select")) return false;
  const rows = [...main.querySelectorAll("tbody tr[tabindex]")];
  if (!rows.length) return false;
  const here = rows.indexOf(document.activeElement?.closest("tr"));
  const seen = rows.findIndex((row) => row.getBoundingClientRect().top >= 48);
  const next = here >= 0 ? here + step : Math.max(0, seen);
  rows[Math.min(rows.length - 1, Math.max(0, next))].focus();
  return true;
}
