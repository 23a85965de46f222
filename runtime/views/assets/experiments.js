// Keys of a comparison of runs: next and previous regression and improvement, difference on or off, and the next baseline.
// Without this script links do the same.
"use strict";

const status = document.getElementById("said");

/** Moves the focus to the next or previous item of a kind; false at the end of the page. */
function walk(kind, by) {
  const rows = Array.from(document.querySelectorAll(`main tr[data-item~="${kind}"]`));
  const row = document.activeElement.closest("main tr[data-item]");
  const follows = Node.DOCUMENT_POSITION_FOLLOWING;
  const isBehind = (one) => row === null || (row.compareDocumentPosition(one) & follows) !== 0;
  const isBefore = (one) => row === null || (one.compareDocumentPosition(row) & follows) !== 0;
  const next = by > 0 ? rows.find(isBehind) : rows.findLast(isBefore);
  if (!next) {
    status.textContent = `No further items with ${kind} scores on this page`;
    return;
  }
  next.querySelector(".name").focus();
  next.scrollIntoView({ block: "nearest" });
}

function follow(selector) {
  const link = document.querySelector(selector);
  if (link) location.href = link.href;
}

function onComparisonKey(event) {
  switch (event.key) {
    case "r": walk("regressed", 1); return true;
    case "R": walk("regressed", -1); return true;
    case "i": walk("improved", 1); return true;
    case "=": {
      const isOff = document.querySelector("[data-diff]:last-child[aria-current]") !== null;
      follow(isOff ? "[data-diff]:first-child" : "[data-diff]:last-child");
      return true;
    }
    case "b": follow("[data-base]"); return true;
    default: return false;
  }
}

function onKey(event) {
  // A letter after g leads to a section.
  if (event.defaultPrevented || isTyping(event) || isAfterG) return;
  if (onComparisonKey(event)) event.preventDefault();
}

// Before the keys of the shell, so that a key of this page is handled once.
if (document.documentElement.dataset.keys !== "off" && status) addEventListener("keydown", onKey, { capture: true });
