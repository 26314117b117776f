// Elements from data. Text is only ever set as text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

// Puts new content in place, unless it is the same: a selection, the focus and the reader's eye stay where they are.
export function put(node, ...children) {
  const next = fill(document.createElement("div"), {}, children);
  morph(node, next);
  return node;
}

// Makes the children of one node those of another, changing as little as may be. Nodes with a key are found again by it.
export function morph(old, next) {
  const keyed = new Map();
  for (const child of old.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
  let place = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const key = wanted.nodeType === 1 ? wanted.dataset.key : undefined;
    let match = key ? keyed.get(key) : place;
    if (!key && match?.nodeType === 1 && match.dataset.key) match = undefined;
    if (match && alike(match, wanted)) {
      if (match !== place) old.insertBefore(match, place);
      else place = place.nextSibling;
      same(match, wanted);
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) {
    const after = place.nextSibling;
    place.remove();
    place = after;
  }
}

// Nodes of their own are replaced whole: they listen, with what is new.
const alike = (one, other) =>
  one.nodeType === other.nodeType && one.nodeName === other.nodeName &&
  (one.nodeType !== 1 || (one.dataset.key === other.dataset.key && !one.hasAttribute("data-own")));

function same(old, wanted) {
  if (old.nodeType !== 1) {
    if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
    return;
  }
  // What a reader opened stays open.
  for (const { name } of [...old.attributes]) if (!wanted.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of wanted.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morph(old, wanted);
}

// One listener for many: what was clicked says by its attributes what it is. Rows come and go, this stays.
export function on(node, event, selector, act) {
  node.addEventListener(event, (happened) => {
    const target = happened.target.closest?.(selector);
    if (target && node.contains(target)) act(target, happened);
  });
}
