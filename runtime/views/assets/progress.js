// Refreshes the progress of background work until it ends; then the page is loaded once. Without this script a link does it.
"use strict";

const EVERY = 2_000;
// While the progress does not change, and while it is not available.
const UNCHANGED = 10_000;
const AT_MOST = 60_000;

const part = document.getElementById("progress");
let pause = EVERY;
let next = 0;
let isPolling = false;
let isOver = false;
let shown = "";

/** The progress; null if it is not available. */
async function load() {
  const answer = await fetch(part.dataset.from, { headers: { accept: "text/html" } }).catch(() => null);
  // The session expired or the page was deleted: polling stops, and the link shows the error.
  isOver = Boolean(answer && (answer.redirected || (answer.status >= 400 && answer.status < 500 && answer.status !== 429)));
  return answer?.ok && !isOver ? answer.text().catch(() => null) : null;
}

function show(html) {
  shown = html;
  // An unchanged link keeps the focus.
  const link = part.querySelector("a");
  part.innerHTML = html;
  const again = part.querySelector("a");
  if (link && again?.isEqualNode(link)) again.replaceWith(link);
}

async function poll() {
  isPolling = true;
  const html = await load();
  isPolling = false;
  if (html === null) {
    pause = Math.min(2 * pause, AT_MOST);
  } else if (html.trim() === "") {
    isOver = true;
    location.reload();
  } else if (html === shown) {
    pause = Math.min(1.5 * pause, UNCHANGED);
  } else {
    pause = EVERY;
    show(html);
  }
  plan();
}

function plan() {
  clearTimeout(next);
  // The poll in progress plans the next one.
  if (!document.hidden && isLive() && !isPolling && !isOver) next = setTimeout(poll, pause);
}

if (part) {
  document.addEventListener("visibilitychange", plan);
  document.addEventListener("live", plan);
  plan();
}
