// What can be done with queues, jobs and schedules.

import { act } from "./dialog.js";
import { segment } from "./api.js";
import { deed } from "./session.js";

export const pause_button = (queue) => (queue.paused ? deed("resume", "Resume", { class: "strong", "data-queue": queue.name }) : deed("pause", "Pause", { "data-queue": queue.name }));

// What concerns all jobs of a state.
export function bulk_buttons(queue, state) {
  const number = queue.counts[state];
  if (!number) return [];
  const button = (action, text, kind) => deed(action, text, { class: kind, "data-queue": queue.name, "data-count": number });
  return [state === "delayed" && button("promote_all", "Promote all"), state === "failed" && button("retry_all", "Retry all"), state !== "active" && button("clean", "Remove all", "danger")];
}

// What can be done with a job as it was when it was shown; the service decides by what it is then.
export function job_buttons(queue, job) {
  const button = (action, text, kind) => deed(action, text, { class: kind, "data-queue": queue, "data-id": job.id, "aria-label": `${text} ${job.id}` });
  return [job.state === "delayed" && button("promote", "Promote"), job.state === "failed" && button("retry", "Retry"),
    job.state !== "active" && !job.schedule && button("remove", "Remove", "plain")];
}

const of_queue = (queue) => `/v1/queues/${segment(queue)}`;
const of_job = (queue, id) => `${of_queue(queue)}/jobs/${segment(id)}`;

export const QUEUE_ACTIONS = {
  pause: (queue) => act({ question: { title: `Pause ${queue}?`, text: "Jobs at work end; no other starts, in any replica.", button: "Pause", reason: true },
    path: `${of_queue(queue)}/pause`, body: {}, done: `${queue} is paused` }),
  resume: (queue) => act({ path: `${of_queue(queue)}/resume`, done: `${queue} goes on` }),
  promote_all: (queue, _, number) => act({ question: { title: `Promote ${number} jobs of ${queue}?`, text: "None waits any longer for its time.", button: "Promote all" },
    path: `${of_queue(queue)}/promote-all`, done: ({ count }) => `${count} promoted` }),
  retry_all: (queue, _, number) => act({ question: { title: `Retry ${number} failed jobs of ${queue}?`, text: "Each has all its attempts again.", button: "Retry all" },
    path: `${of_queue(queue)}/retry-all`, done: ({ count }) => `${count} are tried again` }),
  clean: (queue, _, number, state) => act({ question: { title: `Remove ${number} ${state} jobs of ${queue}?`, text: "They are gone then; at most 1,000 at a time.", button: "Remove", danger: true },
    path: `${of_queue(queue)}/clean`, body: { state, limit: 1000 }, done: ({ count }) => `${count} removed` }),
  promote: (queue, id) => act({ path: `${of_job(queue, id)}/promote`, done: `${id} is promoted` }),
  retry: (queue, id) => act({ path: `${of_job(queue, id)}/retry`, done: `${id} is tried again` }),
  remove: (queue, id) => act({ question: { title: `Remove the job ${id}?`, text: "It is gone then.", button: "Remove", danger: true }, method: "DELETE", path: of_job(queue, id), done: `${id} is removed` }),
  unschedule: (queue, id) => act({ question: { title: `Remove the schedule ${id}?`, text: "With its next job. One of the service's own is put back within a minute.", button: "Remove", danger: true },
    method: "DELETE", path: `${of_queue(queue)}/schedules/${segment(id)}`, done: `${id} is removed` }),
};
