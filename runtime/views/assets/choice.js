// Selection of the rows whose checkboxes belong to the form `choice`: by keys, with the number of selected rows. Each button of the
// form accepts a number of rows: from `data-least`, which is 1 by default, to `data-most`; `data-needs` is the message otherwise.
// Attributes of the form apply to buttons without them. Without this script rows are selected by their checkboxes, and the server
// refuses other numbers.
"use strict";

const form = document.getElementById("choice");
const status = document.getElementById("said");
const counter = document.getElementById("n-chosen");
let lastChosen = null;

function boxes() {
  return Array.from(document.querySelectorAll("input[form=choice][type=checkbox]"));
}

/** The message if the button does not accept the number of selected rows; else null. */
function problemOf(button) {
  const n = boxes().filter((box) => box.checked).length;
  const value = (name, none) => button?.dataset[name] ?? form.dataset[name] ?? none;
  if (n >= Number(value("least", 1)) && n <= Number(value("most", Infinity))) return null;
  return `${value("needs", "Select rows")} (${n} selected).`;
}

function announce(text) {
  counter.textContent = text;
  status.textContent = text;
}

/** Shows the number of selected rows, or the message of the first button. */
function count(isAnnounced) {
  const n = boxes().filter((box) => box.checked).length;
  const note = form.dataset.note ? `; ${form.dataset.note}` : "";
  const text = problemOf(form.querySelector("button[type=submit]")) ?? `${n} selected${note}`;
  if (isAnnounced) announce(text);
  else counter.textContent = text;
}

function choose(row, isRange) {
  const all = boxes();
  const box = row.querySelector("input[form=choice][type=checkbox]");
  if (!box) return;
  const [at, from] = [all.indexOf(box), all.indexOf(lastChosen)];
  if (isRange && from >= 0) {
    for (const one of all.slice(Math.min(at, from), Math.max(at, from) + 1)) one.checked = true;
  } else {
    box.checked = isRange || !box.checked;
  }
  lastChosen = box;
  count(true);
}

function chooseAll() {
  const all = boxes();
  const isAll = all.every((box) => box.checked);
  for (const box of all) box.checked = !isAll;
  count(true);
}

/** The row with the focus, or else the row of the peek. */
function currentRow() {
  const rows = "main [data-rows] tr";
  return document.activeElement?.closest(rows) ?? document.querySelector(`${rows}[aria-current]`);
}

function onKey(event) {
  // A letter after g leads to a section.
  if (event.defaultPrevented || isTyping(event) || isAfterG) return;
  const isRow = event.key === "x" || event.key === "X";
  const row = isRow ? currentRow() : null;
  if (event.key === "a") chooseAll();
  else if (row) choose(row, event.key === "X");
  else return;
  event.preventDefault();
}

if (form) {
  // Before the keys of the shell, so that a key is handled once.
  if (document.documentElement.dataset.keys !== "off") addEventListener("keydown", onKey, { capture: true });
  form.addEventListener("submit", (event) => {
    const problem = problemOf(event.submitter);
    if (problem === null) return;
    event.preventDefault();
    announce(problem);
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches?.("input[form=choice][type=checkbox]")) return;
    lastChosen = event.target;
    count(true);
  });
  // After going back, the browser restores the checkboxes before this event.
  addEventListener("pageshow", () => count(false));
}
