// The pane of the trace page: what is known of the step that is chosen among the rows. Without this script each step is a
// page. Markup comes from the server alone.
"use strict";

const LATE = 250;

const grid = document.querySelector("[role=treegrid]");
const pane = document.getElementById("detail");
const said = document.getElementById("said");
const slot = {};

let late = 0;

/** Loads what the address selects. */
async function load() {
  pane.setAttribute("aria-busy", "true");
  // What comes soon is not dimmed before: each change of that is painted.
  clearTimeout(late);
  late = setTimeout(() => pane.classList.add("late"), LATE);
  const html = await askPart(slot, `${grid.dataset.from}/detail${location.search || "?trace"}`);
  if (html === undefined) return;
  clearTimeout(late);
  pane.classList.remove("late");
  if (html === null) {
    noteFailure(pane, load);
    return;
  }
  // Who chose another form of a value stays there.
  const on = document.activeElement.closest("#detail a[data-form]");
  const chosen = on && [on.closest(".value").ariaLabel, on.textContent];
  const top = chosen ? pane.scrollTop : 0;
  pane.innerHTML = html;
  pane.scrollTop = top;
  pane.removeAttribute("aria-busy");
  if (!chosen) return;
  const links = Array.from(pane.querySelectorAll("a[data-form]"));
  const same = links.find((link) => link.closest(".value").ariaLabel === chosen[0] && link.textContent === chosen[1]);
  same?.focus({ preventScroll: true });
}

grid.addEventListener("chosen", ({ detail: row }) => {
  if (row) said.textContent = `${row.querySelector(".kind").textContent} ${row.querySelector(".name").textContent}`;
  load();
});
