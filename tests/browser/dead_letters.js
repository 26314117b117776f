// A dead letter is read and sent again.

import assert from "node:assert/strict";
import { SOON, audit, go, press, wish } from "./page.js";

export async function replays_a_dead_letter(page) {
  await go(page, "dead");
  const letter = page.getByRole("row", { name: /frail/ });
  await letter.getByText("breaks its actor each time").waitFor(SOON);
  await audit(page, "a dead letter");
  await letter.getByRole("button", { name: /^Payload/ }).click();
  await page.locator("dialog").getByText('"op": "u"').waitFor(SOON);
  await audit(page, "a payload");
  await press(page, "Close");
  await page.getByLabel("Client").fill("frail");
  await page.getByLabel("webhook-id").fill(await letter.getByRole("button", { name: /^Payload/ }).getAttribute("data-payload"));
  await press(page, "Find");
  await page.getByText("1 shown").waitFor(SOON);
  await page.getByLabel("webhook-id").fill("evt_of_nobody");
  await press(page, "Find");
  await page.getByText("None is so.").waitFor(SOON);
  await page.getByLabel("webhook-id").fill("");
  await press(page, "Find");
  await letter.getByRole("button", { name: /^Replay/ }).click();
  await page.getByText("is sent again").waitFor(SOON);
  await letter.waitFor({ state: "detached", ...SOON });
  await wish("the replayed one has arrived");
  await go(page, "dead");
  await page.reload();
  await page.getByText("What a webhook refuses ten times would stand here").waitFor(SOON);
  assert.equal(await page.getByRole("row", { name: /frail/ }).count(), 0);
}
