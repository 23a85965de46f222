// The trace page: rows that are fetched as they come into view, opened and closed in place, and chosen. Without this script
// every row is a plain link and windows of rows are pages. Markup comes from the server alone.
"use strict";

const WINDOW = 200;
// With those of the head, 600 are in the document.
const MAX_ROWS = 598;
// Rows that are fetched before they come into view.
const AHEAD = 300;

const grid = document.querySelector("[role=treegrid]");
const map = document.getElementById("map");
const steps = grid.closest(".steps");
const box = grid.querySelector(".window");
const ofTrace = grid.querySelector(".of-trace");
const [above, below] = grid.querySelectorAll(".space");

// Index of the first row in the document, number of all lines, what is folded as the end of an address.
let first = Number(box.dataset.at);
let count = Number(box.dataset.count);
let rest = box.dataset.rest;
// What is selected: the id of a step, encoded; nothing means the trace.
let selected = grid.querySelector("[aria-selected=true]")?.dataset.step ?? "";
// The line that keys start from; -1 is the row of the trace.
let current = box.dataset.selected === undefined ? -1 : Number(box.dataset.selected);
let lastTop = 0;

// Far down, coordinates are too coarse to measure a row: the one of the trace is always near the top.
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

/** The first line in view and the one behind the last. */
function view() {
  const one = height();
  const from = Math.floor(grid.scrollTop / one);
  return [Math.min(from, count), Math.min(count, from + Math.ceil((grid.clientHeight - head()) / one) + 1)];
}

/** Only rows take part in the order of Tab: one of them, and not what is in it. */
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

/** Keeps the place of the keyboard when the row that has it goes. */
function keepFocus(change) {
  const had = grid.contains(document.activeElement) && document.activeElement !== grid;
  change();
  if (!had || grid.contains(document.activeElement)) return;
  (rowAt(current) ?? grid).focus({ preventScroll: true });
}

let asked = null;

function address(part, query) {
  return `${grid.dataset.from}/${part}?${query}${rest}`;
}

function selection() {
  return selected ? `observation=${selected}` : "trace";
}

/** What is selected and folded is in the address; links that keep it follow. */
function writeAddress(how) {
  history[how](null, "", `?${selection()}${rest}`);
  grid.dispatchEvent(new Event("addressed"));
}

const rowsSlot = {};

const isSame = (one, other) => one.dataset.step === other.dataset.step
  && one.classList.contains("run") === other.classList.contains("run");

/** After other lines came before a row, or some went: it stays where it is in view, and the keyboard at its line. */
function moveWith(anchor, was, on, part) {
  let now = Number(part.dataset.anchor);
  // A group that is open and its first step have one name.
  if (anchor.classList.contains("run") && !rowAt(now)?.classList.contains("run")) now -= 1;
  if (now === was) return;
  grid.scrollTop += (now - was) * height();
  lastTop = grid.scrollTop;
  if (current < 0) return;
  const same = on && Array.from(box.children).find((row) => isSame(row, on));
  current = same ? indexOf(same) : Math.min(Math.max(current + now - was, -1), count - 1);
}

/**
 * Puts an answer with rows in place: instead of all, behind the last or before the first one. Rows of another revision of the
 * trace take the place of all: the lines may have other numbers now.
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
    // With other rows and without their spaces the panel was too low for a moment to stay where it was.
    grid.scrollTop = top;
    if (was >= 0 && part.dataset.anchor !== undefined) moveWith(anchor, was, on, part);
    mark();
  });
  if (part.dataset.forgotten) say(part.dataset.forgotten, true);
  return part;
}

/** Asks for a window; answers whether it came. The anchor is the row that stays in view if the lines have changed. */
async function fetchRows(at, n, how, more = "", anchor = rowAt(view()[0])) {
  asked = { at, end: at + n };
  const { revision } = box.dataset;
  const known = `&revision=${revision}${anchor ? `&anchor=${anchor.dataset.step}` : ""}`;
  const html = await askPart(rowsSlot, address("rows", `${selection()}&at=${at}&n=${n}${known}${more}`));
  if (html === undefined) return false;
  asked = null;
  // The page followed what arrived meanwhile: the answer may be older than its rows.
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

/** Fetches what is in view or soon will be. */
function fill() {
  const [from, to] = view();
  const isDown = grid.scrollTop >= lastTop;
  lastTop = grid.scrollTop;
  if (asked && asked.at <= from && to <= asked.end) return;
  clearTimeout(waiting);
  if (to <= first || end() <= from) {
    if (from === to) return;
    // While the scroll bar is dragged, only where it rests is of interest.
    waiting = setTimeout(() => {
      fetchRows(Math.max(0, from - WINDOW / 2), WINDOW, "instead").then((came) => came && fill());
    }, 60);
    return;
  }
  if (asked) return;
  if (end() < count && ((isDown && end() - to < AHEAD) || end() < to)) {
    fetchRows(end(), WINDOW, "behind").then((came) => came && fill());
  } else if (first > 0 && ((!isDown && from - first < AHEAD) || from < first)) {
    const at = Math.max(0, first - WINDOW);
    fetchRows(at, first - at, "before").then((came) => came && fill());
  }
}

/** Scrolls the panel, and no more than that, to a line. */
function reach(index) {
  const [one, top] = [height(), index * height()];
  grid.scrollTop = index < 0 ? 0 : Math.max(Math.min(grid.scrollTop, top), top + one + head() - grid.clientHeight);
}

function show(index) {
  reach(index);
  rowAt(index)?.scrollIntoView({ block: "nearest" });
}

let nGone = 0;

/** Moves the keyboard to a line, which is fetched when it is not there. */
async function go(index) {
  const nth = nGone += 1;
  current = Math.min(Math.max(index, -1), count - 1);
  // Where the lines have other numbers now, the first answer only says so.
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

/** Marks a step at once; the pane loads what is known about it. */
function select(row, how) {
  if (row.classList.contains("run")) return;
  selected = row.dataset.step;
  current = indexOf(row);
  mark();
  const now = Date.now();
  // A row that is only passed by is no step to go back to.
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

/** Goes to the row that the server finds; `none` is for when there is none. */
async function seek(query, none) {
  asked = null;
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
  // What is being marked to copy is not clicked.
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

// What keys ask for.
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

/** As the server writes it: everything but letters, digits, `-`, `.`, `_` and `~` is escaped. */
function encode(id) {
  return encodeURIComponent(id).replace(/[!*'()]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** How the trace is looked at, apart from what is selected and folded: another way is another page. */
function looking(query) {
  return ["v", "min", "kinds", "cols", "t0", "t1", "find"].map((name) => query.getAll(name).join(",")).join("&");
}

const looksAt = looking(new URLSearchParams(location.search));

async function onBack() {
  const query = new URLSearchParams(location.search);
  if (looking(query) !== looksAt) return location.reload();
  selected = encode(query.get("observation") ?? "");
  const folds = new URLSearchParams();
  for (const [name, value] of query) {
    if (/^(fold|open)(-run)?$|^(group|v|min|kinds|cols|t0|t1|in|find)$|^as[.]/.test(name)) folds.append(name, value);
  }
  rest = folds.size ? `&${folds}` : "";
  asked = null;
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
// The step that the address selects is scrolled to the upper third, because the window may end above the end of the panel.
if (rowAt(current) && current >= 0) grid.scrollTop = current * height() - (grid.clientHeight - head()) / 3;
else if (first === 0) grid.scrollTop = 0;
else grid.scrollTop = first * height();
if (current >= 0 && !location.hash) rowAt(current)?.scrollIntoView({ block: "nearest" });
lastTop = grid.scrollTop;
// What lies ahead is fetched from the first scroll on: a page that is only looked at needs no more than what came with it.
if (view()[1] > end() || view()[0] < first) fill();
grid.addEventListener("click", onClick);
grid.addEventListener("order", ({ detail: [what, on] }) => orders[what](on));
grid.addEventListener("scroll", () => grid.scrollTop !== lastTop && requestAnimationFrame(fill), { passive: true });
addEventListener("resize", () => { layout(); fill(); });
// A panel that gets lower keeps the line that keys start from in view.
let high = grid.clientHeight;
new ResizeObserver(() => {
  const top = current * height() - grid.scrollTop;
  if (grid.clientHeight < high && top > -1 && top < high - head()) reach(current);
  high = grid.clientHeight;
}).observe(grid);
addEventListener("popstate", onBack);
addEventListener("perpend:step", (event) => seekStep(event.detail));
// Other rows came between these, or some went.
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
