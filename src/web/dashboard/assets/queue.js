// One queue: its jobs, a state at a time.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./badge.js";
import { List } from "./list.js";
import { opens, table } from "./table.js";
import { QUEUE_ACTIONS, bulk_buttons, job_buttons, pause_button } from "./queue_actions.js";
import { STATES, pause_note, schedule_table } from "./queues.js";
import { ago, count, plain, span, until } from "./format.js";

const PAGE = 20;
const EMPTY = { active: "No job is at work.", waiting: "No job waits for a worker.", delayed: "No job waits for its time.", failed: "No job has failed." };

export async function queue({ root, live, parts: [name, wanted], query, every, listen }) {
  const find = async () => (await get("/v1/queues")).queues.find((queue) => queue.name === name);
  let shown = await find();
  if (!shown) throw new Error("There is no such queue.");
  // What is of interest first.
  const state = STATES.includes(wanted) ? wanted : ["active", "failed", "delayed", "waiting"].find((state) => shown.counts[state] > 0) ?? "waiting";
  const offset = Number(query.get("offset")) || 0;
  const load = async () => {
    const { jobs: rows, next } = await get(`/v1/queues/${segment(name)}/jobs`, { state, offset, limit: PAGE });
    return { rows, next };
  };
  const first = await load();
  const here = `#/queues/${segment(name)}`;
  const head = h("div", { class: "head" });
  const tabs = h("nav", { class: "tabs", "aria-label": "States" });
  const body = h("div", { class: "card flush" });
  const news = h("div", { class: "ends" });
  const foot = h("div", { class: "foot" });
  const times = h("section", { class: "card flush" });
  root.append(h("p", { class: "crumbs" }, h("a", { href: "#/queues" }, "Queues"), "/", h("bdi", {}, name)), head, h("div", { class: "controls" }, tabs, news), body, foot, times);
  opens(body);
  const show = () => {
    const now = live.now();
    put(head, h("h1", {}, name), shown.paused && [badge("paused"), h("span", { class: "quiet" }, pause_note(shown, now))], h("div", { class: "buttons" }, bulk_buttons(shown, state), pause_button(shown)));
    put(tabs, STATES.map((one) => h("a", { href: `${here}/${one}`, "aria-current": one === state && "page", class: shown.counts[one] ? undefined : "none" }, badge(one), h("span", { class: "number" }, count(shown.counts[one])))));
    const { rows: jobs, next } = list;
    put(news, list.button());
    put(body, jobs.length ? table("Jobs", job_columns(name, now), jobs, { key: ({ id }) => id }) : h("p", { class: "empty" }, EMPTY[state] ?? `No job is ${state}.`));
    put(foot, h("p", { class: "quiet figure" }, jobs.length ? `${offset + 1} to ${offset + jobs.length} of ${count(shown.counts[state])}` : ""),
      offset > 0 && h("a", { class: "button", href: `${here}/${state}?offset=${Math.max(0, offset - PAGE)}` }, "Back"), next !== null && jobs.length > 0 && h("a", { class: "button", href: `${here}/${state}?offset=${next}` }, "Next"));
    times.hidden = shown.schedules.length === 0;
    put(times, h("div", { class: "title" }, h("h2", {}, "Schedules")), schedule_table(shown.schedules.map((schedule) => ({ ...schedule, queue: name })), now));
  };
  // No button moves away from under a hand.
  const list = new List(first, { key: ({ id }) => id, node: body, show });
  const again = every(2000, async () => {
    shown = (await find()) ?? shown;
    list.offer(await load());
  });
  on(root, "click", "[data-do]", async ({ dataset }) => {
    if (await QUEUE_ACTIONS[dataset.do](dataset.queue, dataset.id, dataset.count, state)) again();
  });
  show();
  listen("snapshot", show);
}

const job_columns = (queue, now) => [
  { name: "Job", of: (job) => h("a", { href: `#/job/${segment(queue)}/${segment(job.id)}` }, plain(job.id)) },
  { name: "Name", of: (job) => plain(job.name) },
  { name: "Attempts", kind: "n", wide: "w100", of: (job) => attempts(job) },
  { name: "When", kind: "n", wide: "w150", of: (job) => when(job, now) },
  { name: "Why", kind: "cut", spare: true, of: (job) => plain(job.reason ?? "") },
  { name: "Do", unseen: true, kind: "acts", wide: "w180", of: (job) => h("div", { class: "buttons" }, job_buttons(queue, job)) },
];

export const attempts = (job) => (job.options.attempts > 1 && job.options.attempts < 1e6 ? `${job.attempts_made} of ${job.options.attempts}` : String(job.attempts_made));

export function when(job, now) {
  switch (job.state) {
    case "delayed": return `due ${until(job.due_ms, now)}`;
    case "active": return `for ${span(now - (job.started_ms ?? now))}`;
    case "completed": case "failed": return ago(job.finished_ms, now);
    default: return `added ${ago(job.created_ms, now)}`;
  }
}
