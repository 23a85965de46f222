// On every page: keyboard shortcuts, copying, and parts that are loaded later. Without this script links do the same.
"use strict";

const preferred = document.documentElement.dataset;

const FIELDS = "input:not([type=checkbox]), textarea, select, [contenteditable]";

// Shortcuts are off in text fields, in dialogs and with a modifier key.
function isTyping(event) {
  const on = event.target;
  return event.ctrlKey || event.metaKey || event.altKey
    || document.querySelector("dialog[open]") !== null
    || (on instanceof Element && on.closest(FIELDS) !== null);
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
  const on = document.activeElement;
  const row = on.closest("main [data-rows] :is(tr, li, .turn)");
  const at = links.findIndex((link) => link === on || row?.contains(link));
  // Turns continue on the next and the previous page.
  const isEnd = at === (by > 0 ? links.length - 1 : 0);
  if (isEnd && document.querySelector("[data-plays]") && go(by > 0 ? "a[rel=next]" : "a[rel=prev]")) return true;
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by;
  links[Math.min(Math.max(next, 0), links.length - 1)].focus();
  return true;
}

// The status region: screen readers announce it, and it disappears after a while unless it is hovered or focused.

const toast = document.getElementById("toast");
let toastEnds = 0;

/** Errors stay until the next message. */
function show(element, stays = false) {
  for (const other of toast.children) other.hidden = true;
  toast.append(element);
  element.hidden = false;
  clearTimeout(toastEnds);
  if (!stays) toastEnds = setTimeout(hush, 8000);
}

function say(text, stays = false) {
  for (const older of toast.querySelectorAll(":scope > p")) older.remove();
  const line = document.createElement("p");
  line.textContent = text;
  show(line, stays);
}

function hush() {
  if (toast.matches(":hover, :focus-within")) toastEnds = setTimeout(hush, 1000);
  else for (const element of toast.children) element.hidden = true;
}

document.addEventListener("say", (event) => say(event.detail.text, event.detail.stays));

// The message about the last change is announced once. The change can be undone for a minute, also after the message is hidden.
function tell() {
  const message = document.querySelector("main > #told");
  if (!message) return;
  const older = document.querySelector("#toast > .told");
  // The focus moves to the new message from the start of the page.
  const main = document.getElementById("main");
  if (older?.contains(document.activeElement)) {
    main.tabIndex = -1;
    main.focus();
  }
  older?.remove();
  const isNew = sessionStorage.getItem("told") !== message.dataset.told;
  sessionStorage.setItem("told", message.dataset.told);
  message.removeAttribute("id");
  if (isNew) show(message);
  else {
    message.hidden = true;
    toast.append(message);
  }
  setTimeout(() => message.remove(), 60_000);
}

document.addEventListener("tell", tell);

// Parts of the page. Helpers of the modules are here too, because modules have no imports.

/** The markup of a response; null on an error or a redirect, such as without a session. */
async function askHtml(address) {
  const answer = await fetch(address, { headers: { accept: "text/html" } }).catch(() => null);
  return answer?.ok && !answer.redirected ? answer.text().catch(() => null) : null;
}

/** Highlights a lowercase text, if the browser supports it; returns its ranges. */
function highlight(name, root, wanted) {
  const ranges = [];
  if (!globalThis.CSS?.highlights || typeof Highlight === "undefined") return ranges;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < 1000; node = walker.nextNode()) {
    const whole = node.data.toLowerCase();
    // A letter whose lowercase has another length would shift the offsets after it.
    if (whole.length !== node.data.length) continue;
    for (let at = whole.indexOf(wanted); at >= 0; at = whole.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + wanted.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set(name, new Highlight(...ranges));
  return ranges;
}

/** Parses a page. */
function pageOf(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

/**
 * The markup of a response; undefined if a newer request replaced this one, null without a response. If the session expired or
 * the item was deleted, the page is reloaded, unless `reloads` is false.
 */
async function askPart(slot, path, reloads = true) {
  slot.abort?.abort();
  const mine = new AbortController();
  slot.abort = mine;
  const answer = await fetch(path, { headers: { accept: "text/html" }, signal: mine.signal }).catch((error) => {
    return error.name === "AbortError" ? undefined : null;
  });
  if (answer === undefined || slot.abort !== mine) return undefined;
  if (answer?.redirected || [401, 403, 404].includes(answer?.status)) {
    if (!reloads) return null;
    location.reload();
    return undefined;
  }
  if (!answer?.ok) return null;
  if (answer.status === 204) return "";
  const text = await answer.text().catch(() => null);
  return slot.abort === mine ? text : undefined;
}

const FOCUSABLE = "a[href], button:not([disabled]), input:not([type=hidden])";

/** The focused element in a part of the page: its id, or its index among the focusable elements; -1 outside. */
function placeOf(part) {
  const on = document.activeElement;
  if (!part.contains(on)) return -1;
  return on.id || Array.from(part.querySelectorAll(FOCUSABLE)).indexOf(on);
}

function focusAt(part, place) {
  const all = Array.from(part.querySelectorAll(FOCUSABLE));
  const again = all.find((one) => one.id === place) ?? all[Math.min(place, all.length - 1)];
  again?.focus({ preventScroll: true });
}

/** Keeps disclosed forms open when a part of the page is replaced. */
function keepOpen(here, there) {
  for (const open of here.querySelectorAll("details[id][open]")) {
    there.querySelector(`#${open.id}`)?.setAttribute("open", "");
  }
}

/** Shows an error with a retry button in a part of the page. */
function noteFailure(part, retry) {
  part.querySelector(":scope > .failed")?.remove();
  const notice = document.querySelector("template#failed").content.firstElementChild.cloneNode(true);
  notice.querySelector("button").addEventListener("click", () => {
    notice.remove();
    retry();
  });
  part.removeAttribute("aria-busy");
  part.prepend(notice);
}

/** Loads a slow part when it becomes visible. Without this script a link leads to a page with the part. */
async function bringLater(place) {
  place.setAttribute("aria-busy", "true");
  const html = await askHtml(place.dataset.later);
  if (html === null) return noteFailure(place, () => bringLater(place));
  const on = placeOf(place);
  place.innerHTML = html;
  place.dataset.later = "";
  place.removeAttribute("aria-busy");
  if (on !== -1) focusAt(place, on);
}

const whenSeen = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    if (!isIntersecting) continue;
    whenSeen.unobserve(target);
    bringLater(target);
  }
}, { rootMargin: "200px" });

/** Enables the scripted elements of a part of the page. */
function begin(part) {
  for (const button of part.querySelectorAll("[data-copies], [data-text], [data-opens]")) button.hidden = false;
  for (const place of part.querySelectorAll("[data-later]")) whenSeen.observe(place);
}

/** Marks the option that Enter selects, or none. */
function markOption(field, list, option) {
  list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
  if (!option) {
    field.removeAttribute("aria-activedescendant");
    return;
  }
  option.setAttribute("aria-selected", "true");
  field.setAttribute("aria-activedescendant", option.id);
  option.scrollIntoView({ block: "nearest" });
}

async function copy(text, what) {
  // Browsers offer this only on HTTPS and on localhost.
  const isDone = await navigator.clipboard?.writeText(text).then(() => true, () => false);
  say(isDone ? `${what} copied` : `${what} not copied: browsers allow this only on HTTPS or localhost`);
}

function onClick(event) {
  const jump = event.target instanceof Element ? event.target.closest("[data-jumps]") : null;
  if (jump) {
    // Without a history entry, so that Back leads to the previous page.
    event.preventDefault();
    const place = document.getElementById(jump.hash.slice(1));
    place?.scrollIntoView({ block: "start" });
    place?.focus({ preventScroll: true });
    return;
  }
  const button = event.target instanceof Element ? event.target.closest("[data-copies], [data-text], [data-opens]") : null;
  if (!button) return;
  const { copies, text, opens, what } = button.dataset;
  if (opens) openDialog(opens);
  else copy(text ?? document.getElementById(copies)?.textContent ?? "", what ?? "Text");
}

// Keys

/** The element of a shortcut, as listed in the dialog of keyboard shortcuts. */
function controlOf(key) {
  const line = document.querySelector(`#keys [data-acts="${CSS.escape(key)}"]`);
  const all = line ? Array.from(document.querySelectorAll(line.dataset.needs)) : [];
  return all.find((one) => one.checkVisibility()) ?? all[0];
}

/** Clicks a link or button, or focuses any other element. */
function reach(control) {
  if (!control) return false;
  if (control.matches("a, button")) {
    control.click();
    return true;
  }
  const folded = control.closest("details");
  if (folded) folded.open = true;
  control.scrollIntoView({ block: "nearest" });
  control.focus();
  return true;
}

/** Opens a dialog. Keyboard shortcuts without an element on this page are hidden. */
function openDialog(id) {
  const dialog = document.getElementById(id);
  for (const line of dialog?.querySelectorAll("[data-needs]") ?? []) {
    line.hidden = document.querySelector(line.dataset.needs) === null;
  }
  dialog?.showModal();
}

let isAfterG = false;

function onShellKey(event) {
  if (event.defaultPrevented || isTyping(event)) return;
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
    // Arrow keys also scroll the page: they move between rows only if a row has the focus.
    case "ArrowDown": isDone = rowLinks().includes(document.activeElement) && step(1); break;
    case "ArrowUp": isDone = rowLinks().includes(document.activeElement) && step(-1); break;
    case "o": {
      const row = document.activeElement.closest("main [data-rows] :is(tr, li, .turn)");
      const link = rowLinks().find((link) => link === document.activeElement || row?.contains(link));
      isDone = Boolean(link);
      if (link) open(link.href, "_blank", "noopener");
      break;
    }
    case "b": {
      const row = document.activeElement.closest("main [data-rows] tr") ?? document.querySelector("main tr[aria-current]");
      isDone = reach((document.getElementById("marks") ?? row)?.querySelector("[data-mark]"));
      break;
    }
    case "y": copy(location.href, "URL"); break;
    case "?": openDialog("keys"); break;
    default: isDone = reach(controlOf(key));
  }
  if (isDone) event.preventDefault();
}

// Panels that open over the page.
const PANELS = ".panels > details, details:is(.project, .values, .view)";

/** Escape closes the innermost open panel and focuses its summary, or leaves a field outside of panels. */
function onEscape(event) {
  if (event.key !== "Escape" || event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
  const on = document.activeElement;
  const open = Array.from(document.querySelectorAll(PANELS)).filter((one) => one.open && one.querySelector("summary").checkVisibility());
  const around = open.findLast((one) => one.contains(on));
  const panel = around ?? (on.matches(FIELDS) ? undefined : open.at(-1));
  if (panel) {
    panel.open = false;
    panel.querySelector("summary").focus();
  } else if (on.matches(FIELDS)) {
    on.blur();
  } else {
    return;
  }
  event.preventDefault();
}

/** Submits the focused form with its first button. On a link, the keys open a tab. */
function onSend(event) {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented || event.isComposing) return;
  const on = event.target instanceof Element ? event.target : null;
  const form = on?.form ?? on?.closest("form");
  if (!form || on.closest("a[href]")) return;
  event.preventDefault();
  const buttons = Array.from(form.elements).filter((one) => one.type === "submit" && !one.disabled);
  form.requestSubmit(buttons.includes(on) ? on : buttons[0]);
}

/** Whether automatic updates are on. */
function isLive() {
  return document.documentElement.dataset.live !== "off";
}

// An error page with a delay is reloaded after it.
const again = document.querySelector("[data-again]");
if (again) {
  let left = Number(again.dataset.again);
  const count = setInterval(() => {
    if (document.hidden) return;
    left -= 1;
    again.querySelector("b").textContent = String(Math.max(left, 0));
    if (left > 0) return;
    clearInterval(count);
    // Forms are never resubmitted automatically.
    if (again.dataset.stays) again.textContent = again.dataset.stays;
    else location.reload();
  }, 1000);
}

if (preferred.keys !== "off") addEventListener("keydown", onShellKey);
addEventListener("keydown", onSend);
addEventListener("keydown", onEscape);
document.addEventListener("click", onClick);
addEventListener("perpend:copy", (event) => copy(event.detail.text, event.detail.what));
begin(document);
tell();

// After going back or reloading, browsers restore field values. These forms are reset to the values of the URL, unless
// the user has typed since the page started to load.
const typed = new Set();
addEventListener("input", (event) => typed.add(event.target.form), { capture: true });
addEventListener("pageshow", (event) => {
  const how = performance.getEntriesByType("navigation")[0]?.type ?? "navigate";
  if (!event.persisted && how === "navigate") return;
  for (const form of document.querySelectorAll("form[role=search]:not(.find), .panels form")) {
    if (event.persisted || !typed.has(form)) form.reset();
  }
});

// A page from the back-forward cache is hidden until the server confirms that the session is still valid.
addEventListener("pageshow", async (event) => {
  if (!event.persisted) return;
  const root = document.documentElement;
  root.style.opacity = "0";
  const how = { cache: "no-cache", redirect: "manual", headers: { accept: "text/html" } };
  const answer = await fetch(location.href, how).catch(() => null);
  if (answer?.ok) root.style.opacity = "";
  else location.reload();
});
