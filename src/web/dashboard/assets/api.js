// Asks the service. What acts carries a header that no other site's page can send.

// Milliseconds until an answer is not waited for any more.
const PATIENCE = 25_000;

export class ApiError extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

const listeners = new Set();
// Called when a session has ended.
export const onSignedOut = (listener) => listeners.add(listener);

export async function api(method, path, body) {
  const options = { method, headers: {}, credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(PATIENCE) };
  if (method !== "GET") options.headers["x-dispatcher-action"] = "dashboard";
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  let answer, text;
  try {
    answer = await fetch(path, options);
    text = await answer.text();
  } catch (error) {
    throw new ApiError(0, error.name === "TimeoutError" ? "The service did not answer in time." : "The service does not answer.");
  }
  if (answer.status === 401 && !path.startsWith("/dashboard/")) listeners.forEach((listener) => listener());
  const is_json = (answer.headers.get("content-type") ?? "").includes("json");
  let content;
  try {
    content = text && is_json ? JSON.parse(text) : undefined;
  } catch {
    throw new ApiError(answer.status, "The answer is cut off.");
  }
  if (!answer.ok) throw new ApiError(answer.status, content?.detail ?? `The service answered ${answer.status}.`);
  return content;
}

export const get = (path, query) => {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== "" && value !== false);
  return api("GET", pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path);
};

export const segment = (text) => encodeURIComponent(text).replaceAll("!", "%21").replaceAll("'", "%27");
