// Numbers and times for people.

const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// 3 d 4 h, 12 min, 5 s: the largest unit, and beside days and hours the one below.
export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const at = units.findIndex(([size]) => seconds >= size);
  if (at < 0) return "0 s";
  const [size, name] = units[at];
  const [below, name_below] = units[at + 1] ?? [];
  const rest = size >= 3600 ? Math.floor((seconds % size) / below) : 0;
  return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${name_below}` : ""}`;
}

export const ago = (at, now) => (at ? (now - at < 1000 ? "now" : `${span(now - at)} ago`) : "–");

export const until = (at, now) => (at ? (at <= now ? "now" : `in ${countdown(at - now + 999)}`) : "–");

// What is near is seen to come nearer: 1:05 min.
function countdown(ms) {
  const seconds = Math.floor(ms / 1000);
  return seconds < 60 || seconds >= 3600 ? span(ms) : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} min`;
}

export function count(number) {
  if (number === null || number === undefined) return "–";
  if (number < 10000) return String(number);
  if (number < 1e6) return `${round(number / 1e3)}k`;
  if (number < 1e9) return `${round(number / 1e6)}M`;
  return `${round(number / 1e9)}G`;
}

const round = (number) => (number < 100 ? number.toFixed(1).replace(/\.0$/, "") : String(Math.round(number)));

export const rate = (number) => (number === 0 ? "0" : number < 0.05 ? "< 0.1" : number < 10 ? number.toFixed(1) : count(Math.round(number)));

export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 262144) return "> 4 min";
  if (value < 0.1) return "< 1 ms";
  if (value < 10) return `${value.toFixed(1).replace(/\.0$/, "")} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60000) return `${round(value / 1000)} s`;
  return span(value);
}

export function bytes(value) {
  if (value < 1024) return `${value} B`;
  if (value < 1 << 20) return `${round(value / 1024)} KiB`;
  if (value < 1 << 30) return `${round(value / (1 << 20))} MiB`;
  return `${round(value / (1 << 30))} GiB`;
}

// Never rounds up to a hundred what is not.
export function share(value) {
  if (value === null || value === undefined) return "–";
  const percent = Math.floor(value * 1000) / 10;
  return `${percent === 100 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

const clockTime = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const fullTime = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export const clock = (at) => clockTime.format(at);
export const time = (at) => (at ? fullTime.format(at) : "–");

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

// Shows what would not be seen, or would turn the text around it: two ids that differ look different.
export const plain = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g,
  (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
