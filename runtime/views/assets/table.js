// The list of traces: peek at a trace next to the list, and exclusion of values by Alt+click. Without this script the peek is a link,
// and each value has an exclude link. All markup comes from the server.
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
