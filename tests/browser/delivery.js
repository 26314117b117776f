// A client's webhook fails and comes back; an operator holds it and lets it go.

import assert from "node:assert/strict";
import { SOON, agree, audit, go, press, state, wish } from "./page.js";

export async function sees_a_client_degrade_drain_and_recover(page) {
  await wish("changes");
  await go(page, "client/acme");
  await state(page, "healthy");
  await page.getByRole("table", { name: "Attempts" }).getByText("delivered").first().waitFor(SOON);
  await wish("down");
  await wish("changes");
  await state(page, "degraded");
  await page.getByText("answers 503").first().waitFor(SOON);
  await page.getByText("<img src=x onerror=alert(1)>").first().waitFor(SOON);
  const next_try = page.locator(".tile", { hasText: "Next try" }).locator(".value");
  assert.match(await next_try.textContent(), /^(in \d+ s|now|–)$/);
  await page.locator(".tile", { hasText: "Switched off" }).getByText(/in \d+ d/).waitFor(SOON);
  await wish("many changes for acme");
  await page.locator(".tile", { hasText: "In the stash" }).getByText(/[1-9]/).first().waitFor(SOON);
  // It lives again, and takes its time with what has waited.
  await wish("slow");
  await state(page, "draining");
  await wish("up");
  await state(page, "healthy");
}

export async function sees_it_on_the_overview(page) {
  await wish("down");
  await wish("changes");
  await go(page, "overview");
  const attention = page.getByRole("table", { name: "Needs attention" });
  await attention.getByRole("link", { name: "<b>bold</b>" }).waitFor(SOON);
  await page.getByText(/clients need attention/).waitFor(SOON);
  await audit(page, "overview with a problem");
  await wish("up");
  await go(page, "client/acme");
  await state(page, "healthy");
}

export async function pauses_and_disables(page) {
  await go(page, "client/acme");
  await press(page, "Pause");
  await agree(page, "Cancel");
  await press(page, "Pause");
  await page.getByLabel("Reason").fill("moving house");
  await agree(page, "Pause");
  await state(page, "paused");
  await page.locator("dl").getByText(/^by admin .*: moving house$/).waitFor(SOON);
  await wish("changes");
  await page.locator(".tile", { hasText: "In the stash" }).getByText(/^[1-9]\d*$/).waitFor(SOON);
  await press(page, "Resume");
  await state(page, "healthy");
  await press(page, "Disable");
  await audit(page, "a question");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Cancel", "Enter destroys nothing");
  await agree(page, "Disable");
  await state(page, "disabled");
  await press(page, "Enable");
  await state(page, "healthy");
}
