// The detail pane of the trace page: shows the selected observation. Without this script each observation is a page. All markup
// comes from the server.
"use strict";

const LATE = 250;

const grid = document.querySelector("[role=treegrid]");
const pane = document.getElementById("detail");
const status = document.getElementById("said");
const slot = {};

let late = 0;

/** Loads the selection of the URL. */
async function load() {
  pane.setAttribute("aria-busy", "true");
  // The pane is dimmed only if the response is slow, because each change is painted.
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
  // Keeps the focus on the chosen form of a value.
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
  if (row) status.textContent = `${row.querySelector(".kind").textContent} ${row.querySelector(".name").textContent}`;
  load();
});
