// The queues: what is in them, and what an operator does about it.

import { h, on, put } from "./dom.js";
import { get, segment } from "./api.js";
import { badge } from "./chart.js";
import { act } from "./dialog.js";
import { ago, count, span, until } from "./format.js";

const STATES = ["active", "waiting", "prioritized", "delayed", "completed", "failed"];
const PAGE = 20;

export async function queues({ root, live, parts: [name, state], query, every }) {
  let all = (await get("/v1/queues")).queues;
  const queue = all.find((queue) => queue.name === name);
  if (name && !queue) throw new Error("There is no such queue.");
  const body = h("div", {});
  root.append(name ? h("p", { class: "crumbs" }, h("a", { href: "#/queues" }, "Queues"), " / ", name) : "", h("h1", {}, name ?? "Queues"), body);
  const view = name ? await one(name, STATES.includes(state) ? state : undefined, Number(query.get("offset")) || 0, body, live) : many(body, live);
  const again = async () => {
    try {
      all = (await get("/v1/queues")).queues;
      await view.load?.();
    } catch { return; }
    view.show(all);
  };
  on(body, "click", "[data-act]", async (button) => {
    const { act: action, queue, id, count: number } = button.dataset;
    if (await ACTIONS[action](queue, id, number, view.state)) again();
  });
  view.show(all);
  every(2000, again);
}

function many(body, live) {
  return { show(all) {
    const now = live.now();
    put(body, h("div", { class: "grid" }, all.map((queue) => h("section", { class: "card", "data-key": queue.name },
      h("div", { class: "head" }, h("h2", {}, h("a", { href: `#/queues/${segment(queue.name)}` }, queue.name)), queue.paused && badge("paused"), pause(queue)),
      queue.pause && h("p", { class: "quiet" }, `by ${queue.pause.by} ${ago(queue.pause.since_ms, now)}${queue.pause.reason ? `: ${queue.pause.reason}` : ""}`),
      h("ul", { class: "plain phases" }, STATES.map((state) => h("li", {}, h("a", { href: `#/queues/${segment(queue.name)}/${state}` }, badge(state), h("span", { class: "figure" }, count(queue.counts[state])))))),
      h("p", { class: "quiet" }, queue.oldest_waiting_ms === null ? "No job waits." : `The oldest job that could run has waited ${span(queue.oldest_waiting_ms)}.`),
      queue.schedules.length > 0 && schedules(queue, now)))));
  } };
}

const pause = (queue) => h("button", { class: queue.paused ? "strong" : "", "data-act": queue.paused ? "resume" : "pause", "data-queue": queue.name }, queue.paused ? "Resume" : "Pause");

const cadence = (text) => (/^\d+$/.test(text) ? `every ${span(Number(text))}` : text);

const schedules = (queue, now) => [h("h3", {}, "Schedules"), h("ul", { class: "plain" }, queue.schedules.map((schedule) => h("li", { "data-key": schedule.id }, h("code", {}, schedule.id),
  h("span", { class: "quiet" }, `${cadence(schedule.cadence)}, next ${until(schedule.next_ms, now)}`),
  h("button", { class: "plain", "data-act": "unschedule", "data-queue": queue.name, "data-id": schedule.id, "aria-label": `Remove the schedule ${schedule.id}` }, "Remove"))))];

async function one(name, wanted, offset, body, live) {
  let jobs = [], next = null;
  let state = wanted;
  const load = async () => ({ jobs, next } = await get(`/v1/queues/${segment(name)}/jobs`, { state, offset, limit: PAGE }));
  if (!state) {
    const { counts } = await get(`/v1/queues/${segment(name)}`);
    state = ["active", "failed", "delayed", "waiting"].find((state) => counts[state] > 0) ?? "waiting";
  }
  await load();
  return { load, state, show(all) {
    const now = live.now();
    const queue = all.find((queue) => queue.name === name);
    const number = queue.counts[state];
    const here = `#/queues/${segment(name)}`;
    put(body, h("div", { class: "head" }, queue.paused && badge("paused"), pause(queue),
      state === "delayed" && number > 0 && bulk("promote_all", queue, number, "Promote all"), state === "failed" && number > 0 && bulk("retry_all", queue, number, "Retry all"),
      state !== "active" && number > 0 && bulk("clean", queue, number, "Remove all", "danger")),
    h("nav", { class: "tabs", "aria-label": "States" }, STATES.map((one) => h("a", { href: `${here}/${one}`, "aria-current": one === state && "page" }, one, h("span", { class: "number" }, count(queue.counts[one]))))),
    h("div", { class: "card flush" }, jobs.length ? h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Jobs" }, h("table", { class: "rows" },
      h("thead", {}, h("tr", {}, ["Job", "Name", "Attempts", "When", "Why", "Do"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, jobs.map((job) => h("tr", { "data-key": job.id }, h("th", { scope: "row" }, h("a", { href: `#/job/${segment(name)}/${segment(job.id)}` }, job.id)),
        h("td", { "data-name": "Name" }, job.name), h("td", { class: "figure", "data-name": "Attempts" }, attempts(job)), h("td", { class: "figure", "data-name": "When" }, when(job, now)),
        h("td", { class: "why", "data-name": "Why" }, job.reason ?? "–"), h("td", { "data-name": "Do" }, h("div", { class: "buttons" }, job_actions(name, job)))))))) :
      h("p", { class: "empty" }, `No job is ${state}.`)),
    h("div", { class: "foot" }, offset > 0 && h("a", { class: "button", href: `${here}/${state}?offset=${Math.max(0, offset - PAGE)}` }, "Back"), next !== null && jobs.length > 0 && h("a", { class: "button", href: `${here}/${state}?offset=${next}` }, "Next")),
    queue.schedules.length > 0 && h("section", { class: "card" }, schedules(queue, now)));
  } };
}

const bulk = (action, queue, number, text, kind = "") => h("button", { class: kind, "data-act": action, "data-queue": queue.name, "data-count": number, "data-key": action }, text);

export const attempts = (job) => (job.options.attempts > 1 && job.options.attempts < 1e6 ? `${job.attempts_made} of ${job.options.attempts}` : String(job.attempts_made));

export function when(job, now) {
  switch (job.state) {
    case "delayed": return `due ${until(job.due_ms, now)}`;
    case "active": return `for ${span(now - (job.started_ms ?? now))}`;
    case "completed": case "failed": return ago(job.finished_ms, now);
    default: return `added ${ago(job.created_ms, now)}`;
  }
}

// What can be done with a job as it was when it was shown; the service decides by what it is then.
export function job_actions(queue, job) {
  const button = (action, text, kind = "") => h("button", { class: kind, "data-act": action, "data-queue": queue, "data-id": job.id, "data-key": action, "aria-label": `${text} ${job.id}` }, text);
  return [job.state === "delayed" && button("promote", "Promote"), job.state === "failed" && button("retry", "Retry"),
    job.state !== "active" && !job.schedule && button("remove", "Remove", "plain")];
}

const job_path = (queue, id) => `/v1/queues/${segment(queue)}/jobs/${segment(id)}`;

export const ACTIONS = {
  pause: (queue) => act({ question: { title: `Pause ${queue}?`, text: "Jobs at work end; no other starts, in any replica.", button: "Pause", reason: true },
    path: `/v1/queues/${segment(queue)}/pause`, body: {}, done: `${queue} is paused` }),
  resume: (queue) => act({ path: `/v1/queues/${segment(queue)}/resume`, done: `${queue} goes on` }),
  promote_all: (queue, _, number) => act({ question: { title: `Promote ${number} jobs of ${queue}?`, text: "None waits any longer for its time.", button: "Promote all" },
    path: `/v1/queues/${segment(queue)}/promote-all`, done: ({ count }) => `${count} promoted` }),
  retry_all: (queue, _, number) => act({ question: { title: `Retry ${number} failed jobs of ${queue}?`, text: "Each has all its attempts again.", button: "Retry all" },
    path: `/v1/queues/${segment(queue)}/retry-all`, done: ({ count }) => `${count} are tried again` }),
  clean: (queue, _, number, state) => act({ question: { title: `Remove ${number} ${state} jobs of ${queue}?`, text: "They are gone then; at most 1,000 at a time.", button: "Remove", danger: true },
    path: `/v1/queues/${segment(queue)}/clean`, body: { state, limit: 1000 }, done: ({ count }) => `${count} removed` }),
  promote: (queue, id) => act({ path: `${job_path(queue, id)}/promote`, done: `${id} is promoted` }),
  retry: (queue, id) => act({ path: `${job_path(queue, id)}/retry`, done: `${id} is tried again` }),
  remove: (queue, id) => act({ question: { title: `Remove the job ${id}?`, text: "It is gone then.", button: "Remove", danger: true }, method: "DELETE", path: job_path(queue, id), done: `${id} is removed` }),
  unschedule: (queue, id) => act({ question: { title: `Remove the schedule ${id}?`, text: "With its next job. One of the service's own is put back within a minute.", button: "Remove", danger: true },
    method: "DELETE", path: `/v1/queues/${segment(queue)}/schedules/${segment(id)}`, done: `${id} is removed` }),
};

