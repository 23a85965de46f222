// Refreshes the progress of background work until it ends; then the page is loaded once. Without this script a link does it.
"use strict";

const EVERY = 2_000;
const AT_MOST = 60_000;

const part = document.getElementById("progress");
let pause = EVERY;
let next = 0;

async function poll() {
  const answer = await fetch(part.dataset.from, { headers: { accept: "text/html" } }).catch(() => null);
  // The session expired or the import was deleted: polling stops, and the link shows the error.
  if (answer && (answer.redirected || (answer.status >= 400 && answer.status < 500 && answer.status !== 429))) return;
  const html = answer?.ok ? await answer.text().catch(() => null) : null;
  if (html !== null && html.trim() === "") {
    location.reload();
    return;
  }
  pause = html === null ? Math.min(2 * pause, AT_MOST) : EVERY;
  // An unchanged link keeps the focus.
  const link = part.querySelector("a");
  if (html !== null) {
    part.innerHTML = html;
    const again = part.querySelector("a");
    if (link && again?.isEqualNode(link)) again.replaceWith(link);
  }
  plan();
}

function plan() {
  clearTimeout(next);
  if (!document.hidden && isLive()) next = setTimeout(poll, pause);
}

if (part) {
  document.addEventListener("visibilitychange", plan);
  document.addEventListener("live", plan);
  plan();
}
