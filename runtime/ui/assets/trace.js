// On every view of a trace: keys for the views, a part of the time axis by dragging, steps of the log opened in place.
// Without this script the same is reached by links and forms. Markup comes from the server alone.
"use strict";

function onViewKey(event) {
  if (event.defaultPrevented || isTyping(event) || !/^[1-6]$/.test(event.key)) return;
  const link = document.querySelector(`[data-aspect="${event.key}"]`);
  if (!link) return;
  event.preventDefault();
  location.href = link.href;
}

// Time

const grid = document.querySelector("[role=treegrid][data-time]");

/** The share of the axis, from 0 to 1, at a place on the screen. */
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
  // A click is no part.
  if (ends[1] - ends[0] < 0.005) return;
  const form = document.querySelector(".time-part form");
  const start = Number(form.elements.t0.value);
  const length = Number(form.elements.t1.value) - start;
  const [t0, t1] = ends.map((end) => String(Math.round((start + end * length) * 1000) / 1000));
  form.elements.t0.value = t0;
  form.elements.t1.value = t1;
  form.requestSubmit();
}

// Log

async function onOpen(event) {
  const details = event.target;
  if (!details.matches?.("details.in-place") || !details.open || details.dataset.has) return;
  details.dataset.has = "yes";
  const answer = await fetch(details.dataset.from, { headers: { accept: "text/html" } }).catch(() => null);
  const html = answer?.ok && !answer.redirected ? await answer.text().catch(() => null) : null;
  if (html === null) {
    delete details.dataset.has;
    details.open = false;
    return;
  }
  const part = document.createElement("div");
  part.className = "detail-in-place";
  part.innerHTML = html;
  details.append(part);
}

if (document.documentElement.dataset.keys !== "off") addEventListener("keydown", onViewKey);
if (grid) {
  grid.addEventListener("pointerdown", onDown);
  addEventListener("pointerup", onUp);
}
for (const details of document.querySelectorAll("details.in-place")) details.hidden = false;
document.addEventListener("toggle", onOpen, true);
