// Find in a trace: n and N select the observations that contain the text of the URL, and the pane, or the entry in a view
// without rows, highlights it. Without this script the hits are links on a separate page. All markup comes from the server.
"use strict";

const strip = document.getElementById("sought");
const grid = document.querySelector("[role=treegrid]");
// The part in which the text is highlighted.
let pane = document.getElementById("detail");
const wanted = new URLSearchParams(location.search).get("find")?.trim().toLowerCase() ?? "";

// URL-encoded ids of observations, empty for the trace itself, and the number of occurrences in all.
const hits = [];
let nPlaces = 0;
// URL of the next page of hits, and the searched part of the trace in words.
let next = strip?.dataset.hits ?? null;
let searched = "";
// Index of the current hit, and the id of the hit that is being loaded.
let at = -1;
let goal = null;

const numbers = new Intl.NumberFormat("en-US");
const many = (n, word) => `${numbers.format(n)} ${word}${n === 1 ? "" : "s"}`;

/** Id of the selected observation; in a view without rows, that of the URL. */
function selectedId() {
  if (grid) return grid.querySelector("[aria-selected=true]")?.dataset.step;
  const query = new URLSearchParams(location.search);
  const id = query.get("observation") ?? query.get("trace");
  return hits.find((hit) => decodeURIComponent(hit) === id);
}

/** URL of this page with a hit selected, without these parameters. */
function addressOf(id, without = []) {
  const query = new URLSearchParams(location.search);
  for (const name of ["at", "observation", "trace", ...without]) query.delete(name);
  if (id) query.set("observation", decodeURIComponent(id));
  else query.set("trace", "");
  return `?${query}`;
}

/** Shows that a hit is not visible, with a link that shows it. */
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
  const nObservations = hits.filter(Boolean).length;
  const observations = nObservations > 0 ? [many(nObservations, "observation")] : [];
  const where = hits.includes("") ? [...observations, "the trace"] : observations;
  return many(nPlaces, "hit") + (where.length > 0 ? ` in ${where.join(" and ")}` : "");
}

/** Shows the number of the selected hit. */
function tell() {
  if (!strip) return;
  const step = selectedId();
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
  // A view without rows is reloaded at each hit, and a hit of a later page is unknown until that page was loaded.
  const query = new URLSearchParams(location.search);
  if (!grid && next && selectedId() === undefined && (query.has("observation") || query.has("trace"))) await read();
}

/** Loads the next page of hits, one at a time. */
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

/** Highlights the text in the pane. A new pane is scrolled to the first match. */
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

/** Shows the entry of a hit in a view without rows, expanded because the text may be in a collapsed part. */
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
  // Does not scroll if the user has focused another element.
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
  // The same page with selection and collapsed rows.
  const query = new URLSearchParams(location.search);
  query.delete("at");
  query.set("find", text);
  location.search = query.toString();
});
if (grid) {
  let shown = selectedId();
  // The pane is scrolled to the text if another observation is selected, and not if the same one is updated.
  new MutationObserver((changes) => {
    const isSwapped = changes.some((change) => change.target === pane);
    const now = selectedId();
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
