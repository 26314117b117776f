// The queues and the schedules, side by side.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./badge.js";
import { table } from "./table.js";
import { QUEUE_ACTIONS, pause_button } from "./queue_actions.js";
import { deed } from "./session.js";
import { decided } from "./words.js";
import { count, plain, span, time, until } from "./format.js";

export const STATES = ["active", "waiting", "prioritized", "delayed", "completed", "failed"];

export async function queues({ root, live, every, listen }) {
  let all = (await get("/v1/queues")).queues;
  const list = h("section", { class: "card flush" });
  const times = h("section", { class: "card flush" });
  root.append(h("h1", { class: "unseen" }, "Queues"), list, times);
  const show = () => {
    const now = live.now();
    put(list, h("div", { class: "title" }, h("h2", {}, "Queues")), table("Queues", queue_columns(now), all, { key: ({ name }) => name }));
    const schedules = all.flatMap((queue) => queue.schedules.map((schedule) => ({ ...schedule, queue: queue.name })));
    put(times, h("div", { class: "title" }, h("h2", {}, "Schedules")), schedules.length ? schedule_table(schedules, now) : h("p", { class: "empty" }, "Nothing is scheduled."));
  };
  const again = every(2000, async () => {
    all = (await get("/v1/queues")).queues;
    show();
  });
  show();
  on(root, "click", "[data-do]", async ({ dataset }) => {
    if (await QUEUE_ACTIONS[dataset.do](dataset.queue, dataset.id)) again();
  });
  listen("snapshot", show);
}

const queue_columns = (now) => [
  { name: "Queue", of: (queue) => h("a", { href: `#/queues/${segment(queue.name)}` }, queue.name) },
  { name: "State", kind: "state", wide: "w120", of: (queue) => (queue.paused ? badge("paused") : badge("running")), title: (queue) => pause_note(queue, now) },
  ...STATES.map((state) => ({ name: state[0].toUpperCase() + state.slice(1), kind: "n", wide: state === "prioritized" || state === "completed" ? "w100" : "w90", extra: state === "prioritized", of: (queue) => (queue.counts[state] ?
    h("a", { href: `#/queues/${segment(queue.name)}/${state}`, class: state === "failed" ? "bad-text" : undefined }, count(queue.counts[state])) : 0) })),
  { name: "Oldest waits", kind: "n", wide: "w120", extra: true, spare: true, of: (queue) => span(queue.oldest_waiting_ms) },
  { name: "Do", unseen: true, kind: "acts", wide: "w100", of: (queue) => h("div", { class: "buttons" }, pause_button(queue)) },
];

export const pause_note = ({ pause }, now) => (pause ? `Paused ${decided(pause, now)}` : undefined);

const cadence = (text) => (/^\d+$/.test(text) ? `every ${span(Number(text))}` : text);

export const schedule_table = (schedules, now) => table("Schedules", [
  { name: "Schedule", of: (schedule) => h("code", {}, plain(schedule.id)) },
  { name: "Queue", of: (schedule) => schedule.queue },
  { name: "When", wide: "w150", of: (schedule) => cadence(plain(schedule.cadence)) },
  { name: "Next", kind: "n", wide: "w120", of: (schedule) => until(schedule.next_ms, now), title: (schedule) => time(schedule.next_ms) },
  { name: "Do", unseen: true, kind: "acts", wide: "w100", of: (schedule) => h("div", { class: "buttons" },
    deed("unschedule", "Remove", { class: "plain", "data-queue": schedule.queue, "data-id": schedule.id, "aria-label": `Remove the schedule ${schedule.id}` })) },
], schedules, { key: ({ id }) => id });
