// Forms are sent from the page as it is looked at now, and those that say which parts of it they change are answered in
// place. Without this script they lead to the same page. Markup comes from the server alone.
"use strict";

const FOCUSABLE = "a[href], button:not([disabled]), input:not([type=hidden])";

/** The place of the keyboard in a part of the page: a name, or a number among what can have it; -1 outside. */
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

/** Puts parts of another page in the place of those here; false when one of them is not there. */
function swap(page, names) {
  const parts = names.map((name) => [document.getElementById(name), page.getElementById(name)]);
  if (parts.some(([here, there]) => !here || !there)) return false;
  for (const [here, there] of parts) {
    const place = placeOf(here);
    here.replaceWith(there);
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

async function send(form, button) {
  const action = button?.getAttribute("formaction") ?? form.action;
  const body = new URLSearchParams(new FormData(form, button));
  form.dataset.isSent = "";
  const answer = await fetch(action, { method: "POST", body, headers: { accept: "text/html" } }).catch(() => null);
  const html = await answer?.text().catch(() => null);
  delete form.dataset.isSent;
  if (!answer || html === null) {
    say("Not sent: the server cannot be reached. Try again.");
    return;
  }
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const older of document.querySelectorAll("main > .problems")) older.remove();
  if (swap(page, form.dataset.swaps.split(" "))) {
    const problems = page.querySelector(".problems");
    bring(page.getElementById("told"));
    document.dispatchEvent(new Event("tell"));
    if (problems) {
      document.getElementById("main").prepend(problems);
      problems.focus();
    }
  } else if (answer.ok) {
    location.href = answer.url;
  } else {
    say(page.querySelector(".lead")?.textContent ?? "This was not done.");
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post") return;
  if (form.elements.back) form.elements.back.value = location.pathname + location.search;
  if (!form.dataset.swaps && !form.matches("[data-undo]")) return;
  event.preventDefault();
  if (form.dataset.isSent !== undefined) return;
  if (form.matches("[data-undo]")) form.dataset.swaps ??= undoes();
  send(form, event.submitter);
});

/** The parts of this page that undoing something can change. */
function undoes() {
  return ["marks", "rows"].filter((name) => document.getElementById(name)).join(" ");
}
