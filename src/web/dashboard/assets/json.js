// JSON laid out for reading, token by token: every number stays as it is written.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

export function laid_out(text) {
  try { JSON.parse(text); } catch { return text; }
  let depth = 0;
  let shown = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(TOKEN) ?? [];
  tokens.forEach((token, at) => {
    const before = tokens[at - 1];
    if (token === "}" || token === "]") {
      depth -= 1;
      if (before !== "{" && before !== "[") shown += line();
    } else if (before === "{" || before === "[" || before === ",") shown += line();
    shown += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
  });
  return shown;
}
