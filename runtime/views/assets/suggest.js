// Suggestions below the filter field: columns, operators and values from the server, and recent filters. Without this script
// the field is a plain text field. All markup comes from the server.
"use strict";

const field = document.querySelector("[data-suggests]");
const list = document.getElementById("suggestions");
const PAUSE = 80;
const RECENT = 8;
const key = `filters:${field.dataset.suggests}`;
const slot = {};
let waiting = 0;
// The text for which the options were loaded.
let loadedText = "";

const options = () => Array.from(list.children);
const marked = () => list.querySelector("[aria-selected=true]");

const mark = (option) => markOption(field, list, option);
const before = () => field.value.slice(0, field.selectionStart);

function open(isOpen) {
  list.hidden = !isOpen;
  field.setAttribute("aria-expanded", String(isOpen));
  if (!isOpen) mark(null);
}

function recent() {
  try {
    const all = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(all) ? all.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}

function remember() {
  const own = new URLSearchParams(location.search).get("q")?.trim();
  if (!own || document.querySelector(".terms .bad")) return;
  try {
    localStorage.setItem(key, JSON.stringify([own, ...recent().filter((one) => one !== own)].slice(0, RECENT)));
  } catch {
    // Storage is full or blocked: the filter is not stored.
  }
}

function showRecent() {
  const made = recent().map((text, at) => {
    const option = document.getElementById("recent-filter").content.firstElementChild.cloneNode(true);
    option.id = `recent-${at}`;
    option.dataset.whole = text;
    option.querySelector("bdi").textContent = text;
    return option;
  });
  list.replaceChildren(...made);
  open(made.length > 0);
}

async function ask() {
  if (field.value === "") {
    slot.abort?.abort();
    list.dataset.of = loadedText = "";
    showRecent();
    return;
  }
  const text = before();
  const html = await askPart(slot, `${field.dataset.suggests}?q=${encodeURIComponent(text)}`, false);
  // Without a response the field is a plain text field.
  if (typeof html !== "string" || document.activeElement !== field) return;
  list.innerHTML = html;
  list.dataset.of = loadedText = text;
  mark(null);
  open(list.children.length > 0);
}

/** The text after the caret, without the rest of the word that an option replaces. */
function rest(whole) {
  const head = before();
  const behind = field.value.slice(field.selectionStart);
  const sign = whole.at(-1);
  // An operator replaces another operator.
  if (!".: ".includes(sign)) return behind.replace(/^(?:[=!<>]=|[<>=~^$*])/, "");
  const isName = sign !== " ";
  // A name before other terms is a new term.
  if (isName && behind && /(?:^|\s)-?$/.test(head)) return ` ${behind.trimStart()}`;
  const isQuoted = head.replace(/\\./g, "").split('"').length % 2 === 0;
  const word = isQuoted ? /^(?:[^"\\]|\\.)*"?/ : /^"(?:[^"\\]|\\.)*"?|^[^\s,"()]*/;
  if (!isName) return behind.replace(word, "");
  return behind.replace(isQuoted ? word : sign === "." ? /^[^\s.:"]*/ : /^[^\s:"]*/, "").replace(/^[.:]/, "");
}

function choose(option) {
  const { whole } = option.dataset;
  // The text or the caret changed after these options were loaded.
  if (before() === loadedText) {
    const behind = rest(whole);
    // A value within a list, followed by another one.
    const start = /^[,)]/.test(behind) ? whole.trimEnd() : whole;
    field.value = start + (start.endsWith(" ") ? behind.trimStart() : behind);
    field.setSelectionRange(start.length, start.length);
  }
  ask();
}

function close() {
  clearTimeout(waiting);
  slot.abort?.abort();
  open(false);
}

field.setAttribute("role", "combobox");
field.setAttribute("aria-autocomplete", "list");
field.setAttribute("aria-controls", list.id);
open(false);
remember();

field.addEventListener("input", () => {
  clearTimeout(waiting);
  // The marked option belongs to an older text.
  mark(null);
  waiting = setTimeout(ask, PAUSE);
});
field.addEventListener("keydown", (event) => {
  if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = list.hidden ? [] : options();
  const at = all.indexOf(marked());
  switch (event.key) {
    case "ArrowDown":
      if (all.length === 0) ask();
      else mark(all[at + 1] ?? null);
      break;
    case "ArrowUp":
      if (all.length === 0) return;
      mark(at < 0 ? all.at(-1) : all[at - 1] ?? null);
      break;
    case "Enter":
      // Without a marked option the form is submitted.
      if (at < 0) return;
      choose(all[at]);
      break;
    case "Escape":
      if (list.hidden) return;
      close();
      break;
    default: return;
  }
  event.preventDefault();
  event.stopPropagation();
});
field.addEventListener("blur", close);
document.addEventListener("click", (event) => {
  const column = event.target instanceof Element ? event.target.closest("[data-inserts]") : null;
  if (!column) return;
  const text = field.value.trimEnd();
  field.value = `${text}${text && " "}${column.dataset.inserts}`;
  field.focus();
  field.setSelectionRange(field.value.length, field.value.length);
  ask();
});
// The field keeps the focus.
list.addEventListener("pointerdown", (event) => event.preventDefault());
list.addEventListener("click", (event) => {
  const option = event.target.closest("[role=option]");
  if (option) choose(option);
});
