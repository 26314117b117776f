// Lists that somebody reads, pages that cannot be read anew, and ways that need no mouse.

import assert from "node:assert/strict";
import { SOON, audit, go, next_snapshot, press, state, url, wish } from "./page.js";

async function what_is_read_waits(page) {
  await go(page, "client/acme");
  await press(page, "Try now");
  await state(page, "healthy");
  await go(page, "events");
  const rows = page.getByRole("table", { name: "Events" }).locator("tbody tr");
  await rows.first().hover();
  const first = await rows.first().getAttribute("data-key");
  await wish("down");
  await wish("changes");
  const news = page.getByRole("button", { name: /^\d+\+? new: show$/ });
  await news.waitFor(SOON);
  assert.equal(await rows.first().getAttribute("data-key"), first, "nothing moves under the mouse");
  await audit(page, "a list with news");
  await news.click();
  await page.waitForFunction((first) => document.querySelector("tbody tr").dataset.key !== first, first);
  await wish("up");
  await page.getByLabel("Show").selectOption("actor failed");
  await page.waitForFunction(() => location.hash === "#/events?happening=actor_failed");
  await go(page, "client/acme");
  await state(page, "healthy");
}

async function an_answer_that_fails_is_said(page) {
  await go(page, "events");
  const of = "**/v1/operational-events*";
  await page.route(of, (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ detail: "the store is away" }) }));
  await page.getByText(/^As of \d\d:\d\d:\d\d: the store is away$/).waitFor(SOON);
  await page.unroute(of);
  await page.getByText("the store is away").waitFor({ state: "detached", ...SOON });
}

async function a_deleted_client_is_said_to_be(page) {
  const ask = (method, body) => page.evaluate(async ([method, body]) => (await fetch("/v1/clients/short-lived", { method, body, headers: { "x-dispatcher-action": "test", "content-type": "application/json" } })).status, [method, body]);
  assert.ok(await ask("PUT", JSON.stringify({ value: { webhook: "https://example.com/hook" } })) < 300);
  await go(page, "client/short-lived");
  await state(page, "healthy");
  assert.ok(await ask("DELETE") < 300);
  await page.getByText("This client is deleted.").waitFor(SOON);
  assert.equal(await page.locator("main [data-do]").count(), 0, "nothing can be done with it");
}

async function thousands_of_dead_letters_are_a_jobs_work(page) {
  await page.route("**/v1/dashboard/acme", async (route) => {
    const answer = await (await route.fetch()).json();
    answer.client.dead = 5000;
    await route.fulfill({ json: answer });
  });
  await page.route("**/v1/stream*", (route) => route.abort());
  await page.route("**/v1/clients/acme/replay", (route) => route.fulfill({ status: 202, json: { job: { state: "open" } } }));
  await go(page, "client/acme");
  await press(page, "Replay 5000 dead");
  await page.getByText("Replay all 5000 dead letters of acme?").waitFor(SOON);
  const asked = page.waitForRequest("**/v1/clients/acme/replay");
  await page.locator("dialog").getByRole("button", { name: "Replay", exact: true }).click();
  assert.deepEqual((await asked).postDataJSON(), { again: true });
  await page.getByText("the replay is open").waitFor(SOON);
  await page.unrouteAll({ behavior: "ignoreErrors" });
}

async function a_place_is_gone_back_to(page) {
  await go(page, "clients?sort=client&offset=9999");
  await page.getByRole("link", { name: "acme", exact: true }).waitFor(SOON);
  await go(page, "clients?filter=acm&phase=healthy");
  await page.getByRole("link", { name: "acme", exact: true }).click();
  await state(page, "healthy");
  await page.keyboard.press("Escape");
  await page.locator("main .view.clients").waitFor(SOON);
  assert.equal(new URL(page.url()).hash, "#/clients?filter=acm&phase=healthy");
  assert.equal(await page.locator("#search").inputValue(), "acm");
}

async function keys_are_enough(page) {
  await go(page, "system");
  await page.evaluate(() => document.activeElement.blur());
  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  assert.equal(new URL(page.url()).hash, "#/system", "to skip is not to leave");
  await page.keyboard.press("g");
  await page.keyboard.press("e");
  await page.locator("main .view.events").waitFor(SOON);
  assert.equal(await page.evaluate(() => document.activeElement.id), "main", "the focus is where the page is");
  assert.match(await page.title(), /Events · dispatcher$/);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Space");
  assert.ok(await page.locator("tr:focus td.cut[open]").count() > 0);
  await next_snapshot(page);
  assert.ok(await page.locator("tr:focus td.cut[open]").count() > 0, "it stays open");
}

export async function reads_undisturbed(page) {
  await what_is_read_waits(page);
  await an_answer_that_fails_is_said(page);
  await a_deleted_client_is_said_to_be(page);
  await thousands_of_dead_letters_are_a_jobs_work(page);
  await page.goto(`${url}/dashboard`);
  await page.getByRole("status").getByText("live").waitFor(SOON);
  await a_place_is_gone_back_to(page);
  await keys_are_enough(page);
}
