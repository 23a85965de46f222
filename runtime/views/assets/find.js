// Find in a trace: n and N go through the steps that contain the text in the address, and the pane, or the entry of the step
// in a view without rows, marks it. Without this script the hits are links on a page of their own. Markup comes from the
// server alone.
"use strict";

const strip = document.getElementById("sought");
const grid = document.querySelector("[role=treegrid]");
// Where the text is marked.
let pane = document.getElementById("detail");
const wanted = new URLSearchParams(location.search).get("find")?.trim().toLowerCase() ?? "";

// Ids of steps as the server writes them in rows; an empty one is the trace itself. How often the text occurs in all.
const hits = [];
let nPlaces = 0;
// The part of the search that was not read yet, and how much of the trace the others searched.
let next = strip?.dataset.hits ?? null;
let searched = "";
// The hit that was last gone to, and the one on the way.
let at = -1;
let goal = null;

const numbers = new Intl.NumberFormat("en-US");
const many = (n, word) => `${numbers.format(n)} ${word}${n === 1 ? "" : "s"}`;

/** The step that is shown; in a view without rows it is the one in the address. */
function shownStep() {
  if (grid) return grid.querySelector("[aria-selected=true]")?.dataset.step;
  const query = new URLSearchParams(location.search);
  const id = query.get("observation") ?? query.get("trace");
  return hits.find((hit) => decodeURIComponent(hit) === id);
}

/** The address of this page with a hit selected, without these parameters. */
function addressOf(id, without = []) {
  const query = new URLSearchParams(location.search);
  for (const name of ["at", "observation", "trace", ...without]) query.delete(name);
  if (id) query.set("observation", decodeURIComponent(id));
  else query.set("trace", "");
  return `?${query}`;
}

/** Says that a hit is not seen here, with a link that shows it. */
function note(text, href, label) {
  const line = document.createElement("span");
  const link = document.createElement("a");
  line.className = "unseen";
  link.href = href;
  link.textContent = label;
  line.append(`${text} `, link);
  strip.append(line);
}

/** `5 hits in 2 observations and the trace` */
function found() {
  const nSteps = hits.filter(Boolean).length;
  const steps = nSteps > 0 ? [many(nSteps, "observation")] : [];
  const where = hits.includes("") ? [...steps, "the trace"] : steps;
  return many(nPlaces, "hit") + (where.length > 0 ? ` in ${where.join(" and ")}` : "");
}

/** Says which hit is selected, of how many. */
function tell() {
  if (!strip) return;
  const step = shownStep();
  const here = hits.indexOf(step);
  if (here >= 0 && (goal === null || goal === step)) {
    at = here;
    goal = null;
  }
  const place = here >= 0 ? `${numbers.format(here + 1)} of ${numbers.format(hits.length)} · ${found()}` : found();
  strip.querySelector("[data-place]").textContent = searched ? `${place} so far · ${searched}` : place;
  if (here >= 0 && !grid) showEntry(step);
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
  for (const link of page.querySelectorAll(".hits [data-step]")) {
    hits.push(link.dataset.step);
    nPlaces += Number(link.dataset.n);
  }
  next = page.querySelector("main a[rel=next]")?.getAttribute("href") ?? null;
  searched = page.querySelector(".searched")?.textContent ?? "";
  tell();
  // A view without rows is opened anew at each hit: one of a later part is not known before that part was read.
  const query = new URLSearchParams(location.search);
  if (!grid && next && shownStep() === undefined && (query.has("observation") || query.has("trace"))) await read();
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
    else say(searched ? `No later hit: ${searched}` : "No later hit");
    return;
  }
  at = to;
  goal = hits[to];
  strip.querySelector(".unseen")?.remove();
  if (grid) dispatchEvent(new CustomEvent("perpend:step", { detail: goal }));
  else location.search = addressOf(goal);
}

/** Marks the text in the pane. One that was loaded just now is scrolled to its first place. */
function mark(isNew) {
  if (!wanted) return;
  const ranges = highlight("sought", pane, wanted);
  if (!isNew || ranges.length === 0) return;
  const foldOf = (element) => {
    const fold = element.closest("details:not([open])");
    return fold && pane.contains(fold) ? fold : null;
  };
  const first = ranges.find((range) => !foldOf(range.startContainer.parentElement)) ?? ranges[0];
  const text = first.startContainer.parentElement;
  for (let fold = foldOf(text); fold; fold = foldOf(text)) fold.open = true;
  if (!grid) {
    text.scrollIntoView({ block: "nearest" });
    return;
  }
  const [place, frame] = [first.getBoundingClientRect(), pane.getBoundingClientRect()];
  if (place.top < frame.top || place.bottom > frame.bottom) pane.scrollTop += place.top - frame.top - frame.height / 3;
}

let isEntryShown = false;

/** The entry of a hit in a view without rows. What it folds is opened: the text may be there. */
function showEntry(id) {
  if (isEntryShown) return;
  isEntryShown = true;
  const entry = id && document.querySelector(`main [data-step="${CSS.escape(id)}"]`);
  if (!entry) {
    const text = id ? "This view does not show the observation of this hit." : "This hit is in the trace itself.";
    note(text, addressOf(id, ["v", "min", "kinds"]), "Open in the tree");
    return;
  }
  pane = entry;
  // Who has begun to type or to read is not led away.
  if (document.activeElement === document.body) {
    entry.scrollIntoView({ block: "start" });
    entry.querySelector(".name").focus({ preventScroll: true });
  }
  mark(true);
  const fold = entry.querySelector("details.in-place");
  if (!fold) return;
  new MutationObserver((_, observer) => {
    observer.disconnect();
    mark(true);
  }).observe(fold, { childList: true });
  fold.open = true;
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
  query.delete("at");
  query.set("find", text);
  location.search = query.toString();
});
if (grid) {
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
  mark(true);
}
addEventListener("perpend:hidden", ({ detail }) => {
  const text = "The observation of this hit is hidden by the level or kind filter.";
  goal = null;
  say(text);
  note(text, addressOf(detail, ["min", "kinds"]), "Show all observations");
});
if (strip && document.documentElement.dataset.keys !== "off") document.addEventListener("keydown", onKey);
if (strip) more();
