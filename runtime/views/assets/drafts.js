// Unsaved text of an editor is kept in this browser as a draft, offered when the form is opened again, and removed when the
// form was saved. Nothing is restored without a click. Without this script, or without storage, the form works alone.
"use strict";

/** A draft is kept under the path that saves the form, which names the project and the evaluator. */
const PREFIX = "draft ";
const MAX_AGE_MS = 30 * 24 * 3_600_000;
const MAX_CHARS = 400_000;
const MAX_DRAFTS = 10;
const WAIT_MS = 400;
/** The form that was sent last, until the next page shows whether it was saved. */
const SENT = "draft-sent";

const TEXTS = "textarea, select, input:not([type]), input[type=text], input[type=checkbox]";
/** What the form is based on: the server compares it, so that a restored draft overwrites no other change. */
const BASIS = "input[name=version], input[name^=stored_]";

const keyOf = (form) => PREFIX + form.getAttribute("action");
const valueOf = (field) => (field.type === "checkbox" ? field.checked : field.value);

function fieldsOf(form, wanted) {
  return Array.from(form.elements).filter((field) => field.matches(wanted) && !/^(try_|pick|$)/.test(field.name));
}

function valuesOf(form, wanted) {
  return fieldsOf(form, wanted).map((field) => [field.name, valueOf(field)]);
}

/** The draft of a key; null without one. */
function read(key) {
  try {
    const draft = JSON.parse(localStorage.getItem(key));
    return Array.isArray(draft?.texts) && Array.isArray(draft.basis) && Date.now() - draft.at < MAX_AGE_MS ? draft : null;
  } catch {
    return null;
  }
}

function remove(key) {
  try {
    localStorage.removeItem(key);
  } catch {
    // Without storage there is no draft.
  }
}

/** Removes expired drafts, and the oldest ones above the limit. */
function prune() {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    const drafts = keys.map((key) => [key, read(key)?.at ?? 0]).sort(([, a], [, b]) => b - a);
    drafts.forEach(([key, at], place) => {
      if (at === 0 || place >= MAX_DRAFTS) localStorage.removeItem(key);
    });
  } catch {
    // Without storage there is no draft.
  }
}

/** Keeps the values of a form; false if they are too large or the browser refuses. */
function write(form) {
  const draft = JSON.stringify({ at: Date.now(), texts: valuesOf(form, TEXTS), basis: valuesOf(form, BASIS) });
  if (draft.length > MAX_CHARS) return false;
  try {
    localStorage.setItem(keyOf(form), draft);
    return true;
  } catch {
    return false;
  }
}

function setValue(field, value) {
  if (field.type === "checkbox") field.checked = value === true;
  else field.value = String(value);
  field.dispatchEvent(new Event(field.matches("select, [type=checkbox]") ? "change" : "input", { bubbles: true }));
}

/** A judge has a draft with another number of messages: superfluous ones are removed, missing ones are sent to be shown. */
function fitMessages(form, texts) {
  const blocks = Array.from(form.querySelectorAll("[data-message]"));
  const messages = texts.filter(([name]) => name === "role" || name === "content");
  const n = messages.length / 2;
  if (blocks.length === 0 || n < 1) return false;
  for (const block of blocks.slice(n)) block.remove();
  const missing = messages.slice(2 * blocks.length);
  for (const [name, value] of missing) {
    const field = Object.assign(document.createElement("input"), { type: "hidden", name, value });
    blocks[0].parentElement.append(field);
  }
  return missing.length > 0;
}

/** False if the form was sent, to show further messages. */
function restore(form, { texts, basis }) {
  const isMissing = fitMessages(form, texts);
  const all = new Map();
  for (const [name, value] of [...basis, ...texts]) all.set(name, [...(all.get(name) ?? []), value]);
  for (const field of fieldsOf(form, `${BASIS}, ${TEXTS}`)) {
    const value = all.get(field.name)?.shift();
    if (value !== undefined && valueOf(field) !== value) setValue(field, value);
  }
  if (isMissing) form.requestSubmit(form.querySelector("button[value=preview]"));
  return !isMissing;
}

/** Offers the draft of a form, and keeps a new one while the form changes. `sent`: the form that was sent last. */
function begin(form, sent) {
  form.dataset.drafts = "on";
  const key = keyOf(form);
  const offer = form.querySelector("[data-draft-offer]");
  const note = form.querySelector("[data-draft-note]");
  const isSame = ({ texts }) => JSON.stringify(texts) === JSON.stringify(valuesOf(form, TEXTS));
  let timer = 0;

  const keep = () => {
    clearTimeout(timer);
    timer = 0;
    note.hidden = write(form);
  };
  const flush = () => {
    if (timer !== 0 && form.isConnected) keep();
  };
  const decide = (isRestored) => {
    const draft = isRestored ? read(key) : null;
    if (!draft) remove(key);
    // The draft stays offered, and is not replaced, until all of it is in the form.
    else if (!restore(form, draft)) return;
    offer.hidden = true;
    form.querySelector("textarea:not([hidden])")?.focus();
  };

  const draft = read(key);
  // The answer to a sent form has what was sent, which is newer than the draft, unless the draft is still offered.
  const isNewer = "sent" in form.dataset && !(sent?.key === key && sent.isOffered);
  if (isNewer) keep();
  else if (draft && !isSame(draft)) {
    const time = offer.querySelector("time");
    const at = new Date(draft.at);
    time.dateTime = at.toISOString();
    time.textContent = at.toLocaleString();
    offer.hidden = false;
    offer.querySelector("[data-draft=restore]").addEventListener("click", () => decide(true));
    offer.querySelector("[data-draft=discard]").addEventListener("click", () => decide(false));
  }

  const onChange = ({ target }) => {
    // A draft that is still offered is not replaced.
    if (!offer.hidden || !fieldsOf(form, TEXTS).includes(target)) return;
    clearTimeout(timer);
    timer = setTimeout(keep, WAIT_MS);
  };
  for (const name of ["input", "change"]) form.addEventListener(name, onChange);
  addEventListener("pagehide", flush);
  form.addEventListener("submit", (event) => {
    flush();
    mark({ key, isSave: event.submitter?.value === "save", isOffered: !offer.hidden });
  });
}

function mark(form) {
  try {
    if (form) sessionStorage.setItem(SENT, JSON.stringify(form));
    else sessionStorage.removeItem(SENT);
  } catch {
    // Without storage there is no draft.
  }
}

/** The form that was sent last. */
function marked() {
  try {
    return JSON.parse(sessionStorage.getItem(SENT));
  } catch {
    return null;
  }
}

/** The forms that have no drafts yet; a sent form is replaced in place. */
function beginAll() {
  const forms = document.querySelectorAll("form[data-drafts='']");
  if (forms.length === 0) return;
  const sent = marked();
  // A form that is shown again was not saved.
  mark(null);
  for (const form of forms) begin(form, sent);
}

// The page after a form that was saved has a message.
const before = marked();
if (!document.querySelector("form[data-drafts]")) {
  if (before?.isSave && document.querySelector("[data-flash]")) remove(before.key);
  mark(null);
}
prune();
beginAll();
new MutationObserver(beginAll).observe(document.getElementById("main"), { childList: true, subtree: true });
