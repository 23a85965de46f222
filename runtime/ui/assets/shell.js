// On every page: single keys, and waiting for what is not there yet. Without this script the same is reached by links.
"use strict";

// A key means nothing special while somebody types, or with a modifier.
function isTyping(event) {
  const on = event.target;
  return event.ctrlKey || event.metaKey || event.altKey
    || document.querySelector("dialog[open]") !== null
    || (on instanceof Element && on.closest("input, textarea, select, [contenteditable]") !== null);
}

function go(selector) {
  const link = document.querySelector(selector);
  if (link) location.href = link.href;
  return link !== null;
}

function rowLinks() {
  return Array.from(document.querySelectorAll("main [data-rows] .name"));
}

function step(by) {
  const links = rowLinks();
  if (links.length === 0) return false;
  const at = links.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by;
  links[Math.min(Math.max(next, 0), links.length - 1)].focus();
  return true;
}

let isAfterG = false;

function onShellKey(event) {
  if (isTyping(event)) return;
  const key = event.key;
  if (isAfterG) {
    isAfterG = false;
    if (/^[a-z]$/.test(key) && go(`.rail [data-key="${key}"]`)) event.preventDefault();
    return;
  }
  let isDone = true;
  switch (key) {
    case "g": isAfterG = true; break;
    case "j": isDone = step(1); break;
    case "k": isDone = step(-1); break;
    case "o": {
      const link = document.activeElement;
      isDone = rowLinks().includes(link);
      if (isDone) open(link.href, "_blank", "noopener");
      break;
    }
    case ">": isDone = go("a[rel=next]"); break;
    case "<": isDone = go("a[rel=prev]"); break;
    case "f":
    case "/": {
      const field = document.querySelector(key === "f" ? "[data-find]" : "[data-filter]");
      isDone = field !== null;
      field?.focus();
      break;
    }
    case "?": document.getElementById("keys")?.showModal(); break;
    default: isDone = false;
  }
  if (isDone) event.preventDefault();
}

// The page asks for itself until there is something to show.
async function wait() {
  if (!document.hidden) {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
    const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
    if (page && !page.querySelector("[data-wait]")) {
      location.reload();
      return;
    }
  }
  setTimeout(wait, 1500);
}

addEventListener("keydown", onShellKey);
if (document.querySelector("[data-wait]")) setTimeout(wait, 1500);
