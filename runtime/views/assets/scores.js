// Polls the scores while some are pending. Without this script they appear after a reload. All markup comes from the server.
"use strict";

const SOON = 1_000;
const LATER = 4_000;

let pause = SOON;
let next = 0;
let of = null;
let watched = null;
let last = {};

async function ask() {
  const part = document.getElementById("pane-scores");
  const from = part?.dataset.from ?? location.href;
  const html = await askHtml(from);
  // Another observation was selected meanwhile.
  if (part !== document.getElementById("pane-scores")) return plan();
  const page = html === null ? null : pageOf(html);
  const now = page?.getElementById("pane-scores");
  // Compares responses rather than the page, which shows times in another zone. Tokens differ in each response.
  const text = now?.textContent;
  const isNew = text !== undefined && text !== (from === last.from ? last.text : part.textContent);
  if (now) last = { from, text };
  if (isNew) {
    const more = now.querySelectorAll(".card-score").length - part.querySelectorAll(".card-score").length;
    const place = placeOf(part);
    part.replaceWith(now);
    if (place !== -1) focusAt(now, place);
    open();
    pause = SOON;
    if (more > 0) document.dispatchEvent(new CustomEvent("say", { detail: { text: more === 1 ? "1 new score" : `${more} new scores` } }));
  } else {
    pause = Math.min(LATER, 1.5 * pause);
  }
  plan();
}

function plan() {
  clearTimeout(next);
  const part = watched = document.getElementById("pane-scores");
  if (document.hidden || !isLive() || part?.dataset.unsettled === undefined) return;
  if (part.dataset.of !== of) pause = SOON;
  of = part.dataset.of;
  next = setTimeout(ask, pause);
}

// Other scripts replace the pane.
new MutationObserver(() => {
  if (document.getElementById("pane-scores") !== watched) plan();
}).observe(document.getElementById("main"), { childList: true, subtree: true });
document.addEventListener("visibilitychange", plan);
document.addEventListener("live", plan);
plan();

/** Expands and highlights the card of the URL fragment, also after a card was replaced. */
function open() {
  const id = location.hash.slice(1);
  for (const card of document.querySelectorAll(".card-score")) {
    const isLed = card.id !== "" && card.id === id;
    card.classList.toggle("led", isLed);
    if (isLed) card.querySelector(".made")?.setAttribute("open", "");
  }
}

addEventListener("hashchange", open);
open();
