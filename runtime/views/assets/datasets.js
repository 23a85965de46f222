// Checks the JSON values of a form against the schemas of its dataset while the user types. The server returns the lists of
// problems; saving checks again without this script.
"use strict";

/** Time in milliseconds without typing before a check. */
const QUIET = 400;

let timer;
let newest = 0;

/** Replaces the lists of problems of the form. An answer to an earlier check is dropped. */
async function check(form) {
  const own = (newest += 1);
  const body = new URLSearchParams(new FormData(form));
  const sent = fetch(form.dataset.checks, { method: "POST", body, headers: { accept: "text/html" } });
  const answer = await sent.catch(() => null);
  const html = answer?.ok ? await answer.text().catch(() => null) : null;
  if (html === null || own !== newest) return;
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const list of page.querySelectorAll("ul[id^=problems-]")) {
    const here = document.getElementById(list.id);
    const field = document.getElementById(list.id.replace("problems-", "field-"));
    if (!here || !field) continue;
    if (!here.isEqualNode(list)) here.replaceWith(list);
    if (list.childElementCount === 0) field.removeAttribute("aria-invalid");
    else field.setAttribute("aria-invalid", "true");
  }
}

document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (!form?.dataset.checks || !event.target.matches("textarea")) return;
  clearTimeout(timer);
  timer = setTimeout(check, QUIET, form);
});
