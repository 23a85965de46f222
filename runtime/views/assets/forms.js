// Forms return to the current URL of the page. Forms that name the parts they change are submitted in place. Without this
// script they reload the page. All markup comes from the server.
"use strict";

/** Parts of both pages with this name. `rows` are the rows of a list, because rows may have been added meanwhile. */
function pairs(page, name) {
  if (name !== "rows") return [[document.getElementById(name), page.getElementById(name)]];
  const rows = Array.from(document.querySelectorAll("#rows > tr"), (row) => [row, page.getElementById(row.id)]);
  return rows.filter(([, there]) => there);
}

/** Replaces parts of this page with those of another; false if a part is missing. */
function swap(page, names, changed) {
  const parts = names.flatMap((name) => pairs(page, name));
  if (parts.some(([here, there]) => !here || !there) || (changed && !page.getElementById(changed))) return false;
  for (const [here, there] of parts) {
    // Another observation may have been selected meanwhile.
    if (here.dataset.of !== there.dataset.of || here.isEqualNode(there)) continue;
    const place = placeOf(here);
    for (const box of here.querySelectorAll("input[type=checkbox]:checked")) {
      const again = there.querySelector(`input[value="${CSS.escape(box.value)}"]`);
      if (again) again.checked = true;
    }
    if (here.matches("tr[aria-current]")) there.setAttribute("aria-current", "true");
    keepOpen(here, there);
    here.replaceWith(there);
    begin(there);
    if (place !== -1) focusAt(there, place);
  }
  const token = page.querySelector("input[name=form]")?.value;
  for (const field of document.querySelectorAll("input[name=form]")) field.value = token ?? field.value;
  return true;
}

function bring(part) {
  if (!part) return;
  document.getElementById(part.id)?.remove();
  document.getElementById("main").prepend(part);
}

function say(text) {
  document.dispatchEvent(new CustomEvent("say", { detail: { text, stays: true } }));
}

function isBox(field) {
  return field.type === "checkbox" || field.type === "radio";
}

function valueOf(field) {
  return isBox(field) ? field.checked : field.value;
}

/** The fields of a form that a user can change, by id, or without one by name and choice. */
function fieldsOf(form) {
  const wanted = "input:not([type=hidden], [type=file]), select, textarea";
  const fields = Array.from(form.elements).filter((field) => field.matches(wanted));
  return new Map(fields.map((field) => [field.id || `${field.name} ${isBox(field) ? field.value : ""}`, field]));
}

/** Sets the fields that were changed while a form was sent, if another form took its place. */
function restore(form, changed) {
  if (form.isConnected || changed.length === 0) return;
  const [action, swaps] = [form.getAttribute("action"), form.dataset.swaps];
  const isSame = (other) => other.getAttribute("action") === action && other.dataset.swaps === swaps;
  const now = Array.from(document.forms).find(isSame);
  const fields = now ? fieldsOf(now) : new Map();
  for (const [key, field] of changed) {
    const again = fields.get(key);
    if (!again) continue;
    if (isBox(field)) again.checked = field.checked;
    else again.value = field.value;
  }
}

/** `button`: name, value and row of the submit button. */
async function send(form, button) {
  const body = new URLSearchParams(new FormData(form));
  if (button?.name) body.append(button.name, button.value);
  const sent = new Map(Array.from(fieldsOf(form), ([key, field]) => [key, valueOf(field)]));
  // Buttons named `action` hide the property.
  const action = form.getAttribute("action");
  const answer = await fetch(action, { method: "POST", body, headers: { accept: "text/html" } }).catch(() => null);
  const html = await answer?.text().catch(() => null);
  if (!answer || html === null) {
    say("Not sent: the server cannot be reached. Try again.");
    return;
  }
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const older of document.querySelectorAll("main > .problems")) older.remove();
  const changed = Array.from(fieldsOf(form)).filter(([key, field]) => valueOf(field) !== sent.get(key));
  if (swap(page, form.dataset.swaps.split(" "), button?.row)) {
    restore(form, changed);
    const problems = page.querySelector(".problems");
    bring(page.getElementById("told"));
    document.dispatchEvent(new Event("tell"));
    if (problems) {
      document.getElementById("main").prepend(problems);
      problems.focus();
    } else {
      // The problems of a replaced form moved with it.
      const within = (what) => form.dataset.swaps.split(" ").map((name) => `#${name} ${what}`).join(", ");
      const summary = document.querySelector(within(".problems"));
      if (summary) summary.focus();
      else if (!answer.ok) document.querySelector(within(".problem"))?.scrollIntoView({ block: "center" });
    }
  } else if (answer.ok) {
    location.href = answer.url;
  } else {
    say(page.querySelector(".lead")?.textContent ?? "Not saved.");
  }
}

let sending = Promise.resolve();

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post") return;
  if (form.elements.back) form.elements.back.value = location.pathname + location.search;
  if (!form.dataset.swaps && !form.matches("[data-undo]")) return;
  event.preventDefault();
  if (form.matches("[data-undo]")) form.dataset.swaps ??= undoes();
  const by = event.submitter;
  const button = by && { name: by.name, value: by.value, row: by.closest("tr")?.id };
  const what = `${button?.name}=${button?.value}`;
  // Forms are sent one after the other, each with the token of the previous response. A pending form is not sent twice.
  if (form.dataset.sends === what) return;
  form.dataset.sends = what;
  sending = sending.then(() => send(form, button)).finally(() => {
    if (form.dataset.sends === what) delete form.dataset.sends;
  });
});

/** The parts of this page that undo can change. */
function undoes() {
  return ["marks", "tags", "rows"].filter((name) => document.getElementById(name)).join(" ");
}
