// Numbers and times for people.

const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// 3 d 4 h; the two largest units.
export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  let seconds = Math.max(0, Math.round(ms / 1000));
  const parts = [];
  for (const [size, name] of units) {
    const count = Math.floor(seconds / size);
    if (count > 0) parts.push(`${count} ${name}`);
    else if (parts.length) break;
    seconds -= count * size;
    if (parts.length === 2) break;
  }
  return parts.join(" ") || "0 s";
}

export const ago = (at, now) => (at ? (now - at < 1000 ? "now" : `${span(now - at)} ago`) : "–");

export const until = (at, now) => (at ? (at <= now ? "now" : `in ${span(at - now)}`) : "–");

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

const clockTime = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const fullTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const clock = (at) => clockTime.format(at);
export const time = (at) => (at ? fullTime.format(at) : "–");
// A reason as a person says it; what is no label stays as it is.
const LABELS = { connect: "no connection", dns: "name not found", tls: "TLS failed", timeout: "no answer in time", closed: "connection closed", bad_answer: "broken answer", client_gone: "the client is gone" };
export const reason = (label) => LABELS[label] ?? label.replace(/^status_(\d+)$/, "answers $1").replace(/\bstatus_(\d+)\b/, "$1");

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
