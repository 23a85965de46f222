// The list of traces: peek at a trace next to the list, row selection by keys, and exclusion of values by Alt+click. Without this
// script the peek is a link, rows are selected by checkboxes, and each value has an exclude link. All markup comes from the server.
"use strict";

const panel = document.getElementById("peek");
const list = document.getElementById("list");
const status = document.getElementById("said");

const slot = {};

function fragment(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

// Peek

function isOpen() {
  return panel !== null && !panel.hidden;
}

function rowOf(element) {
  return element instanceof Element ? element.closest("main [data-rows] tr") : null;
}

function shownRow() {
  return document.querySelector("main [data-rows] tr[aria-current]");
}

function mark(row) {
  shownRow()?.removeAttribute("aria-current");
  row?.setAttribute("aria-current", "true");
}

async function peek(row) {
  const link = row?.querySelector("[data-peek]");
  if (!link || !panel) return;
  // The row is marked before its content is loaded.
  mark(row);
  list.classList.add("peeking");
  panel.hidden = false;
  panel.setAttribute("aria-busy", "true");
  const address = new URL(link.href);
  // The fragment leads to the row, which is already visible.
  address.hash = "";
  const html = await askPart(slot, `${panel.dataset.from}/${link.dataset.peek}/peek${address.search}`);
  if (html === undefined) return;
  if (html === null) {
    noteFailure(panel, () => peek(row));
    return;
  }
  panel.replaceChildren(fragment(html));
  panel.removeAttribute("aria-busy");
  panel.scrollTop = 0;
  // In a narrow window the panel covers a part of the list or all of it.
  if (row.checkVisibility()) row.scrollIntoView({ block: "nearest" });
  else panel.scrollIntoView({ block: "nearest" });
  history.replaceState(history.state, "", address);
  status.textContent = `Peek: ${row.querySelector(".name").textContent}`;
}

function walk(by) {
  const row = shownRow();
  const next = by > 0 ? row?.nextElementSibling : row?.previousElementSibling;
  if (next) peek(next);
}

function close() {
  slot.abort?.abort();
  slot.abort = null;
  const row = shownRow();
  const hadFocus = panel.contains(document.activeElement);
  panel.hidden = true;
  panel.removeAttribute("aria-busy");
  panel.replaceChildren();
  list.classList.remove("peeking");
  mark(null);
  const address = new URL(location.href);
  address.searchParams.delete("peek");
  history.replaceState(history.state, "", address);
  status.textContent = "Peek closed";
  if (hadFocus) row?.querySelector(".name").focus();
}

// j and k start at the row of the peek: a later listener moves the focus.
function beforeKey(event) {
  const walks = event.key === "j" || event.key === "k";
  if (walks && isOpen() && !isTyping(event) && !rowOf(document.activeElement)) {
    shownRow()?.querySelector(".name").focus();
  }
}

// Whole cells

/** Expands or collapses the whole input and output of a row. */
async function whole(row) {
  const shown = row.querySelectorAll(".whole");
  if (shown.length > 0) {
    for (const cell of shown) {
      cell.previousElementSibling.hidden = false;
      cell.remove();
    }
    return;
  }
  const link = row.querySelector("[data-peek]");
  for (const cut of row.querySelectorAll("[data-cell]")) {
    const cell = document.createElement("div");
    cell.className = "whole";
    cut.after(cell);
    cut.hidden = true;
    const html = await askHtml(`${panel.dataset.from}/${link.dataset.peek}/cell/${cut.dataset.cell}`);
    if (html === null) {
      cut.hidden = false;
      noteFailure(cell, () => {
        cell.remove();
        whole(row);
      });
    } else {
      cell.replaceChildren(fragment(html));
      for (const long of cell.querySelectorAll("details.long")) long.open = true;
    }
  }
}

// Choice

const choice = document.getElementById("choice");
let lastChosen = null;

function boxes() {
  return Array.from(document.querySelectorAll("input[form=choice]"));
}

function needed() {
  const n = boxes().filter((box) => box.checked).length;
  if (n === 2) return null;
  const has = `${n} selected`;
  return `Select two traces to compare (${has}).`;
}

function tell(aloud) {
  const text = needed() ?? "2 traces selected";
  document.getElementById("n-chosen").textContent = text;
  if (aloud) status.textContent = text;
}

function choose(row, isRange) {
  const all = boxes();
  const box = row?.querySelector("input[form=choice]");
  if (!box) return;
  const [at, from] = [all.indexOf(box), all.indexOf(lastChosen)];
  if (isRange && from >= 0) {
    for (const one of all.slice(Math.min(at, from), Math.max(at, from) + 1)) one.checked = true;
  } else {
    box.checked = isRange || !box.checked;
  }
  lastChosen = box;
  tell(true);
}

function chooseAll() {
  const all = boxes();
  const isAll = all.every((box) => box.checked);
  for (const box of all) box.checked = !isAll;
  tell(true);
}

function onSubmit(event) {
  // Another button than *Compare* takes any number of traces.
  const isOther = event.submitter?.hasAttribute("formaction") ?? false;
  const isAny = isOther && boxes().some((box) => box.checked);
  const text = isAny ? null : needed();
  if (text === null) return;
  event.preventDefault();
  tell(true);
}

const hasKeys = document.documentElement.dataset.keys !== "off";

const WALKS = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };

function onKey(event) {
  // Another listener has moved the focus for a movement key: the peek follows it.
  if (event.defaultPrevented && !WALKS[event.key]) return;
  if (isTyping(event) || (!hasKeys && event.key !== "Escape")) return;
  const row = rowOf(document.activeElement);
  switch (event.key) {
    case "p":
      if (isOpen() && (row === null || row === shownRow())) close();
      else if (row) peek(row);
      else return;
      break;
    case "Enter":
      if (!event.shiftKey || !row?.querySelector("[data-peek]")) return;
      whole(row);
      break;
    case "x":
    case "X":
      if (choice === null || !(row ?? shownRow())) return;
      choose(row ?? shownRow(), event.key === "X");
      break;
    case "a":
      if (choice === null) return;
      chooseAll();
      break;
    case "j":
    case "k":
    case "ArrowDown":
    case "ArrowUp":
      if (isOpen() && row && row !== shownRow()) peek(row);
      // In a narrow window the peek replaces the list, so that no row can have the focus.
      else if (isOpen() && !list.querySelector("[data-rows]").checkVisibility()) walk(WALKS[event.key]);
      return;
    case "Escape":
      if (!isOpen()) return;
      close();
      break;
    default:
      return;
  }
  event.preventDefault();
}

/** Alt+click on a facet value excludes it. */
function onExclude(event) {
  const value = event.target instanceof Element ? event.target.closest(".facets li > a:first-child") : null;
  if (!value || !event.altKey || event.button !== 0) return;
  event.preventDefault();
  const not = value.parentElement.querySelector(".not");
  if (not) location.href = not.href;
}

function onClick(event) {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (link?.matches("[data-peek]")) {
    event.preventDefault();
    peek(rowOf(link));
  } else if (link?.matches("[data-close]")) {
    event.preventDefault();
    close();
  }
}

if (panel) {
  if (hasKeys) addEventListener("keydown", beforeKey, { capture: true });
  addEventListener("keydown", onKey);
  addEventListener("click", onClick);
  addEventListener("click", onExclude);
}
if (choice) {
  choice.addEventListener("submit", onSubmit);
  document.addEventListener("change", (event) => {
    if (!event.target.matches?.("input[form=choice]")) return;
    lastChosen = event.target;
    tell(true);
  });
  // After going back, the browser restores the checkboxes before this event.
  addEventListener("pageshow", () => tell(false));
}
