// Polls a trace for changes and updates the page. Selection, collapsed rows and scroll position stay. Complete traces can still
// receive scores and are polled less often. Without this script changes appear after a reload. All markup comes from the server.
"use strict";

const SOON = 2_000;
const LATER = 10_000;
const COMPLETE = 20_000;
// Rows per request.
const PART = 200;
// Maximum number of rows in the document.
const MOST = 598;

const grid = document.querySelector("[role=treegrid]");
// The grid has the version of the shown data; in views without a grid, the bar with new entries.
const bar = document.getElementById("arrived");
const shows = grid ?? bar;
const box = grid?.querySelector(".window");
const pane = document.getElementById("detail");
const slot = {};

let pause = SOON;
let next = 0;

// Whether a part was not updated because it is in use; it is requested again.
let isLeft = false;

const hasFocus = (part) => part.contains(document.activeElement);

/** Whether a part contains the focus or the selection. */
function isRead(part) {
  const marked = getSelection();
  return hasFocus(part) || (!marked.isCollapsed && part.contains(marked.anchorNode));
}

const fields = (part) => Array.from(part.querySelectorAll("input:not([type=hidden]), textarea"));
const key = (row) => `${row.dataset.step} ${row.classList.contains("run")}`;
const bare = (row) => row.innerHTML.replaceAll(/ tabindex="-?\d+"/g, "");

/** The query of this page without the position of its rows. */
function query() {
  if (!grid) return location.search;
  const all = new URLSearchParams(location.search);
  for (const name of ["at", "n"]) all.delete(name);
  return all.size > 0 ? `?${all}` : "?trace";
}

/** Updates a row in place, because it can have the focus. */
function morph(row, now) {
  for (const name of now.getAttributeNames()) {
    if (row.getAttribute(name) !== now.getAttribute(name)) row.setAttribute(name, now.getAttribute(name));
  }
  for (const name of row.getAttributeNames()) {
    if (name !== "tabindex" && !now.hasAttribute(name)) row.removeAttribute(name);
  }
  if (bare(row) !== bare(now)) row.replaceChildren(...now.childNodes);
}

/** The current version of the rows in the document; null on an error. */
async function rowsOf(page, first) {
  const own = page.querySelector(".window");
  const n = Math.max(1, Math.ceil(box.childElementCount / PART));
  if (n === 1 && Number(own.dataset.at) === first) return Array.from(own.children);
  const rows = [];
  for (let nth = 0; nth < n; nth += 1) {
    const html = await askPart(slot, `${grid.dataset.from}/rows${query()}&at=${first + nth * PART}&n=${PART}`, false);
    if (!html) return null;
    const part = pageOf(html).querySelector(".window");
    // The trace changed between two responses: their rows do not fit together.
    if (part.dataset.revision !== own.dataset.revision) return null;
    rows.push(...part.children);
  }
  return rows.slice(0, MOST);
}

/** Replaces the rows; the first visible one keeps its position. */
function put(rows, count) {
  const one = grid.querySelector(".of-trace").getBoundingClientRect().height || 1;
  const first = firstIndex();
  const inView = box.children[Math.floor(grid.scrollTop / one) - first];
  const at = Array.prototype.indexOf.call(box.children, inView);
  const there = new Map(Array.from(box.children, (row) => [key(row), row]));
  const now = rows.map((row) => {
    const same = there.get(key(row));
    if (!same) return row;
    there.delete(key(row));
    morph(same, row);
    return same;
  });
  for (const gone of there.values()) gone.remove();
  now.forEach((row, nth) => {
    if (box.children[nth] !== row) box.insertBefore(row, box.children[nth] ?? null);
  });
  grid.setAttribute("aria-rowcount", String(count + 2));
  grid.dispatchEvent(new CustomEvent("followed", { detail: count }));
  const to = now.indexOf(inView);
  if (at >= 0 && to >= 0) grid.scrollTop += (to - at) * one;
}

function firstIndex() {
  const row = box.firstElementChild;
  return row ? Number(row.getAttribute("aria-rowindex")) - 3 : 0;
}

/** The text of a part without times, which may be in another zone. Form tokens are not text. */
function words(part) {
  const copy = part.cloneNode(true);
  for (const time of copy.querySelectorAll("time, .ago, [data-zone]")) time.remove();
  return copy.textContent.replaceAll(/\s+/g, " ").trim();
}

function putPane(now) {
  if (words(now) === words(pane)) return;
  if (isRead(pane) || pane.hasAttribute("aria-busy")) {
    isLeft = true;
    return;
  }
  const top = pane.scrollTop;
  pane.replaceChildren(...now.childNodes);
  pane.scrollTop = top;
}

const entries = (page) => Array.from(page.querySelector("main [data-rows]")?.children ?? []);
const keyOfEntry = (entry) => entry.dataset.step ?? entry.textContent;
const nAll = (page) => Number(page.querySelector("main .shown")?.textContent.match(/ of ([\d,]+)/)?.[1].replaceAll(",", "") ?? 0);

let nKnown = nAll(document);

/** Updates an entry, unless it is in use or has expanded parts. */
function putEntry(own, now) {
  const nOpen = (entry) => entry.querySelectorAll("details[open]").length;
  if (words(own) === words(now)) return;
  isLeft ||= isRead(own);
  if (!isRead(own) && !own.querySelector(".detail-in-place") && nOpen(own) === nOpen(now)) own.replaceWith(now);
}

/** Appends new entries. If entries changed before these, a bar links to them instead. */
function putEntries(page) {
  const [own, now] = [document, page].map(entries);
  const [keys, nowKeys] = [own, now].map((all) => all.map(keyOfEntry));
  for (const details of page.querySelectorAll("details.in-place")) details.hidden = false;
  // The document can contain more entries than one page.
  const isBegun = own.length > 0 && keys.slice(0, now.length).every((one, at) => one === nowKeys[at]);
  const list = own[0]?.parentElement;
  own.forEach((entry, at) => {
    const next = now[nowKeys.indexOf(keys[at])];
    if (next) putEntry(entry, next);
  });
  if (!isBegun) {
    const n = nAll(page) - nKnown;
    bar.hidden = false;
    bar.querySelector("[data-n]").textContent = n > 0 ? `${n.toLocaleString("en")} new` : "Changed";
    return;
  }
  if (now.length < own.length) return;
  nKnown = nAll(page);
  list.append(...now.slice(own.length));
  for (const part of [".shown", ".pager"]) {
    const [there, next] = [document, page].map((one) => one.querySelector(`main ${part}`));
    if (there && next && words(there) !== words(next)) there.replaceWith(next);
    else if (!there && next) list.after(next);
  }
  document.dispatchEvent(new Event("entries"));
}

/** Updates the header. Forms in use and rejected forms stay. */
function putHead(page) {
  for (const part of [".crumbs", ".trace-head", "#beside", "#marks"]) {
    const [own, now] = [document, page].map((one) => one.querySelector(part));
    if (!own || !now) continue;
    if (words(own) === words(now)) continue;
    const isRefused = own.querySelector("[aria-invalid=true]") !== null;
    const isTyped = fields(own).some((field) => field.value !== field.defaultValue || field === document.activeElement);
    if (isRefused || isTyped || (isRead(own) && !hasFocus(own))) {
      isLeft = true;
      continue;
    }
    const place = placeOf(own);
    keepOpen(own, now);
    own.replaceChildren(...now.childNodes);
    begin(own);
    if (place !== -1) focusAt(own, place);
  }
  document.title = page.title;
}

/** Updates rows, map and pane; returns whether the response fits the page. */
async function putRows(page, search) {
  const theirs = page.querySelector("[role=treegrid]");
  const first = firstIndex();
  const rows = await rowsOf(page, first);
  // The selection or the rows changed meanwhile: the next response includes the update.
  if (!rows || !isLive() || location.search !== search || firstIndex() !== first) return false;
  putHead(page);
  document.getElementById("map").replaceChildren(...page.getElementById("map").childNodes);
  for (const name of ["no-tok", "no-cost"]) grid.classList.toggle(name, theirs.classList.contains(name));
  const heads = theirs.querySelectorAll(".names > .row");
  grid.querySelectorAll(".names > .row").forEach((row, nth) => morph(row, heads[nth]));
  const { count, revision } = page.querySelector(".window").dataset;
  box.dataset.revision = revision;
  put(rows, Number(count));
  putPane(page.getElementById("detail"));
  return true;
}

/** Loads the page again; returns whether it was updated completely. */
async function follow() {
  const { search } = location;
  const html = await askPart(slot, `${location.pathname}${query()}`, false);
  const page = html ? pageOf(html) : null;
  const version = page?.querySelector("[data-version]")?.dataset.version;
  isLeft = false;
  if (version === undefined || !isLive() || (grid && !(await putRows(page, search)))) return false;
  if (!grid) {
    putHead(page);
    putEntries(page);
  }
  if (!isLeft) shows.dataset.version = version;
  return !isLeft;
}

async function poll() {
  const answer = await fetch(`${shows.dataset.from}/state`, { headers: { accept: "text/html" } }).catch(() => null);
  // The session expired or the trace was deleted: polling stops, and the next link shows the error.
  if (answer && (answer.redirected || (answer.status >= 400 && answer.status < 500 && answer.status !== 429))) {
    delete shows.dataset.version;
    return;
  }
  const html = answer?.ok ? await answer.text().catch(() => null) : null;
  const state = html ? pageOf(html).querySelector("[data-version]") : null;
  const isNew = state && isLive() && state.dataset.version !== shows.dataset.version;
  const slowest = state && state.dataset.live === undefined ? COMPLETE : LATER;
  pause = isNew && (await follow()) ? SOON : Math.min(slowest, 1.5 * pause);
  plan();
}

function plan() {
  clearTimeout(next);
  if (!document.hidden && isLive() && shows?.dataset.version !== undefined) next = setTimeout(poll, pause);
}

document.addEventListener("visibilitychange", plan);
document.addEventListener("live", plan);
bar?.querySelector("a").addEventListener("click", (event) => {
  event.preventDefault();
  location.reload();
});
plan();
