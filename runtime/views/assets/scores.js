// Scores that are on their way appear by themselves: their part of the page is asked for again until nothing is waited
// for. Without this script the page shows them when it is opened again. Markup comes from the server alone.
"use strict";

const SOON = 1_000;
const LATER = 4_000;

let pause = SOON;
let next = 0;
let of = null;
let watched = null;
let said = {};

async function ask() {
  const part = document.getElementById("pane-scores");
  const from = part?.dataset.from ?? location.href;
  const html = await askHtml(from);
  // Another step was opened meanwhile.
  if (part !== document.getElementById("pane-scores")) return plan();
  const page = html === null ? null : pageOf(html);
  const now = page?.getElementById("pane-scores");
  // What the server said, because times may be shown in another zone, and tokens differ in each answer.
  const text = now?.textContent;
  const isNew = text !== undefined && text !== (from === said.from ? said.text : part.textContent);
  if (now) said = { from, text };
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

// The pane is swapped by other scripts.
new MutationObserver(() => {
  if (document.getElementById("pane-scores") !== watched) plan();
}).observe(document.getElementById("main"), { childList: true, subtree: true });
document.addEventListener("visibilitychange", plan);
document.addEventListener("live", plan);
plan();

/** The card that the address leads to is open and marked; browsers forget their own mark when a card is swapped. */
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
