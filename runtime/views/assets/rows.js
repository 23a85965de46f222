// The rows of the trace page: loaded as they become visible, expanded and collapsed in place, and selected. Without this script
// rows are links and windows of rows are pages. All markup comes from the server.
"use strict";

const WINDOW = 200;
// With the two heading rows, 600 are in the document.
const MAX_ROWS = 598;
// Rows that are loaded ahead.
const AHEAD = 300;

const grid = document.querySelector("[role=treegrid]");
const map = document.getElementById("map");
const steps = grid.closest(".steps");
const box = grid.querySelector(".window");
const ofTrace = grid.querySelector(".of-trace");
const [above, below] = grid.querySelectorAll(".space");

// Index of the first row in the document, number of all lines, collapsed rows as query parameters.
let first = Number(box.dataset.at);
let count = Number(box.dataset.count);
let rest = box.dataset.rest;
// URL-encoded id of the selected observation; empty for the trace.
let selected = grid.querySelector("[aria-selected=true]")?.dataset.step ?? "";
// Index of the current line for keys; -1 is the row of the trace.
let current = box.dataset.selected === undefined ? -1 : Number(box.dataset.selected);
let lastTop = 0;

// Coordinates far down are too coarse to measure a row; the row of the trace is always near the top.
function height() {
  return ofTrace.getBoundingClientRect().height || 1;
}

function end() {
  return first + box.childElementCount;
}

function layout() {
  const one = height();
  above.style.height = `${first * one}px`;
  below.style.height = `${Math.max(0, count - end()) * one}px`;
}

function head() {
  return grid.querySelector(".names").getBoundingClientRect().height;
}

/** Indexes of the first visible line and of the line after the last. */
function view() {
  const one = height();
  const from = Math.floor(grid.scrollTop / one);
  return [Math.min(from, count), Math.min(count, from + Math.ceil((grid.clientHeight - head()) / one) + 1)];
}

/** Only one row is in the Tab order, and no links within rows. */
function prepare(rows) {
  for (const row of document.documentElement.dataset.keys === "off" ? [] : rows) {
    row.tabIndex = -1;
    for (const link of row.querySelectorAll("a")) link.tabIndex = -1;
  }
}

function rowAt(index) {
  return index < 0 ? ofTrace : box.children[index - first];
}

function indexOf(row) {
  return row === ofTrace ? -1 : Number(row.getAttribute("aria-rowindex")) - 3;
}

function mark() {
  for (const row of grid.querySelectorAll("[tabindex='0']")) row.tabIndex = -1;
  (rowAt(current) ?? box.firstElementChild ?? ofTrace).tabIndex = 0;
  for (const row of grid.querySelectorAll("[aria-selected]")) {
    row.setAttribute("aria-selected", String(row.dataset.step === selected));
  }
}

/** Keeps the focus when the focused row is removed. */
function keepFocus(change) {
  const had = grid.contains(document.activeElement) && document.activeElement !== grid;
  change();
  if (!had || grid.contains(document.activeElement)) return;
  (rowAt(current) ?? grid).focus({ preventScroll: true });
}

let pending = null;

function address(part, query) {
  return `${grid.dataset.from}/${part}?${query}${rest}`;
}

function selection() {
  return selected ? `observation=${selected}` : "trace";
}

/** Writes selection and collapsed rows to the URL; links that keep them follow. */
function writeAddress(how) {
  history[how](null, "", `?${selection()}${rest}`);
  grid.dispatchEvent(new Event("addressed"));
}

const rowsSlot = {};

const isSame = (one, other) => one.dataset.step === other.dataset.step
  && one.classList.contains("run") === other.classList.contains("run");

/** After lines before a row changed, keeps its position on the screen and the current line. */
function moveWith(anchor, was, on, part) {
  let now = Number(part.dataset.anchor);
  // An expanded group and its first observation have the same id.
  if (anchor.classList.contains("run") && !rowAt(now)?.classList.contains("run")) now -= 1;
  if (now === was) return;
  grid.scrollTop += (now - was) * height();
  lastTop = grid.scrollTop;
  if (current < 0) return;
  const same = on && Array.from(box.children).find((row) => isSame(row, on));
  current = same ? indexOf(same) : Math.min(Math.max(current + now - was, -1), count - 1);
}

/**
 * Inserts loaded rows: instead of all, after the last or before the first row. Rows of another revision of the trace replace all
 * rows, because the line numbers may have changed.
 */
function put(html, how, anchor) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const part = template.content.querySelector(".window");
  if (!part) return false;
  steps.querySelector(":scope > .failed")?.remove();
  const at = Number(part.dataset.at);
  const rows = Array.from(part.children);
  prepare(rows);
  const [was, on, top] = [anchor ? indexOf(anchor) : -1, rowAt(current), grid.scrollTop];
  const isOther = part.dataset.revision !== box.dataset.revision;
  box.dataset.revision = part.dataset.revision;
  keepFocus(() => {
    if (how === "behind" && at === end() && !isOther) {
      box.append(...rows);
      for (; box.childElementCount > MAX_ROWS; first += 1) box.firstElementChild.remove();
    } else if (how === "before" && at + rows.length === first && !isOther) {
      box.prepend(...rows);
      first = at;
      while (box.childElementCount > MAX_ROWS) box.lastElementChild.remove();
    } else {
      box.replaceChildren(...rows);
      first = at;
    }
    count = Number(part.dataset.count);
    rest = part.dataset.rest;
    grid.setAttribute("aria-rowcount", String(count + 2));
    const picture = template.content.querySelector(".map");
    if (picture) map.replaceChildren(picture);
    else if (count <= WINDOW) map.replaceChildren();
    layout();
    // While the rows were replaced, the panel was temporarily too low to keep its scroll position.
    grid.scrollTop = top;
    if (was >= 0 && part.dataset.anchor !== undefined) moveWith(anchor, was, on, part);
    mark();
  });
  if (part.dataset.forgotten) say(part.dataset.forgotten, true);
  return part;
}

/** Loads a window; returns whether it was inserted. The anchor is the row that keeps its position if lines have changed. */
async function fetchRows(at, n, how, more = "", anchor = rowAt(view()[0])) {
  pending = { at, end: at + n };
  const { revision } = box.dataset;
  const known = `&revision=${revision}${anchor ? `&anchor=${anchor.dataset.step}` : ""}`;
  const html = await askPart(rowsSlot, address("rows", `${selection()}&at=${at}&n=${n}${known}${more}`));
  if (html === undefined) return false;
  pending = null;
  // The rows were updated meanwhile: the response may be older.
  if (html && box.dataset.revision !== revision) {
    return fetchRows(at, n, how, more, anchor?.isConnected ? anchor : undefined);
  }
  if (html === null) {
    noteFailure(steps, fill);
    return false;
  }
  return Boolean(put(html, how, anchor));
}

let waiting = 0;

/** Loads visible rows and rows ahead. */
function fill() {
  const [from, to] = view();
  const isDown = grid.scrollTop >= lastTop;
  lastTop = grid.scrollTop;
  if (pending && pending.at <= from && to <= pending.end) return;
  clearTimeout(waiting);
  if (to <= first || end() <= from) {
    if (from === to) return;
    // While the scroll bar is dragged, only its final position is loaded.
    waiting = setTimeout(() => {
      fetchRows(Math.max(0, from - WINDOW / 2), WINDOW, "instead").then((came) => came && fill());
    }, 60);
    return;
  }
  if (pending) return;
  if (end() < count && ((isDown && end() - to < AHEAD) || end() < to)) {
    fetchRows(end(), WINDOW, "behind").then((came) => came && fill());
  } else if (first > 0 && ((!isDown && from - first < AHEAD) || from < first)) {
    const at = Math.max(0, first - WINDOW);
    fetchRows(at, first - at, "before").then((came) => came && fill());
  }
}

/** Scrolls only the panel to a line. */
function reach(index) {
  const [one, top] = [height(), index * height()];
  grid.scrollTop = index < 0 ? 0 : Math.max(Math.min(grid.scrollTop, top), top + one + head() - grid.clientHeight);
}

function show(index) {
  reach(index);
  rowAt(index)?.scrollIntoView({ block: "nearest" });
}

let nGone = 0;

/** Moves the focus to a line, which is loaded if necessary. */
async function go(index) {
  const nth = nGone += 1;
  current = Math.min(Math.max(index, -1), count - 1);
  // If line numbers have changed, the first response only updates the count.
  for (let asks = 0; asks < 2 && !rowAt(current); asks += 1) {
    clearTimeout(waiting);
    const at = Math.min(Math.max(0, current - WINDOW / 2), Math.max(0, count - WINDOW));
    if (!(await fetchRows(at, WINDOW, "instead")) || nth !== nGone) return null;
  }
  show(current);
  mark();
  const row = rowAt(current);
  row?.focus({ preventScroll: true });
  return row ?? null;
}

let lastPush = 0;

/** Selects a row; the pane loads its details. */
function select(row, how) {
  if (row.classList.contains("run")) return;
  selected = row.dataset.step;
  current = indexOf(row);
  mark();
  const now = Date.now();
  // Rows that are only passed get no history entry.
  writeAddress(how === "push" || now - lastPush > 1000 ? "pushState" : "replaceState");
  lastPush = now;
  grid.dispatchEvent(new CustomEvent("chosen", { detail: row }));
}

async function toggle(row) {
  const what = row.classList.contains("run") ? "toggle-run" : "toggle";
  current = indexOf(row);
  const at = Math.max(0, Math.min(current, view()[0]) - WINDOW / 4);
  if (!(await fetchRows(at, WINDOW, "instead", `&${what}=${row.dataset.step}`, row))) return;
  mark();
  writeAddress("replaceState");
  rowAt(current)?.focus({ preventScroll: true });
  fill();
}

/** Goes to the row that the server finds, or calls `none`. */
async function seek(query, none) {
  pending = null;
  const html = await askPart(rowsSlot, address("seek", query));
  if (html === undefined) return;
  if (html === null) {
    noteFailure(steps, () => seek(query, none));
    return;
  }
  const part = html && put(html, "instead");
  if (!part || part.dataset.selected === undefined) return none();
  const found = await go(Number(part.dataset.selected));
  if (found) select(found, "pass");
}

function seekError(back) {
  const from = rowAt(current)?.dataset.step ?? "";
  seek(`what=error&from=${from}${back ? "&back" : ""}`, () => say(back ? "No earlier error" : "No later error"));
}

async function seekStep(id) {
  if (id) seek(`what=step&from=${id}`, () => dispatchEvent(new CustomEvent("perpend:hidden", { detail: id })));
  else select(await go(-1) ?? ofTrace, "pass");
}

async function step(by) {
  const row = await go(current + by);
  if (row) select(row, "pass");
}

function onClick(event) {
  const row = event.target.closest("[role=row]");
  if (!row || row.classList.contains("axis")) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  // Selecting text is not a click.
  const marked = getSelection();
  if (!event.target.closest("a") && !marked.isCollapsed && row.contains(marked.anchorNode)) return;
  event.preventDefault();
  if (event.target.closest("a.fold") || row.classList.contains("run")) {
    toggle(row);
    return;
  }
  row.focus({ preventScroll: true });
  select(row, "push");
}

// Commands of the keyboard script.
const orders = {
  at: (row) => { current = indexOf(row); },
  by: (n) => go(current + n),
  choose: (row) => select(row, "push"),
  error: seekError,
  go,
  page: (n) => go(current + n * (view()[1] - view()[0] - 2)),
  step,
  toggle,
};

/** Encodes like the server: all characters except letters, digits, `-`, `.`, `_` and `~` are escaped. */
function encode(id) {
  return encodeURIComponent(id).replace(/[!*'()]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** The view parameters without selection and collapsed rows. A change of these is another page. */
function viewParams(query) {
  return ["v", "min", "kinds", "cols", "t0", "t1", "find"].map((name) => query.getAll(name).join(",")).join("&");
}

const initialViewParams = viewParams(new URLSearchParams(location.search));

async function onBack() {
  const query = new URLSearchParams(location.search);
  if (viewParams(query) !== initialViewParams) return location.reload();
  selected = encode(query.get("observation") ?? "");
  const folds = new URLSearchParams();
  for (const [name, value] of query) {
    if (/^(fold|open)(-run)?$|^(group|v|min|kinds|cols|t0|t1|in|find)$|^as[.]/.test(name)) folds.append(name, value);
  }
  rest = folds.size ? `&${folds}` : "";
  pending = null;
  const html = await askPart(rowsSlot, address("rows", selection()));
  if (html === undefined) return;
  if (html === null) {
    noteFailure(steps, onBack);
    return;
  }
  const part = html ? put(html, "instead") : null;
  if (!part) return location.reload();
  current = part.dataset.selected === undefined ? -1 : Number(part.dataset.selected);
  show(current);
  mark();
  grid.dispatchEvent(new Event("addressed"));
  grid.dispatchEvent(new CustomEvent("chosen"));
}

document.documentElement.classList.add("scripted");
grid.tabIndex = -1;
prepare([ofTrace, ...box.children]);
layout();
mark();
// The selected observation is scrolled to the upper third, because the window may end above the end of the panel.
if (rowAt(current) && current >= 0) grid.scrollTop = current * height() - (grid.clientHeight - head()) / 3;
else if (first === 0) grid.scrollTop = 0;
else grid.scrollTop = first * height();
if (current >= 0 && !location.hash) rowAt(current)?.scrollIntoView({ block: "nearest" });
lastTop = grid.scrollTop;
// Rows ahead are loaded only after the first scroll.
if (view()[1] > end() || view()[0] < first) fill();
grid.addEventListener("click", onClick);
grid.addEventListener("order", ({ detail: [what, on] }) => orders[what](on));
grid.addEventListener("scroll", () => grid.scrollTop !== lastTop && requestAnimationFrame(fill), { passive: true });
addEventListener("resize", () => { layout(); fill(); });
// A panel that becomes lower keeps the current line visible.
let high = grid.clientHeight;
new ResizeObserver(() => {
  const top = current * height() - grid.scrollTop;
  if (grid.clientHeight < high && top > -1 && top < high - head()) reach(current);
  high = grid.clientHeight;
}).observe(grid);
addEventListener("popstate", onBack);
addEventListener("perpend:step", (event) => seekStep(event.detail));
// Rows were added or removed.
grid.addEventListener("followed", ({ detail }) => {
  count = detail;
  const on = grid.querySelector(".row[tabindex='0']");
  if (on) current = indexOf(on);
  prepare([ofTrace, ...box.children]);
  layout();
  mark();
  fill();
});
map.addEventListener("click", (event) => {
  const frame = map.getBoundingClientRect();
  grid.scrollTop = ((event.clientX - frame.left) / frame.width) * count * height() - grid.clientHeight / 2;
});
