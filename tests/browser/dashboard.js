// An operator at the dashboard, in Chromium. Arguments: the address of the service, the admin token. A line of output is a wish to whoever
// started us, answered by a line of input; anything that is not as it should be ends with a stack and exit code 1.

import assert from "node:assert/strict";
import { sees_actors_break_and_come_back, restarts_an_actor } from "./actors.js";
import { stays_open_all_day } from "./awake.js";
import { replays_a_dead_letter } from "./dead_letters.js";
import { sees_a_client_degrade_drain_and_recover, sees_it_on_the_overview, pauses_and_disables } from "./delivery.js";
import { reads_very_long_text, reads_hostile_text } from "./hostile.js";
import { reads_many_clients_without_jumps, walks_by_keys } from "./many.js";
import { outlives_the_service } from "./outage.js";
import { SOON, audit, browser, go, log_in, open, problems, token, url, wish } from "./page.js";
import { pauses_a_queue, promotes_a_job } from "./queues.js";
import { reads_undisturbed } from "./reading.js";
import { has_a_small_page_soon } from "./speed.js";
import { as_a_viewer_cannot_act, finds_it_written_down } from "./viewer.js";

async function logs_in(page) {
  await page.goto(`${url}/dashboard`);
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("there is no such token").waitFor();
  await audit(page, "log-in");
  await log_in(page, token);
  assert.equal(await page.evaluate(() => document.cookie), "", "the page cannot read its session");
}

async function looks_at_everything(page, where) {
  for (const place of ["overview", "clients", "client/acme", "stash/acme", "queues", "queues/dispatcher", "actors", "dead", "dead/source", "events", "events/audit", "system"]) {
    await go(page, place);
    await audit(page, `${place} ${where}`);
  }
  await go(page, "clients?filter=nobody-is-called-so");
  await page.getByText("No client is so.").waitFor(SOON);
  await page.goto(`${url}/dashboard#/nowhere`);
  await page.getByText("There is no such page.").waitFor();
  await page.goto(`${url}/dashboard#/client/nobody`);
  await page.getByText("there is no such client").waitFor();
}

const PARTS = [logs_in, has_a_small_page_soon, sees_a_client_degrade_drain_and_recover, sees_it_on_the_overview, pauses_and_disables, restarts_an_actor, sees_actors_break_and_come_back, replays_a_dead_letter,
  promotes_a_job, pauses_a_queue, reads_undisturbed, stays_open_all_day, as_a_viewer_cannot_act, finds_it_written_down, outlives_the_service, reads_hostile_text, reads_very_long_text, reads_many_clients_without_jumps, walks_by_keys];

try {
  const page = await open({ colorScheme: "light" });
  for (const part of PARTS) {
    await wish(`${part.name.replaceAll("_", " ")}`);
    await part(page);
  }
  await wish("it looks at everything");
  await looks_at_everything(page, "light");
  const dark = await open({ viewport: { width: 390, height: 844 }, colorScheme: "dark", storageState: await page.context().storageState() });
  await looks_at_everything(dark, "dark, on a phone");
  await page.bringToFront();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.evaluate(async () => (await fetch("/v1/dashboard")).status), 401);
  assert.deepEqual(problems, []);
} catch (error) {
  console.error(error);
  for (const context of browser.contexts()) for (const page of context.pages()) {
    console.error((await page.locator("body").innerText().catch(() => "?")).slice(0, 4000));
    await page.screenshot({ path: "target/services/browser/failed.png" }).catch(() => {});
  }
  console.error(problems);
  process.exitCode = 1;
} finally {
  await browser.close();
  process.stdin.destroy();
}
