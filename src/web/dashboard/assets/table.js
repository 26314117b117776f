// Tables that look alike: fixed columns, numbers at the right, a row a small card on phones.

import { h, on } from "./dom.js";

const extra = (column) => column.extra && (column.extra === "much" ? "extra much" : "extra");

// A column: `name`, `of(row)` its content; `kind`: n (number), cut (long text: opens on a click), state, acts; `wide`: a class of its width;
// `extra`: left out where there is little room ("much": or some); `sort`: by what the list is sorted.
export function table(label, columns, rows, { key, sort, reverse, row_class } = {}) {
  const direction = (column) => (column.sort !== undefined && column.sort === sort
    ? ((column.sort === "client" || column.sort === "oldest") !== reverse ? "ascending" : "descending") : undefined);
  const kinds = (column) => [column.kind, extra(column)].filter(Boolean).join(" ") || undefined;
  return h("table", { class: "rows", "aria-label": label },
    h("colgroup", {}, columns.map((column) => h("col", { class: [column.wide, extra(column)].filter(Boolean).join(" ") || undefined }))),
    h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: kinds(column), "aria-sort": direction(column) },
      column.sort ? h("button", { class: "sort", "data-sort": column.sort }, column.name) : column.unseen ? h("span", { class: "unseen" }, column.name) : column.name)))),
    h("tbody", {}, rows.map((row) => h("tr", { "data-key": key(row), tabindex: "-1", class: row_class?.(row) }, columns.map((column, at) => cell(column, at, row))))));
}

export function cell(column, at, row) {
  const content = column.of(row);
  const is_text = typeof content === "string" || typeof content === "number";
  const nothing = content === null || content === undefined || content === "" || content === "–";
  const zero = nothing || content === 0 || content === "0";
  const kinds = [column.kind, extra(column), column.code && "code", zero && "zero", zero && column.spare && "spare"].filter(Boolean).join(" ");
  return h(at === 0 ? "th" : "td", { scope: at === 0 && "row", class: kinds || undefined, "data-name": at === 0 ? undefined : column.name,
    title: column.title?.(row) ?? (column.kind === "cut" && is_text ? content : undefined) }, nothing && column.kind !== "acts" ? "–" : content);
}

// Long text opens where it is, when it is asked to.
export const opens = (node) => on(node, "click", "td.cut", (target, event) => {
  if (!event.target.closest("a, button") && !String(getSelection())) target.toggleAttribute("open");
});

// New rows in the order in which they are read: what was there stays where it was among what was there.
export function keep_order(old, fresh, key) {
  const places = new Map(old.map((row, at) => [key(row), at]));
  const known = fresh.filter((row) => places.has(key(row))).sort((one, other) => places.get(key(one)) - places.get(key(other)));
  return fresh.map((row) => (places.has(key(row)) ? known.shift() : row));
}
