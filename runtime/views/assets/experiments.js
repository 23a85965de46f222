// Experiments: selection of runs by keys in the list, and keys of a comparison: next and previous regression and improvement,
// difference on or off, and the next baseline. Without this script links and checkboxes do the same.
"use strict";

const LEAST = 2;
const MOST = 6;

const choice = document.getElementById("choice");
const status = document.getElementById("said");
let lastChosen = null;

function boxes() {
  return Array.from(document.querySelectorAll("input[form=choice]"));
}

function needed() {
  const n = boxes().filter((box) => box.checked).length;
  return n >= LEAST && n <= MOST ? null : `Select ${LEAST} to ${MOST} runs to compare (${n} selected).`;
}

function tell(aloud) {
  const n = boxes().filter((box) => box.checked).length;
  const text = needed() ?? `${n} runs selected; the oldest is the baseline`;
  document.getElementById("n-chosen").textContent = text;
  if (aloud) status.textContent = text;
}

function choose(row, isRange) {
  const all = boxes();
  const box = row.querySelector("input[form=choice]");
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

function onChoiceKey(event) {
  const row = document.activeElement.closest("main [data-rows] tr");
  if (event.key === "a") chooseAll();
  else if ((event.key === "x" || event.key === "X") && row) choose(row, event.key === "X");
  else return false;
  return true;
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
  const isDone = choice ? onChoiceKey(event) : onComparisonKey(event);
  if (isDone) event.preventDefault();
}

// Before the keys of the shell, so that a key of this page is handled once.
if (document.documentElement.dataset.keys !== "off" && status) addEventListener("keydown", onKey, { capture: true });
if (choice) {
  choice.addEventListener("submit", (event) => {
    if (needed() === null) return;
    event.preventDefault();
    tell(true);
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches?.("input[form=choice]")) return;
    lastChosen = event.target;
    tell(true);
  });
  // After going back, the browser restores the checkboxes before this event.
  addEventListener("pageshow", () => tell(false));
}
