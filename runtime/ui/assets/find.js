// Find in a trace: n and N go through the steps that contain the text in the address, and the pane marks it. Without this
// script the hits are links on a page of their own. Markup comes from the server alone.
"use strict";

const strip = document.getElementById("sought");
const pane = document.getElementById("detail");
const wanted = new URLSearchParams(location.search).get("find")?.trim().toLowerCase() ?? "";

// Ids of steps as the server writes them in rows; an empty one is the trace itself.
const hits = [];
// The part of the search that was not read yet, and how much of the trace the others searched.
let next = strip?.dataset.hits ?? null;
let searched = "";
// The hit that was last gone to, and the one on the way.
let at = -1;
let goal = null;

const numbers = new Intl.NumberFormat("en-US");

/** Says which hit is selected, of how many. */
function tell() {
  if (!strip) return;
  const step = document.querySelector(".grid [aria-selected=true]")?.dataset.step;
  const here = hits.indexOf(step);
  if (here >= 0 && (goal === null || goal === step)) {
    at = here;
    goal = null;
  }
  const of = numbers.format(hits.length);
  const place = here >= 0 ? `${numbers.format(here + 1)} of ${of}` : `${of} ${hits.length === 1 ? "hit" : "hits"}`;
  strip.querySelector("[data-place]").textContent = searched ? `${place} so far · ${searched}` : place;
}

let reading = null;

async function read() {
  const html = await askHtml(next);
  if (html === null) {
    noteFailure(strip, more);
    return;
  }
  strip.querySelector(":scope > .failed")?.remove();
  const page = pageOf(html);
  for (const link of page.querySelectorAll(".hits [data-step]")) hits.push(link.dataset.step);
  next = page.querySelector("main a[rel=next]")?.getAttribute("href") ?? null;
  searched = page.querySelector(".searched")?.textContent ?? "";
  tell();
}

/** Reads the next part of the search, once at a time. */
function more() {
  reading ??= read().finally(() => { reading = null; });
  return reading;
}

async function step(by) {
  if (reading) await reading;
  let to = at + by;
  if (at < 0) to = by > 0 ? 0 : hits.length - 1;
  if (to >= hits.length && next) await more();
  if (to < 0 || to >= hits.length) {
    if (to < 0 && hits.length > 0) say("No earlier hit");
    else say(searched ? `No further hit: ${searched}` : "No further hit");
    return;
  }
  at = to;
  goal = hits[to];
  dispatchEvent(new CustomEvent("perpend:step", { detail: goal }));
}

/** Marks the text in the pane. One that was loaded just now is scrolled to its first place. */
function mark(isNew) {
  if (!wanted) return;
  const ranges = highlight("sought", pane, wanted);
  if (!isNew || ranges.length === 0) return;
  const isOpen = (range) => !range.startContainer.parentElement.closest("#detail details:not([open])");
  const first = ranges.find(isOpen) ?? ranges[0];
  for (let fold = first.startContainer.parentElement.closest("#detail details:not([open])"); fold;) {
    fold.open = true;
    fold = fold.parentElement.closest("#detail details:not([open])");
  }
  const [place, frame] = [first.getBoundingClientRect(), pane.getBoundingClientRect()];
  if (place.top < frame.top || place.bottom > frame.bottom) pane.scrollTop += place.top - frame.top - frame.height / 3;
}

function onKey(event) {
  if (event.defaultPrevented || isTyping(event) || (event.key !== "n" && event.key !== "N")) return;
  event.preventDefault();
  step(event.key === "n" ? 1 : -1);
}

const form = document.querySelector("form.find");
form?.addEventListener("submit", (event) => {
  const text = String(new FormData(form).get("q")).trim();
  if (!text) return;
  event.preventDefault();
  // The same page, with what is selected and folded.
  const query = new URLSearchParams(location.search);
  query.set("find", text);
  location.search = query.toString();
});
const shownStep = () => document.querySelector(".grid [aria-selected=true]")?.dataset.step;
let shown = shownStep();
// The pane is scrolled to the text when another step is selected, and stays where it is when the same one is put anew.
new MutationObserver((changes) => {
  const isSwapped = changes.some((change) => change.target === pane);
  const now = shownStep();
  mark(isSwapped && now !== shown);
  if (!isSwapped) return;
  shown = now;
  tell();
}).observe(pane, { childList: true, subtree: true });
if (strip && document.documentElement.dataset.keys !== "off") document.addEventListener("keydown", onKey);
mark(true);
if (strip) more();
