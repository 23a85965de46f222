// The width of the detail pane of a trace: changed by dragging the divider, by arrow keys on it and by `m`, and stored in the
// browser. The rows fit into the window. Without this script both have their default sizes.
"use strict";

const split = document.querySelector(".split");
const divider = split.querySelector("[role=separator]");
const [LEAST, MOST] = [Number(divider.ariaValueMin), Number(divider.ariaValueMax)];
const USUAL = Number(divider.ariaValueNow);
const WIDE = 70;
const STEP = 5;

/** Sets the width of the pane in percent. */
function setShare(share, isKept = true) {
  const kept = Math.min(MOST, Math.max(LEAST, Math.round(share)));
  split.style.setProperty("--steps", `${100 - kept}fr`);
  split.style.setProperty("--pane", `${kept}fr`);
  divider.ariaValueNow = String(kept);
  if (!isKept) return;
  try {
    localStorage.setItem("pane", String(kept));
  } catch {
    // Storage is blocked: the width is not stored.
  }
}

const share = () => Number(divider.ariaValueNow);

function onMove(event) {
  const frame = split.getBoundingClientRect();
  setShare(100 * (frame.right - event.clientX) / frame.width);
}

divider.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  divider.setPointerCapture(event.pointerId);
  divider.addEventListener("pointermove", onMove);
  event.preventDefault();
  divider.focus();
});

for (const end of ["pointerup", "pointercancel"]) {
  divider.addEventListener(end, () => divider.removeEventListener("pointermove", onMove));
}

divider.addEventListener("keydown", (event) => {
  switch (event.key) {
    case "ArrowLeft": setShare(share() + STEP); break;
    case "ArrowRight": setShare(share() - STEP); break;
    case "Home": setShare(MOST); break;
    case "End": setShare(LEAST); break;
    default: return;
  }
  event.preventDefault();
  event.stopPropagation();
});

divider.addEventListener("dblclick", () => setShare(USUAL));

if (document.documentElement.dataset.keys !== "off") {
  addEventListener("keydown", (event) => {
    if (event.key !== "m" || event.defaultPrevented || isTyping(event)) return;
    event.preventDefault();
    setShare(share() < WIDE ? WIDE : USUAL);
  });
}

// Height

const grid = split.querySelector(".grid");
const GAP = 8;
const LOWEST = 300;

/** Limits the height of the rows to the window; if that is too little, the page scrolls. */
function fit() {
  const place = (part) => part.getBoundingClientRect();
  // The rows can be sticky: their default position is the top of the split.
  const above = place(split).top + scrollY + place(grid).top - place(grid.closest(".steps")).top;
  const left = Math.floor(innerHeight - above - GAP);
  const top = grid.scrollTop;
  grid.style.maxHeight = "";
  const usual = Number.parseFloat(getComputedStyle(grid).maxHeight);
  if (LOWEST <= left && left < usual) grid.style.maxHeight = `${left}px`;
  // Without the limit the box is temporarily higher, which resets its scroll position near the end.
  grid.scrollTop = top;
}

fit();
addEventListener("resize", fit);
// The header changes with updates of the trace and with expanded parts.
grid.addEventListener("followed", fit);
document.addEventListener("toggle", fit, true);

// A print contains only the loaded rows, and names their range.
addEventListener("beforeprint", () => {
  const places = Array.from(grid.querySelectorAll(".window > .row"), (row) => Number(row.getAttribute("aria-rowindex")) - 2);
  const count = Number(grid.getAttribute("aria-rowcount")) - 2;
  if (places.length < count) grid.dataset.printed = `Rows ${places.at(0)} to ${places.at(-1)} of ${count}.`;
  else delete grid.dataset.printed;
});

let kept = NaN;
try {
  kept = Number(localStorage.getItem("pane") ?? NaN);
} catch {
  // Storage is blocked.
}
if (!Number.isNaN(kept)) setShare(kept, false);
