// A job is promoted, a queue is paused.

import { SOON, agree, audit, go, wish } from "./page.js";

export async function promotes_a_job(page) {
  await wish("down");
  await wish("changes");
  await go(page, "queues/dispatcher/delayed");
  await page.getByRole("link", { name: "disable-acme" }).click();
  await page.getByRole("heading", { name: "disable-acme" }).waitFor();
  await audit(page, "a job");
  await page.getByRole("button", { name: "Promote" }).click();
  await page.getByText("is promoted").waitFor(SOON);
  await wish("up");
}

export async function pauses_a_queue(page) {
  await go(page, "queues");
  const heavy = page.getByRole("row", { name: /dispatcher-heavy/ });
  await heavy.getByRole("button", { name: "Pause" }).click();
  await agree(page, "Pause");
  await heavy.getByText("paused").waitFor(SOON);
  await heavy.getByRole("button", { name: "Resume" }).click();
  await heavy.getByRole("button", { name: "Pause" }).waitFor(SOON);
}
