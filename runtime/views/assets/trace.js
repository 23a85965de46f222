// Views of a trace: selects a range of the time axis by dragging, expands observations of the log in place. Without this
// script links and forms do the same. All markup comes from the server.
"use strict";

// Time

const grid = document.querySelector("[role=treegrid][data-time]");

/** The position of a pointer event on the axis, from 0 to 1. */
function share(event) {
  const frame = grid.querySelector(".ticks").getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - frame.left) / frame.width));
}

let from = null;

function onDown(event) {
  if (event.button === 0 && event.target.closest(".ticks")) from = share(event);
}

function onUp(event) {
  if (from === null) return;
  const ends = [from, share(event)].sort((a, b) => a - b);
  from = null;
  // A click does not select a range.
  if (ends[1] - ends[0] < 0.005) return;
  const form = document.querySelector(".time-part form");
  const start = Number(form.elements.t0.dataset.ms);
  const length = Number(form.elements.t1.dataset.ms) - start;
  const fields = [form.elements.t0, form.elements.t1];
  const shown = fields.map((field) => field.value);
  fields.forEach((field, nth) => { field.value = String(Math.round((start + ends[nth] * length) * 1000) / 1000); });
  form.requestSubmit();
  // The Back button restores the original values.
  fields.forEach((field, nth) => { field.value = shown[nth]; });
}

// Log

let nOpened = 0;

/** Makes ids unique, because several observations can be expanded on one page. */
function nameApart(part) {
  nOpened += 1;
  for (const one of part.querySelectorAll("[id]")) {
    for (const name of ["href", "aria-describedby", "aria-labelledby", "for", "data-swaps"]) {
      const now = name === "href" ? `#${one.id}` : one.id;
      for (const user of part.querySelectorAll(`[${name}="${CSS.escape(now)}"]`)) {
        user.setAttribute(name, name === "data-swaps" ? "" : `${now}-in-${nOpened}`);
      }
    }
    one.id += `-in-${nOpened}`;
  }
}

async function onOpen(event) {
  const details = event.target;
  if (!details.matches?.("details.in-place") || !details.open || details.dataset.has) return;
  details.dataset.has = "yes";
  const html = await askHtml(details.dataset.from);
  if (html === null) {
    delete details.dataset.has;
    noteFailure(details, () => onOpen(event));
    return;
  }
  const part = document.createElement("div");
  part.className = "detail-in-place";
  part.innerHTML = html;
  nameApart(part);
  details.querySelector(":scope > .failed")?.remove();
  details.append(part);
}

/** Appends the next page of the log. */
async function loadNext(link, isClicked) {
  link.removeAttribute("rel");
  const html = await askHtml(link.href);
  // An update replaced the link meanwhile.
  if (!link.isConnected) return watch();
  const page = html === null ? null : pageOf(html);
  const entries = page?.querySelector("ol.log");
  if (!entries) {
    link.rel = "next";
    if (isClicked) location.href = link.href;
    return undefined;
  }
  for (const details of entries.querySelectorAll("details.in-place")) details.hidden = false;
  const first = entries.firstElementChild;
  document.querySelector("ol.log").append(...entries.children);
  const shown = document.querySelector("main .shown");
  const to = page.querySelector("main .shown").textContent.split("–")[1];
  shown.textContent = `${shown.textContent.split("–")[0]}–${to}`;
  const next = page.querySelector(".pager a[rel=next]");
  const isWalked = document.activeElement === link;
  if (next) link.replaceWith(next);
  else link.remove();
  if (isWalked) first.querySelector("a").focus();
  return watch();
}

const atEnd = new IntersectionObserver((seen) => {
  const link = seen.find((one) => one.isIntersecting)?.target;
  // With the keyboard, the focus reaches the link instead of an endless list.
  const isWalked = document.activeElement?.closest("ol.log, .pager");
  if (link?.rel === "next" && !isWalked) loadNext(link, false);
}, { rootMargin: "400px" });

function watch() {
  atEnd.disconnect();
  const link = document.querySelector("ol.log ~ .pager a[rel=next]");
  if (link) atEnd.observe(link);
}

watch();
document.addEventListener("entries", watch);
document.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("ol.log ~ .pager a[rel=next]") : null;
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  loadNext(link, true);
});
if (grid) {
  grid.addEventListener("pointerdown", onDown);
  addEventListener("pointerup", onUp);
}
for (const details of document.querySelectorAll("details.in-place")) details.hidden = false;
document.addEventListener("toggle", onOpen, true);
