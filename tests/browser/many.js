// Very many clients: found, sorted and read, while everything changes, without a jump.

import assert from "node:assert/strict";
import { SOON, go, next_snapshot, wish } from "./page.js";

export async function are_read_without_jumps(page) {
  await wish("many clients");
  await go(page, "clients?sort=client");
  const total = await page.locator(".foot p").textContent();
  await page.evaluate(() => {
    window.long_tasks = [];
    window.shifts = [];
    new PerformanceObserver((list) => window.long_tasks.push(...list.getEntries().map(({ duration }) => Math.round(duration)))).observe({ type: "longtask" });
    new PerformanceObserver((list) => window.shifts.push(...list.getEntries().filter((one) => !one.hadRecentInput).map(({ value }) => value))).observe({ type: "layout-shift" });
  });
  const places = () => page.evaluate(() => Object.fromEntries([...document.querySelectorAll("tbody tr")].map((row) => [row.dataset.key, Math.round(row.getBoundingClientRect().top)])));
  const numbers = () => page.locator("tbody").textContent();

  // By what changes all the time: the order stays until another is asked for.
  await page.getByLabel("Order").selectOption("rate");
  await page.mouse.move(640, 500);
  await next_snapshot(page);
  await page.mouse.wheel(0, 300);
  await next_snapshot(page);
  const [before, read] = [await places(), await numbers()];
  for (let second = 0; second < 5; second += 1) {
    await wish("changes for many");
    await next_snapshot(page);
  }
  await page.getByRole("button", { name: "New order: show it" }).waitFor(SOON);
  assert.deepEqual(await places(), before, "no row has moved");
  assert.notEqual(await numbers(), read, "and yet the numbers are new");
  await page.getByRole("button", { name: "New order: show it" }).click();
  await page.getByRole("button", { name: "New order: show it" }).waitFor({ state: "detached" });

  for (const sort of ["client", "waiting", "latency", "since", "client"]) await page.getByLabel("Order").selectOption(sort);
  await page.getByText(/1 to 50 of/).waitFor(SOON);
  for (let turn = 0; turn < 8; turn += 1) {
    await page.mouse.wheel(0, 400);
    await page.waitForTimeout(50);
  }
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText(/51 to 100 of/).waitFor(SOON);
  await page.keyboard.press("/");
  await page.keyboard.type("MANY-007", { delay: 30 });
  await page.getByText(/1 to \d+ of [1-9]/).waitFor(SOON);
  await page.getByRole("link", { name: /^many-007/ }).first().waitFor(SOON);
  const { long_tasks, shifts } = await page.evaluate(() => ({ long_tasks: window.long_tasks, shifts: window.shifts }));
  const moved = shifts.reduce((sum, one) => sum + one, 0);
  await wish(`it saw ${total}: tasks over 50 ms: ${JSON.stringify(long_tasks)}, layout shift ${moved.toFixed(4)}`);
  assert.ok(moved < 0.05, `things move by themselves: ${shifts}`);
  assert.ok(long_tasks.filter((task) => task > 100).length <= 2, `the page is not smooth: ${long_tasks}`);
}

export async function are_walked_by_keys(page) {
  // The place is in the address: it comes back as it was.
  await page.reload();
  await page.getByRole("link", { name: /^many-007/ }).first().waitFor(SOON);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  const key = await page.evaluate(() => document.activeElement.dataset.key);
  await next_snapshot(page);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.key), key, "the focus outlives what is new");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: key }).waitFor(SOON);
  await page.keyboard.press("Escape");
  await page.locator("main .view.clients").waitFor(SOON);
  await page.keyboard.press("?");
  await page.getByRole("heading", { name: "Keys and states" }).waitFor(SOON);
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  await page.locator("main .view.queues").waitFor(SOON);
}
