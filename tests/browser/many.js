// Very many clients: found, sorted and read, while everything changes, without a jump.

import assert from "node:assert/strict";
import { SOON, browser, go, next_snapshot, wish } from "./page.js";

// What a task of the page may take of the processor, in milliseconds: a frame or three. Not by the clock, others use the machine, too.
const SMOOTH = 50;

// The tasks of the page's main thread while something is done, the longest first, in milliseconds of the processor.
async function tasks_while(page, act) {
  await browser.startTracing(page, { categories: ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"] });
  await act();
  const { traceEvents: events } = JSON.parse(await browser.stopTracing());
  const threads = new Set(events.filter(({ name, args }) => name === "thread_name" && args.name === "CrRendererMain").map(({ pid, tid }) => `${pid}/${tid}`));
  const tasks = events.filter(({ name, pid, tid, tdur }) => /RunTask$/.test(name) && tdur !== undefined && threads.has(`${pid}/${tid}`)).map(({ tdur }) => Math.round(tdur / 1000));
  assert.ok(tasks.length > 50, "the browser tells what its tasks took");
  return tasks.sort((one, other) => other - one);
}

// By what changes all the time: the order stays until another is asked for.
async function stays_in_place(page) {
  const places = () => page.evaluate(() => Object.fromEntries([...document.querySelectorAll("tbody tr")].map((row) => [row.dataset.key, Math.round(row.getBoundingClientRect().top)])));
  const numbers = () => page.locator("tbody").textContent();
  await page.getByLabel("Order").selectOption("rate");
  await page.mouse.move(640, 500);
  await next_snapshot(page);
  await page.mouse.wheel(0, 300);
  await next_snapshot(page);
  const [before, read] = [await places(), await numbers()];
  for (let second = 0; second < 5; second += 1) {
    await wish("changes for many");
    // Of two that are on the screen, too.
    await wish("changes");
    await next_snapshot(page);
  }
  await page.getByRole("button", { name: "New order: show it" }).waitFor(SOON);
  assert.deepEqual(await places(), before, "no row has moved");
  assert.notEqual(await numbers(), read, "and yet the numbers are new");
  await page.getByRole("button", { name: "New order: show it" }).click();
  await page.getByRole("button", { name: "New order: show it" }).waitFor({ state: "detached" });
}

// Sorted, scrolled, paged and searched.
async function is_gone_through(page) {
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
}

export async function reads_many_clients_without_jumps(page) {
  await wish("many clients");
  await go(page, "clients?sort=client");
  const total = await page.locator(".foot p").textContent();
  await page.evaluate(() => {
    window.shifts = [];
    new PerformanceObserver((list) => window.shifts.push(...list.getEntries().filter((one) => !one.hadRecentInput).map(({ value }) => value))).observe({ type: "layout-shift" });
  });
  const tasks = await tasks_while(page, async () => {
    await stays_in_place(page);
    await is_gone_through(page);
  });
  const shifts = await page.evaluate(() => window.shifts);
  const moved = shifts.reduce((sum, one) => sum + one, 0);
  await wish(`it saw ${total}: the longest of ${tasks.length} tasks took ${tasks.slice(0, 8).join(", ")} ms, layout shift ${moved.toFixed(4)}`);
  assert.ok(moved < 0.05, `things move by themselves: ${shifts}`);
  assert.ok(tasks.filter((task) => task > SMOOTH).length <= 2, `the page is not smooth: ${tasks.slice(0, 20)}`);
}

export async function walks_by_keys(page) {
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
