// A page that stays open all day: connections die without a word, tabs are hidden, versions change.

import assert from "node:assert/strict";
import { SOON, go, next_snapshot, open, token, url, log_in } from "./page.js";

// The streams of the page; one of them may fall silent, as a connection does of which the other end is gone.
const WATCHED = () => {
  window.streams = [];
  window.EventSource = class extends EventSource {
    constructor(...how) { super(...how); window.streams.push(this); }
    addEventListener(name, heard) { super.addEventListener(name, (event) => this.is_silent || heard(event)); }
  };
};

// As if somebody looked at another tab, or at this one again.
const look = (page, hidden) => page.evaluate((hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, value: hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}, hidden);

const open_streams = (page) => page.evaluate(() => streams.filter(({ readyState }) => readyState !== EventSource.CLOSED).length);

async function a_silent_stream_is_opened_again(page) {
  await page.evaluate(() => { streams.forEach((stream) => { stream.is_silent = true; }); });
  await page.getByText("No news from the service").waitFor(SOON);
  await page.getByRole("status").getByText("live").waitFor(SOON);
  assert.equal(await open_streams(page), 1, "the silent one is closed");
}

async function a_network_that_is_back_is_tried_at_once(page) {
  await page.evaluate(() => {
    streams.forEach((stream) => { stream.is_silent = true; });
    window.before = streams.length;
  });
  await page.getByRole("status").getByText("stale").waitFor(SOON);
  await page.evaluate(() => dispatchEvent(new Event("online")));
  assert.equal(await page.evaluate(() => streams.length - before), 1);
  await page.getByRole("status").getByText("live").waitFor(SOON);
}

async function a_hidden_page_takes_no_connection(page) {
  await look(page, true);
  await page.waitForFunction(() => streams.every(({ readyState }) => readyState === EventSource.CLOSED), undefined, SOON);
  await look(page, false);
  await page.getByRole("status").getByText("live").waitFor(SOON);
  assert.equal(await open_streams(page), 1);
  assert.equal(await page.getByText("No news from the service").isVisible(), false, "who looks again is not frightened");
}

// Views that are left before they are there ask for nothing any more.
async function what_is_left_is_quiet(page) {
  const late = (route) => setTimeout(() => route.continue().catch(() => {}), 500);
  const path_of = (request) => new URL(request.url()).pathname;
  const LEFT = { queues: "/v1/queues", actors: "/v1/actors", events: "/v1/operational-events", "events/audit": "/v1/audit" };
  for (const path of Object.values(LEFT)) await page.route(`**${path}*`, late);
  for (const [place, path] of Object.entries(LEFT)) {
    const asked = page.waitForRequest((request) => path_of(request) === path);
    await page.evaluate((place) => { location.hash = `#/${place}`; }, place);
    await asked;
  }
  await go(page, "system");
  await next_snapshot(page);
  await page.unrouteAll({ behavior: "wait" });
  const asked = [];
  const note = (request) => asked.push(path_of(request));
  page.on("request", note);
  // Longer than any view waits until it asks again.
  for (let second = 0; second < 6; second += 1) await next_snapshot(page);
  page.off("request", note);
  assert.ok(asked.length > 0, "the view that is shown asks");
  assert.deepEqual(asked.filter((path) => path !== "/v1/blocked-owners"), []);
}

async function says_why_there_is_no_stream(page) {
  await page.route("**/v1/stream*", (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ detail: "32 streams are open: no more are served" }) }));
  await page.evaluate(() => { streams.forEach((stream) => { stream.is_silent = true; }); });
  await page.getByText("32 streams are open").waitFor(SOON);
  await page.unroute("**/v1/stream*");
  await page.getByRole("status").getByText("live").waitFor(SOON);
}

// What the stream says, changed by us.
async function is_told_of_a_new_version_and_of_what_is_wrong_elsewhere(page) {
  const change = async (route) => {
    const { number, service, overview } = await (await page.request.get(`${url}/v1/dashboard?limit=0`)).json();
    service.version = "99.0.0";
    Object.assign(overview, { unattended_roles: ["heavy"], others_unseen: "no permission", lag: { source: null, source_oldest_ms: null, transfer: null, transfer_oldest_ms: null } });
    overview.clients.problems = 0;
    overview.dependencies.forEach((store) => { store.healthy = true; });
    await route.fulfill({ contentType: "text/event-stream", body: `event: snapshot\ndata: ${JSON.stringify({ number, service, overview })}\n\n` });
  };
  await go(page, "overview");
  await page.route("**/v1/stream*", change);
  await page.evaluate(() => { streams.forEach((stream) => { stream.is_silent = true; }); });
  await page.getByRole("button", { name: "New version: reload" }).waitFor(SOON);
  await page.getByText("the other replicas are not seen, nobody does 1 role").waitFor(SOON);
  await page.getByRole("table", { name: "Needs attention" }).getByText("no permission").waitFor(SOON);
  assert.match(await page.title(), /^\((stale|2)\) Overview · dispatcher$/);
  assert.equal(await page.locator(".tile", { hasText: "Behind" }).locator(".value").textContent(), "–", "what is not known is not nothing");
  await page.unrouteAll({ behavior: "ignoreErrors" });
}

export async function stays_open_all_day() {
  const page = await open({});
  await page.addInitScript(WATCHED);
  await log_in(page, token);
  await go(page, "system");
  await a_silent_stream_is_opened_again(page);
  await a_network_that_is_back_is_tried_at_once(page);
  await a_hidden_page_takes_no_connection(page);
  await what_is_left_is_quiet(page);
  await says_why_there_is_no_stream(page);
  await is_told_of_a_new_version_and_of_what_is_wrong_elsewhere(page);
  await page.context().close();
}
