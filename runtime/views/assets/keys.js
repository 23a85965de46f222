// Keyboard shortcuts for the rows of a trace: each sends a command to the script of the rows.
"use strict";

const grid = document.querySelector("[role=treegrid]");

function order(what, on) {
  grid.dispatchEvent(new CustomEvent("order", { detail: [what, on] }));
}

const isOpen = (row) => row?.getAttribute("aria-expanded");
const isOfTrace = (row) => row?.classList.contains("of-trace");

function goLeft(row) {
  if (isOpen(row) === "true") order("toggle", row);
  else if (row && !isOfTrace(row)) order("go", Number(row.dataset.parent ?? -1));
}

function goRight(row) {
  if (isOpen(row) === "false") order("toggle", row);
  else if (isOpen(row) === "true") order("by", 1);
}

/** Handles a key for a row; false for other keys. */
function press(key, row) {
  switch (key) {
    case "ArrowDown": order("by", 1); break;
    case "ArrowUp": order("by", -1); break;
    case "Home": order("go", -1); break;
    case "End": order("go", Infinity); break;
    case "PageDown": order("page", 1); break;
    case "PageUp": order("page", -1); break;
    case "ArrowRight": goRight(row); break;
    case "ArrowLeft": goLeft(row); break;
    case "Enter":
    case " ":
      if (row) order(row.classList.contains("run") ? "toggle" : "choose", row);
      break;
    default: return false;
  }
  return true;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.target.closest("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
  // Without a focused element, arrow keys, Home and End start from the selected row.
  const isNowhere = event.target === document.body && /^(Arrow(Up|Down|Left|Right)|Home|End)$/.test(event.key);
  if (isNowhere || grid.contains(event.target)) {
    const row = event.target.closest("[role=row]") ?? grid.querySelector("[role=row][tabindex='0']");
    if (row) order("at", row);
    if (press(event.key, row)) {
      event.preventDefault();
      return;
    }
  }
  switch (event.key) {
    case "j": order("step", 1); break;
    case "k": order("step", -1); break;
    case "e": order("error", false); break;
    case "E": order("error", true); break;
    default: return;
  }
  event.preventDefault();
}

if (document.documentElement.dataset.keys !== "off") document.addEventListener("keydown", onKey);
