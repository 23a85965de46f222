// On every page: shows times in the time zone of the browser. The server writes UTC, which stays in the tooltip.
"use strict";

const two = (n) => String(n).padStart(2, "0");

const dayOf = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
const clockOf = (at) => [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");

function localTime(time) {
  const at = new Date(time.dateTime);
  // A date without a time is a UTC day.
  if (Number.isNaN(at.getTime()) || time.title || time.dateTime.length === 10) return;
  const text = time.textContent.trim();
  // A time of today is shown without date.
  const isNear = /^\d\d:/.test(text);
  time.title = text.endsWith("UTC") ? text : `${isNear ? `${at.toISOString().slice(0, 10)} ` : ""}${text} UTC`;
  const part = /:\d\d(\.\d+)/.exec(text)?.[1] ?? "";
  const clock = `${clockOf(at)}${part}`;
  const isToday = time.nextElementSibling?.matches(".ago") && at.toDateString() === new Date().toDateString();
  const whole = isToday ? clock : `${dayOf(at)} ${clock}`;
  time.textContent = text.endsWith("UTC") ? `${whole} ${zoneOf(at)}` : whole;
}

let zones;

/** The name of the zone at a time, which depends on daylight saving time. */
function zoneOf(at) {
  zones ??= new Intl.DateTimeFormat("en", { timeZoneName: "short" });
  return zones.formatToParts(at).find((part) => part.type === "timeZoneName")?.value ?? "";
}

// Fields use the time zone of the page; URLs use UTC.
const TYPED = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?$/;

/** A typed local time as UTC; any other text unchanged. */
function instantOf(text) {
  const [, day, clock = "00:00"] = TYPED.exec(text.trim()) ?? [];
  const at = new Date(`${day}T${clock}`);
  return Number.isNaN(at.getTime()) ? text : at.toISOString().replace(".000Z", "Z");
}

/** A UTC time as typed local time; any other text unchanged. */
function typedOf(text) {
  const at = new Date(text.endsWith(":00Z") ? text : NaN);
  return Number.isNaN(at.getTime()) ? text : `${dayOf(at)} ${clockOf(at).slice(0, 5)}`;
}

document.addEventListener("formdata", ({ target, formData }) => {
  if (preferred.zone !== "browser" || preferred.times === "utc" || !target.matches(".focus form")) return;
  for (const name of ["from", "to"]) formData.set(name, instantOf(formData.get(name) ?? ""));
});

/** Replaces the zone in headings and fields. */
function nameZone(root, from, to) {
  for (const head of root.querySelectorAll("th, :is(.picks, .when) label")) {
    // Only the text, because the heading may contain a sort link.
    const text = (head.querySelector("a, bdi") ?? head).firstChild;
    if (text instanceof Text && text.data.endsWith(`, ${from}`)) text.data = text.data.slice(0, -from.length) + to;
    for (const named of [head, head.querySelector(".grip")]) {
      if (named?.ariaLabel?.endsWith(`, ${from}`)) named.ariaLabel = named.ariaLabel.slice(0, -from.length) + to;
    }
  }
  for (const field of root.querySelectorAll(".when input[name]")) field.value = (to === "UTC" ? instantOf : typedOf)(field.value);
  for (const place of root.querySelectorAll("span[data-zone]")) place.textContent = to === "UTC" ? to : zoneOf(new Date());
  // In the card layout each cell has its heading.
  for (const cell of root.querySelectorAll(`[data-label$=", ${from}"]`)) {
    cell.dataset.label = cell.dataset.label.slice(0, -from.length) + to;
  }
}

function localTimes(root) {
  if (!(root instanceof Element) || preferred.times === "utc") return;
  for (const time of root.querySelectorAll("time[datetime]")) localTime(time);
  // Not wider than a time, so that columns do not move.
  nameZone(root, "UTC", "local");
}

// [upper bound, divisor, unit], in seconds: the same as on the server.
const UNITS = [[60, 1, "s"], [3600, 60, "min"], [172800, 3600, "h"], [5184000, 86400, "days"], [63072000, 2592000, "months"], [Infinity, 31536000, "years"]];

/** Updates relative times of an open page. */
function tellAges() {
  for (const place of document.querySelectorAll("time + .ago")) {
    const seconds = Math.floor((Date.now() - Date.parse(place.previousElementSibling.dateTime)) / 1000);
    const [, length, unit] = UNITS.find(([end]) => seconds < end);
    const text = `${Math.floor(seconds / length)} ${unit} ago`;
    if (seconds >= 0 && place.textContent !== text) place.textContent = text;
  }
}

setInterval(tellAges, 60_000);

if (preferred.zone === "browser") {
  localTimes(document.body);
  // Parts of pages are loaded later.
  new MutationObserver((changes) => {
    for (const change of changes) change.addedNodes.forEach(localTimes);
  }).observe(document.body, { childList: true, subtree: true });
}
