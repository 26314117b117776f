// Actors that break, each in its way: seen with the cause, on their own page and on their client's.

import { SOON, agree, audit, go, press, wish } from "./page.js";

const BROKEN = [["frail", /panicked/, /fault\.rs:\d+/], ["icy", /frozen/, /took no message/], ["dizzy", /lost its thread/, /made no progress/]];

export async function sees_actors_break_and_come_back(page) {
  for (const [client, cause, more] of BROKEN) {
    await go(page, "actors");
    await wish(`break ${client}`);
    const row = page.locator(`tr[data-key^="delivery/${client}/"]`);
    await row.getByText(cause).waitFor({ timeout: 60_000 });
    await row.getByText(more).waitFor(SOON);
    await row.getByText("running").waitFor({ timeout: 60_000 });
    await audit(page, "actors that broke");
    await press(page, "Broke or restarted");
    await page.locator('tr[data-key^="ingest-source/"]').waitFor({ state: "detached", ...SOON });
    await row.getByRole("link", { name: client }).click();
    await page.locator("dl").getByText(cause).waitFor(SOON);
    await go(page, `events?client=${client}`);
    await page.getByRole("row", { name: /actor restarted/ }).first().waitFor(SOON);
  }
}

export async function restarts_an_actor(page) {
  await wish("changes");
  await go(page, "client/acme");
  await press(page, "Restart actor");
  await page.getByText("Nothing is lost.").waitFor();
  await agree(page, "Restart");
  await page.getByText("restarted 1 time").waitFor(SOON);
}
